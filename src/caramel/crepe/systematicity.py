"""CREPE's set on systematicity (Ma et al. 2023, 4.1): captions of one compound, split by what a corpus has of them.

HN-Atom replaces one atom. HN-Comp says two compounds, each with one atom of the caption replaced: "a pink car" becomes
"blue car and a pink toy".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from caramel.crepe.caption_template import located
from caramel.crepe.corpus_index import seen, split_of
from caramel.crepe.crops import CropRules, unfit
from caramel.crepe.example_files import Example, Plausible, chosen, write
from caramel.crepe.foils import Told, atom_foils, edited, with_words
from caramel.crepe.matching import holds
from caramel.crepe.visual_genome_graphs import OnReject, Picture
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, Place, SceneGraph, Thesaurus
from caramel.sources.captions.words import DETERMINERS, article
from caramel.utils.hashing import compute_stable_keys

ATOM, COMP = "valid_hard_negs_atom", "valid_hard_negs_comp"
NUMBERS = {ATOM: 4, COMP: 6}
SPLITS = {"sc": "seen_compounds", "uc": "unseen_compounds", "ua": "unseen_atoms"}
NOT_ONE = "the region does not have one compound"
UNSAID = "the description does not say an atom of its graph"
SAME = "another region says the same"
FEW = "there are too few hard negatives"
MOST = 1_000  # pairs of foils of two atoms that are looked at


class Said(NamedTuple):
    """A region of one compound: image, crop, caption with its graph."""

    image_id: str
    box: Box
    told: Told


def described(pictures: Iterable[Picture], reject: OnReject, rules: CropRules) -> Iterator[Said]:
    """Yield the regions that make an example: one compound, said by the description, in a crop that is fit; each once.

    Descriptions that say the same by their graphs are one, the first.
    """
    known: set[tuple[object, ...]] = set()
    for picture in pictures:
        for region in picture.regions:
            where = f"image {picture.image_id}"
            graph = region.graph
            told = located(region.phrase, graph)
            why = unfit(region.box, picture.width, picture.height, rules)
            if not is_compound(graph):
                why = NOT_ONE
            elif isinstance(told, str):
                why = UNSAID
            elif why is None and graph.canonical() in known:
                why = SAME
            if why is None and not isinstance(told, str):
                known.add(graph.canonical())
                yield Said(picture.image_id, region.box, Told(told, graph, picture.graph))
            else:
                reject(Reject(where, why or UNSAID, region.phrase))


def is_compound(graph: SceneGraph) -> bool:
    """Return whether a graph is one compound and nothing else."""
    return sorted(place.kind for place in graph.places()) in (["att", "obj"], ["obj", "obj", "rel"])


def comp_foils(told: Told, words: Thesaurus, rng: np.random.Generator) -> Iterator[str]:
    """Yield captions of two compounds, each with another atom of the caption's one replaced, both false.

    Of many pairs of foils some are drawn.
    """
    places = told.graph.places()
    foiled: dict[Place, list[str]] = {
        place: [
            edited(told.caption, {place: foil})
            for foil in words.foils(place.kind, word)
            if foil not in places.values()
            and not holds(with_words(told.graph, {place: foil}), told.whole, words)
        ]
        for place, word in places.items()
    }
    for a, b in itertools.permutations(foiled, 2):
        number = len(foiled[a]) * len(foiled[b])
        for pair in rng.permutation(number)[:MOST].tolist():
            first, second = pair // len(foiled[b]), pair % len(foiled[b])
            yield _joined(foiled[a][first], foiled[b][second])


def _joined(first: str, second: str) -> str:
    """Return two phrases as one: the second with an article, and what ends it at the end."""
    said = first.rstrip(".! ")
    opening = second.split(maxsplit=1)[0].lower()
    if opening in DETERMINERS or opening == "there":
        return f"{said} and {second[0].lower()}{second[1:]}"
    return f"{said} and {article(second)} {second}"


def files(out: Path, name: str) -> dict[str, Path]:
    """Return split -> its file, of the set for a corpus of some name."""
    return {split: out / f"syst_vg_hard_negs_{words}_in_{name}.csv" for split, words in SPLITS.items()}


def make(
    regions: Callable[[], Iterable[Said]],
    words: Thesaurus,
    index: Path,
    out: Path,
    *,
    name: str,
    seed: int,
    reject: OnReject,
    plausible: Plausible | None = None,
) -> dict[str, int]:
    """Write the set's files for one corpus into a folder; return how many examples each split has.

    Args:
        regions: gives those that are asked about, twice the same.
        words: what excludes what.
        index: of the corpus, by ``corpus_index.build``.
        out: folder of the release.
        name: of the corpus, as in ``…_in_NAME.csv``.
        seed: what is drawn depends on this, the image and the caption alone.
        reject: is called with each.
        plausible: picks the most sensible negatives; None: any.

    Raises:
        DataError: no region is left.
    """
    known = seen(index, (said.told.graph for said in regions()))
    found: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for said in regions():
        split = split_of(said.told.graph, known)
        rng = np.random.default_rng(
            int(compute_stable_keys([f"{said.image_id} {said.told.caption.text}"], seed)[0])
        )
        made = {ATOM: atom_foils(said.told, words), COMP: comp_foils(said.told, words, rng)}
        negatives = {
            column: chosen(texts, said.told.caption.text, NUMBERS[column], rng, plausible)
            for column, texts in made.items()
        }
        if any(len(negatives[column]) < number for column, number in NUMBERS.items()):
            reject(Reject(f"image {said.image_id}", FEW, said.told.caption.text))
        else:
            found[split].append(Example(said.image_id, said.box, said.told.caption.text, negatives))
    names = files(out, name)
    counts = {split: write(names[split], examples) for split, examples in found.items()}
    if not any(counts.values()):
        raise DataError("No region of one compound with hard negatives is left: the rejects say why.")
    return counts
