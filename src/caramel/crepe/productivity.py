"""CREPE's set on productivity (Ma et al. 2023, 4.2): captions of 4 to 12 atoms, with HN-Atom, HN-Swap and HN-Neg, five each.

A random walk through a picture's graph gives what is said, the box around its objects the crop. Captions are by template, or
by a language model (``asked_captions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from caramel.crepe.crops import CropRules, overlap, unfit
from caramel.crepe.example_files import Entailed, Example, Plausible, chosen, write
from caramel.crepe.foils import Told, atom_foils, negation_foils, swap_foils
from caramel.crepe.llm_captions import Tell, templates
from caramel.crepe.subgraph_sampling import union, walk
from caramel.crepe.systematicity import FEW, SAME
from caramel.crepe.visual_genome_graphs import OnReject, Picture
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, SceneGraph, Thesaurus
from caramel.utils.hashing import compute_stable_keys

COMPLEXITIES = range(4, 13)
FOILS = {"atom": atom_foils, "swap": swap_foils, "negate": negation_foils}
NUMBER = 5  # negatives of each type
SHORT = "the walk ends before it has all atoms"
LONE = "what is said has no compound"
NEAR = "the crop is nearly another one of the image"


class Draft(NamedTuple):
    """A part of a picture, and what is to be said of it."""

    image_id: str
    box: Box
    graph: SceneGraph
    whole: SceneGraph


def drafts(
    pictures: Iterable[Picture],
    *,
    complexities: Sequence[int],
    tries: int,
    most: int,
    rules: CropRules,
    seed: int,
    reject: OnReject,
) -> dict[int, list[Draft]]:
    """Return complexity -> what can be said of some pictures in so many atoms.

    Args:
        pictures: one after the other, until there is enough.
        complexities: numbers of atoms.
        tries: walks through a picture for each of them.
        most: drafts of each of them that are wanted.
        rules: of the crops.
        seed: a walk depends on this, the image, its number and the complexity alone.
        reject: is called with each.
    """
    found: dict[int, list[Draft]] = {n: [] for n in complexities}
    known: set[tuple[object, ...]] = set()
    for picture in pictures:
        if all(len(made) >= most for made in found.values()):
            break
        for n in complexities:
            boxes: list[Box] = []
            for number in range(tries):
                if len(found[n]) >= most:
                    break
                key = int(compute_stable_keys([f"{picture.image_id} {n} {number}"], seed)[0])
                graph = walk(picture.graph, n, np.random.default_rng(key))
                box = union(graph) if graph else None
                why = SHORT if graph is None or box is None else None
                if graph and box:
                    why = unfit(box, picture.width, picture.height, rules)
                    why = why or (LONE if not graph.compounds() else None)
                    why = why or (SAME if graph.canonical() in known else None)
                    why = why or (NEAR if any(overlap(box, b) >= rules.overlap for b in boxes) else None)
                if why or graph is None or box is None:
                    reject(Reject(f"image {picture.image_id}, {n} atoms, walk {number}", why or SHORT, ""))
                    continue
                known.add(graph.canonical())
                boxes.append(box)
                found[n].append(Draft(picture.image_id, box, graph, picture.graph))
    return found


def file_of(out: Path, kind: str, n: int) -> Path:
    """Return the file of a type of hard negative and a complexity."""
    return out / kind / f"prod_vg_hard_negs_{kind}_complexity_{n}.csv"


def make(
    drafted: dict[int, list[Draft]],
    words: Thesaurus,
    out: Path,
    *,
    seed: int,
    reject: OnReject,
    plausible: Plausible | None = None,
    tell: Tell = templates,
    entailed: Entailed | None = None,
) -> dict[tuple[str, int], int]:
    """Write the set's files into a folder; return (type, complexity) -> how many examples it has.

    Args:
        drafted: by ``drafts``.
        words: what excludes what.
        out: folder of the release.
        seed: what is drawn depends on this, the image and the caption alone.
        reject: is called with each.
        plausible: picks the most sensible negatives; None: any.
        tell: writes the captions.
        entailed: says which swaps still follow from their caption, so that they are left out; None: the graph alone says it.

    Raises:
        DataError: nothing is left.

    Errors of ``tell`` come before any file is written.
    """
    counts: dict[tuple[str, int], int] = {}
    captions = iter(tell([draft.graph for made in drafted.values() for draft in made]))
    for n, made in drafted.items():
        examples: dict[str, list[Example]] = {kind: [] for kind in FOILS}
        for draft in made:
            caption = next(captions)
            where = f"image {draft.image_id}, {n} atoms"
            if isinstance(caption, str):
                reject(Reject(where, caption, ""))
                continue
            told = Told(caption, draft.graph, draft.whole)
            rng = np.random.default_rng(
                int(compute_stable_keys([f"{draft.image_id} {caption.text}"], seed)[0])
            )
            for kind, foils in FOILS.items():
                judge = entailed if kind == "swap" else None
                negatives = chosen(foils(told, words), caption.text, NUMBER, rng, plausible, judge)
                if len(negatives) < NUMBER:
                    reject(Reject(f"{where}, {kind}", FEW, caption.text))
                else:
                    examples[kind].append(
                        Example(draft.image_id, draft.box, caption.text, {"hard_negs": negatives})
                    )
        for kind, kept in examples.items():
            counts[kind, n] = write(file_of(out, kind, n), kept)
    if not any(counts.values()):
        raise DataError("No caption with hard negatives is left: the rejects say why.")
    return counts
