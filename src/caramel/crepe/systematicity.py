"""Build CREPE's systematicity set (Ma et al. 2023, 4.1): descriptions of regions, split by what a corpus contains.

D_RAW has all descriptions of at least two atoms and one compound. D_HN has those of exactly one compound, with hard
negatives.

HN-Atom replaces one atom. HN-Comp has two compounds, each with one atom of the caption replaced: "a pink car"
becomes "blue car and a pink toy".
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from caramel.crepe.atom_foils import (
    draw_atom_foils,
    generate_atom_foils,
    is_false_change,
    list_position_foils,
)
from caramel.crepe.caption_template import locate_atoms
from caramel.crepe.corpus_index import assign_split, count_seen_items, split_item
from caramel.crepe.crops import CropRules, find_crop_problem
from caramel.crepe.example_files import (
    Example,
    PlausibilityScorer,
    Sampling,
    open_spools,
    select_negatives,
    take_negatives,
)
from caramel.crepe.foils import CaptionedGraph, replace_caption_words
from caramel.crepe.results.frequencies import Item, list_typed_items, write_frequencies
from caramel.crepe.visual_genome_graphs import ImageGraph, OnReject
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, GraphPosition, SceneGraph, Thesaurus
from caramel.sources.captions.words import DETERMINERS, choose_article
from caramel.utils.hashing import compute_stable_keys

ATOM, COMP = "valid_hard_negs_atom", "valid_hard_negs_comp"
NUMBERS = {ATOM: 4, COMP: 6}
SPLITS = {"sc": "seen_compounds", "uc": "unseen_compounds", "ua": "unseen_atoms"}
NONE = "the region has no compound"
SEVERAL = "the region has several compounds: no hard negatives are made of it"
UNSAID = "the description does not say an atom of its graph"
SAME = "another region says the same"
FEW = "there are too few hard negatives"
MOST = 1_000  # largest number of examined pairs of foils of two atoms in a pool of all foils


class RegionExample(NamedTuple):
    """A region with a compound: image, crop, and caption with its graph."""

    image_id: str
    box: Box
    captioned: CaptionedGraph


def iter_region_examples(
    images: Iterable[ImageGraph], reject: OnReject, rules: CropRules
) -> Iterator[RegionExample]:
    """Yield each region that makes an example: its description states a compound, and its crop is suitable.

    A compound has at least two atoms.

    Of descriptions with equal graphs, only the first is used.
    """
    known: set[bytes] = set()
    for image in images:
        for region in image.regions:
            where = f"image {image.image_id}"
            graph = region.graph
            caption = locate_atoms(region.phrase, graph)
            why = find_crop_problem(region.box, image.width, image.height, rules)
            if not graph.list_compounds():
                why = NONE
            elif isinstance(caption, str):
                why = UNSAID
            elif why is None and _hash_graph(graph) in known:
                why = SAME
            if why is None and not isinstance(caption, str):
                known.add(_hash_graph(graph))
                yield RegionExample(image.image_id, region.box, CaptionedGraph(caption, graph, image.graph))
            else:
                reject(Reject(where, why or UNSAID, region.phrase))


def _hash_graph(graph: SceneGraph) -> bytes:
    """Return a hash of a graph's content: the graphs of a million regions would fill gigabytes."""
    return hashlib.blake2b(repr(graph.canonicalise()).encode(), digest_size=16).digest()


def is_compound(graph: SceneGraph) -> bool:
    """Return whether a graph is exactly one compound."""
    return sorted(position.atom_type for position in graph.list_positions()) in (
        ["att", "obj"],
        ["obj", "obj", "rel"],
    )


def generate_compound_foils(
    captioned: CaptionedGraph, words: Thesaurus, rng: np.random.Generator
) -> Iterator[str]:
    """Yield captions of two compounds, each with another atom of the caption's compound replaced.

    Both compounds are false.

    If there are many pairs of foils, a random sample is used.
    """
    positions = captioned.graph.list_positions()
    foiled: dict[GraphPosition, list[str]] = {
        position: [
            replace_caption_words(captioned.caption, {position: foil})
            for foil in list_position_foils(captioned, words, position)
            if foil not in positions.values() and is_false_change(captioned, words, position, foil)
        ]
        for position in positions
    }
    for a, b in itertools.permutations(foiled, 2):
        number = len(foiled[a]) * len(foiled[b])
        for pair in rng.permutation(number)[:MOST].tolist():
            first, second = pair // len(foiled[b]), pair % len(foiled[b])
            yield _join_phrases(foiled[a][first], foiled[b][second])


