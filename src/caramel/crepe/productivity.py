"""CREPE's set on productivity (Ma et al. 2023, 4.2): captions of 4 to 12 atoms, with HN-Atom, HN-Swap and HN-Neg, five each.

A random walk through a picture's graph gives what is said, the box around its objects the crop. Captions of four atoms are
by template, longer ones by a language model where there is one; one that leaves an atom out is a reject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from caramel.crepe.crops import CropRules, overlap, unfit
from caramel.crepe.examples import Example, Plausible, chosen, write
from caramel.crepe.foils import SIMPLE, Told, atom_foils, negation_foils, swap_foils
from caramel.crepe.realised import Caption, by_template
from caramel.crepe.systematicity import FEW, SAME
from caramel.crepe.visual_genome_graphs import OnReject, Picture
from caramel.crepe.walks import union, walk
from caramel.draws import stable_keys
from caramel.errors import DataError
from caramel.kinds.benchmark import Reject
from caramel.kinds.scene_graph import Box, SceneGraph, Thesaurus

COMPLEXITIES = range(4, 13)
FOILS = {"atom": atom_foils, "swap": swap_foils, "negate": negation_foils}
NUMBER = 5  # negatives of each type
SHORT = "the walk ends before it has all atoms"
LONE = "what is said has no compound"
NEAR = "the crop is nearly another one of the image"

# What writes captions of graphs: (n,) -> (n,); in place of a caption the reason why there is none.
Write = Callable[[Sequence[SceneGraph]], Sequence[Caption | str]]


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
            for number in range(tries if len(found[n]) < most else 0):
                key = int(stable_keys([f"{picture.image_id} {n} {number}"], seed)[0])
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


def make(
    drafted: dict[int, list[Draft]],
    words: Thesaurus,
    out: Path,
    *,
    writer: Write | None,
    seed: int,
    reject: OnReject,
    plausible: Plausible | None = None,
) -> dict[tuple[str, int], int]:
    """Write the set's files into a folder; return (type, complexity) -> how many examples it has.

    Args:
        drafted: by ``drafts``.
        words: what excludes what.
        out: folder of the release.
        writer: of captions of more than four atoms; None: the template.
        seed: what is drawn depends on this, the image and the caption alone.
        reject: is called with each.
        plausible: picks the most sensible negatives; None: any.

    Raises:
        DataError: nothing is left.
    """
    counts: dict[tuple[str, int], int] = {}
    for n, made in drafted.items():
        graphs = [draft.graph for draft in made]
        written = [*map(by_template, graphs)] if writer is None or n <= SIMPLE else writer(graphs)
        examples: dict[str, list[Example]] = {kind: [] for kind in FOILS}
        for draft, caption in zip(made, written, strict=True):
            where = f"image {draft.image_id}, {n} atoms"
            if isinstance(caption, str):
                reject(Reject(where, caption, ""))
                continue
            told = Told(caption, draft.graph, draft.whole)
            rng = np.random.default_rng(int(stable_keys([f"{draft.image_id} {caption.text}"], seed)[0]))
            for kind, foils in FOILS.items():
                negatives = chosen(foils(told, words), caption.text, NUMBER, rng, plausible)
                if len(negatives) < NUMBER:
                    reject(Reject(f"{where}, {kind}", FEW, caption.text))
                else:
                    examples[kind].append(
                        Example(draft.image_id, draft.box, caption.text, {"hard_negs": negatives})
                    )
        for kind, kept in examples.items():
            counts[kind, n] = write(out / kind / f"prod_vg_hard_negs_{kind}_complexity_{n}.csv", kept)
    if not any(counts.values()):
        raise DataError("No caption with hard negatives is left: the rejects say why.")
    return counts
