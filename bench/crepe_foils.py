"""Draw CREPE's atomic foils for real captions, to read them, and measure how fast they are drawn.

    python bench/crepe_foils.py read FOLDER --words wordnet:/usr/share/wordnet --parser spacy:en_core_web_sm --seed 1
    python bench/crepe_foils.py speed FOLDER --words wordnet:/usr/share/wordnet --parser spacy:en_core_web_sm

FOLDER has SugarCrepe's JSON files. `read` prints captions, each with one foil. `speed` makes an image of eight
captions, with one region for each of their compounds, and prints the regions per second and processor of
`caramel crepe systematicity`, without the reading of Visual Genome's JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from caramel.crepe.atom_foils import draw_atom_foils
from caramel.crepe.caption_template import locate_atoms, write_template_caption
from caramel.crepe.corpus_index import build_index
from caramel.crepe.crops import CropRules
from caramel.crepe.foils import CaptionedGraph
from caramel.crepe.systematicity import RegionExample, iter_region_examples, write_systematicity_files
from caramel.crepe.visual_genome_graphs import ImageGraph, Region
from caramel.interfaces.scene_graph import Atom, Edge, Node, SceneGraph, Thesaurus
from caramel.registry import GRAPH_PARSERS, THESAURI

READ = 30  # captions with a foil to read
PER_IMAGE = 8  # captions of an image: about 25 objects, as Visual Genome's images have
SIDE = 300.0  # of a region in pixels


def read_captions(folder: Path) -> list[str]:
    """Return the different captions of SugarCrepe's files, sorted."""
    files = sorted(folder.glob("*.json"))
    rows = itertools.chain.from_iterable(
        json.loads(file.read_text(encoding="utf-8")).values() for file in files
    )
    return sorted({row["caption"].strip() for row in rows})


def parse_captions(captions: list[str], parser: str) -> list[SceneGraph]:
    """Return the graphs of captions, with the nouns as they are written: "dogs" stays a plural."""
    name, _, target = parser.partition(":")
    tokens = [caption.lower().replace(".", " ").replace(",", " ").split() for caption in captions]
    written = {" ".join(row[i : i + n]) for row in tokens for n in (1, 2, 3) for i in range(len(row) - n + 1)}
    return GRAPH_PARSERS[name].load(target, frozenset(("obj", word) for word in written))(captions)


def keep_written(text: str, graph: SceneGraph) -> CaptionedGraph | None:
    """Return the atoms that stand in a text as they are; None if no compound does, or two nouns are alike."""
    edges = tuple(
        edge for edge in graph.edges if not isinstance(locate_atoms(text, _isolate(graph, edge)), str)
    )
    written = replace(graph, edges=edges)
    caption = locate_atoms(text, written)
    alike = len({node.name for node in graph.nodes}) < len(graph.nodes)
    if isinstance(caption, str) or alike or not written.list_compounds():
        return None
    return CaptionedGraph(caption, written, written)


def _isolate(graph: SceneGraph, edge: Edge) -> SceneGraph:
    return SceneGraph((graph.nodes[edge.subject], graph.nodes[edge.object]), (Edge(0, edge.name, 1),))


def list_nouns(graphs: Iterable[SceneGraph]) -> frozenset[Atom]:
    """Return the objects of some graphs."""
    return frozenset(("obj", node.name) for graph in graphs for node in graph.nodes)


def print_foils(captions: list[str], graphs: list[SceneGraph], words: Thesaurus, seed: int) -> None:
    """Print captions in random order, each with the foil that is drawn first."""
    rng = np.random.default_rng(seed)
    number = 0
    for i in rng.permutation(len(captions)).tolist():
        captioned = keep_written(captions[i], graphs[i])
        foil = captioned and next(draw_atom_foils(captioned, words, rng), None)
        if foil:
            number += 1
            print(f"{number:2}  {captions[i]}\n    {foil}")
        if number == READ:
            return


def build_images(graphs: list[SceneGraph]) -> Iterator[ImageGraph]:
    """Yield images of some captions, with a region for each compound."""
    parts = (graphs[start : start + PER_IMAGE] for start in range(0, len(graphs), PER_IMAGE))
    for number, part in enumerate(parts):
        nodes, edges, regions = list[Node](), list[Edge](), list[Region]()
        for graph in part:
            shift = len(nodes)
            edges += [Edge(e.subject + shift, e.name, e.object + shift) for e in graph.edges]
            nodes += graph.nodes
            compounds = [_isolate(replace_attributes(graph), edge) for edge in graph.edges]
            compounds += [SceneGraph((Node(n.name, (w,)),)) for n in graph.nodes for w in n.attributes]
            regions += [Region((0.0, 0.0, SIDE, SIDE), write_template_caption(g).text, g) for g in compounds]
        yield ImageGraph(str(number), 800, 800, SceneGraph(tuple(nodes), tuple(edges)), tuple(regions))


def replace_attributes(graph: SceneGraph) -> SceneGraph:
    """Return a graph without attributes."""
    return replace(graph, nodes=tuple(replace(node, attributes=()) for node in graph.nodes))


def measure_speed(graphs: list[SceneGraph], captions: list[str], words: str) -> None:
    """Print regions per second and processor."""
    images = list(build_images(graphs))
    atoms = {atom for image in images for atom in image.graph.list_atoms()}
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "captions.txt"
        corpus.write_text("\n".join(captions), encoding="utf-8")
        index = build_index(corpus, atoms, column="caption", folder=Path(folder) / "index")
        name, _, target = words.partition(":")
        thesaurus = THESAURI[name](target, lambda: list_nouns(graphs))
        rejects: Counter[str] = Counter()
        rules = CropRules(area=0)

        def iter_regions() -> Iterator[RegionExample]:
            return iter_region_examples(images, lambda row: rejects.update([row.reason]), rules)

        start = time.perf_counter()
        counts = write_systematicity_files(
            iter_regions,
            thesaurus,
            index,
            Path(folder) / "out",
            name="x",
            seed=0,
            reject=lambda row: rejects.update([row.reason]),
        )
        seconds = time.perf_counter() - start
    regions = sum(1 for _ in iter_regions())
    print(
        f"{regions:,} regions, {seconds:.1f} s: {regions / seconds:,.0f} regions/s; {counts} {dict(rejects)}"
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["read", "speed"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", default="lists")
    parser.add_argument("--parser", default="spacy:en_core_web_sm")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    captions = read_captions(given.folder)
    graphs = parse_captions(captions, given.parser)
    if given.command == "speed":
        measure_speed(graphs, captions, given.words)
    else:
        name, _, target = given.words.partition(":")
        print_foils(captions, graphs, THESAURI[name](target, lambda: list_nouns(graphs)), given.seed)


if __name__ == "__main__":
    main()