def draw_compound_foils(
    captioned: CaptionedGraph, words: Thesaurus, rng: np.random.Generator
) -> Iterator[str]:
    """Yield the same captions from all pairs of foils, each pair of atoms with the same chance of being next."""
    foils = {p: list_position_foils(captioned, words, p) for p in captioned.graph.list_positions()}
    foils = {
        p: [w for w in listed if w not in captioned.graph.list_positions().values()]
        for p, listed in foils.items()
    }
    checked: dict[tuple[GraphPosition, str], bool] = {}
    left = {
        (a, b): rng.permutation(len(foils[a]) * len(foils[b])).tolist()
        for a, b in itertools.permutations([p for p in foils if foils[p]], 2)
    }
    while left:
        a, b = list(left)[int(rng.integers(len(left)))]
        first, second = divmod(left[a, b].pop(), len(foils[b]))
        if not left[a, b]:
            del left[a, b]
        changes = (a, foils[a][first]), (b, foils[b][second])
        for change in changes:
            if change not in checked:
                checked[change] = is_false_change(captioned, words, *change)
        if all(checked[change] for change in changes):
            yield _join_phrases(
                *(replace_caption_words(captioned.caption, dict([change])) for change in changes)
            )


def _join_phrases(first: str, second: str) -> str:
    """Join two phrases; the second gets an article, and the final mark goes to the end."""
    start = first.rstrip(".! ")
    opening = second.split(maxsplit=1)[0].lower()
    if opening in DETERMINERS or opening == "there":
        return f"{start} and {second[0].lower()}{second[1:]}"
    return f"{start} and {choose_article(second)} {second}"


def _select_region_negatives(
    captioned: CaptionedGraph,
    words: Thesaurus,
    rng: np.random.Generator,
    plausible: PlausibilityScorer | None,
    sampling: Sampling,
) -> dict[str, list[str]]:
    """Return column -> negatives of a region."""
    text = captioned.caption.text
    if sampling == "place":
        drawn = {ATOM: draw_atom_foils, COMP: draw_compound_foils}
        return {
            column: take_negatives(draw(captioned, words, rng), text, NUMBERS[column], plausible)
            for column, draw in drawn.items()
        }
    pools = {
        ATOM: generate_atom_foils(captioned, words),
        COMP: generate_compound_foils(captioned, words, rng),
    }
    return {
        column: select_negatives(texts, text, NUMBERS[column], rng, plausible)
        for column, texts in pools.items()
    }


def get_file_paths(out: Path, name: str) -> dict[str, Path]:
    """Return split -> file of the set for a corpus of this name."""
    return {split: out / f"syst_vg_hard_negs_{words}_in_{name}.csv" for split, words in SPLITS.items()}


def get_frequency_path(out: Path, name: str) -> Path:
    """Return the file of how often the set and the corpus of this name have each atom and compound."""
    return out / f"frequencies_in_{name}.csv"


def get_raw_path(folder: Path, split: str, name: str) -> Path:
    """Return the file of D_RAW for a split and a corpus of this name."""
    return folder / f"{SPLITS[split]}_in_{name}.csv"


def write_systematicity_files(
    regions: Callable[[], Iterable[RegionExample]],
    words: Thesaurus,
    index: Path,
    out: Path,
    *,
    name: str,
    seed: int,
    reject: OnReject,
    plausible: PlausibilityScorer | None = None,
    sampling: Sampling = "place",
    raw: Path | None = None,
) -> dict[str, int]:
    """Write the set's files for one corpus into a folder; return the number of examples of each split.

    Args:
        regions: returns the regions; it is called twice and must return the same regions.
        words: thesaurus that determines which words exclude each other.
        index: index of the corpus, from ``corpus_index.build_index``.
        out: folder of the release.
        name: name of the corpus, as in ``…_in_NAME.csv``.
        seed: each draw depends only on this, the image and the caption.
        reject: called with each reject.
        plausible: scores the negatives, and the most plausible are selected; None: a random selection.
        sampling: how negatives are drawn.
        raw: folder of D_RAW: a file of all regions for each split; None: it is not written.

    Raises:
        DataError: no region is left.
    """
    known = count_seen_items(index, (region.captioned.graph for region in regions()))
    items_by_split: dict[str, Counter[Item]] = {split: Counter() for split in SPLITS}
    with open_spools(SPLITS) as examples, open_spools(SPLITS) as pairs:
        for region in regions():
            split = assign_split(region.captioned.graph, known)
            text = region.captioned.caption.text
            if raw is not None:
                pairs[split].add_example(Example(region.image_id, region.box, text, {}))
            if not is_compound(region.captioned.graph):
                reject(Reject(f"image {region.image_id}", SEVERAL, text))
                continue
            rng = np.random.default_rng(int(compute_stable_keys([f"{region.image_id} {text}"], seed)[0]))
            negatives = _select_region_negatives(region.captioned, words, rng, plausible, sampling)
            if any(len(negatives[column]) < number for column, number in NUMBERS.items()):
                reject(Reject(f"image {region.image_id}", FEW, text))
            else:
                items_by_split[split].update(list_typed_items(region.captioned.graph))
                examples[split].add_example(Example(region.image_id, region.box, text, negatives))
        names = get_file_paths(out, name)
        counts = {split: spool.write(names[split]) for split, spool in examples.items()}
        corpus_counts = {split_item(item): count for item, count in known.items()}
        write_frequencies(get_frequency_path(out, name), items_by_split, corpus_counts)
        if raw is not None:
            for split, spool in pairs.items():
                spool.write(get_raw_path(raw, split, name))
    if not any(counts.values()):
        raise DataError(
            "No region of one compound with hard negatives is left: see the rejects for the reasons."
        )
    return counts
