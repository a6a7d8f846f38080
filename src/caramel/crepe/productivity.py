"""Build CREPE's productivity set (Ma et al. 2023, 4.2): captions of 4 to 12 atoms with negatives.

Each caption has five negatives of each type. The types are HN-Atom, HN-Swap and HN-Neg. A random walk through
an image's graph selects the atoms of the caption. The box around their objects is the crop. Captions are
written by the template, or by a language model (``llm_captions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from caramel.crepe.atom_foils import draw_atom_foils, generate_atom_foils
from caramel.crepe.crops import CropRules, compute_iou, find_crop_problem
from caramel.crepe.example_files import (
    EntailmentScorer,
    Example,
    PlausibilityScorer,
    Sampling,
    select_negatives,
    take_negatives,
    write_examples,
)
from caramel.crepe.foils import CaptionedGraph, generate_negation_foils, generate_swap_foils
from caramel.crepe.llm_captions import CaptionWriter, write_template_captions
from caramel.crepe.subgraph_sampling import compute_bounding_box, sample_subgraph
from caramel.crepe.systematicity import FEW, SAME
from caramel.crepe.visual_genome_graphs import ImageGraph, OnReject
from caramel.errors import DataError
from caramel.interfaces.benchmark import Reject
from caramel.interfaces.scene_graph import Box, SceneGraph, Thesaurus
from caramel.utils.hashing import compute_stable_keys

COMPLEXITIES = range(4, 13)
FOILS = {"atom": generate_atom_foils, "swap": generate_swap_foils, "negate": generate_negation_foils}
NUMBER = 5  # negatives of each type
COLUMN = "hard_negs"
SHORT = "the walk ends before it has all atoms"
LONE = "what is said has no compound"
NEAR = "the crop is nearly another one of the image"


class Draft(NamedTuple):
    """A crop of an image, and the graph that its caption must describe."""

    image_id: str
    box: Box
    graph: SceneGraph
    whole: SceneGraph


def sample_drafts(
    images: Iterable[ImageGraph],
    *,
    complexities: Sequence[int],
    tries: int,
    most: int,
    rules: CropRules,
    seed: int,
    reject: OnReject,
    repeat_names: bool = False,
) -> dict[int, list[Draft]]:
    """Return complexity -> subgraphs of some images with this number of atoms.

    Args:
        images: processed one after the other, until there are enough drafts.
        complexities: numbers of atoms.
        tries: walks through an image for each complexity.
        most: largest number of drafts for each complexity.
        rules: requirements of the crops.
        seed: a walk depends only on this, the image, the walk's number and the complexity.
        reject: called with each reject.
        repeat_names: whether a caption may have two objects of the same name, as published.
    """
    drafts_by_complexity: dict[int, list[Draft]] = {n: [] for n in complexities}
    known: set[tuple[object, ...]] = set()
    for image in images:
        if all(len(samples) >= most for samples in drafts_by_complexity.values()):
            break
        for n in complexities:
            boxes: list[Box] = []
            for number in range(tries):
                if len(drafts_by_complexity[n]) >= most:
                    break
                key = int(compute_stable_keys([f"{image.image_id} {n} {number}"], seed)[0])
                graph = sample_subgraph(image.graph, n, np.random.default_rng(key), repeat_names=repeat_names)
                box = compute_bounding_box(graph) if graph else None
                why = SHORT if graph is None or box is None else None
                if graph and box:
                    why = find_crop_problem(box, image.width, image.height, rules)
                    why = why or (LONE if not graph.list_compounds() else None)
                    why = why or (SAME if graph.canonicalise() in known else None)
                    why = why or (NEAR if any(compute_iou(box, b) >= rules.overlap for b in boxes) else None)
                if why or graph is None or box is None:
                    reject(Reject(f"image {image.image_id}, {n} atoms, walk {number}", why or SHORT, ""))
                    continue
                known.add(graph.canonicalise())
                boxes.append(box)
                drafts_by_complexity[n].append(Draft(image.image_id, box, graph, image.graph))
    return drafts_by_complexity


def get_file_path(out: Path, negative_type: str, n: int) -> Path:
    """Return the file of a type of hard negative and a complexity."""
    return out / negative_type / f"prod_vg_hard_negs_{negative_type}_complexity_{n}.csv"


def get_raw_path(folder: Path, n: int) -> Path:
    """Return the file of D_RAW for a complexity."""
    return folder / f"n{n}.csv"


def write_productivity_files(
    drafted: dict[int, list[Draft]],
    words: Thesaurus,
    out: Path,
    *,
    seed: int,
    reject: OnReject,
    plausible: PlausibilityScorer | None = None,
    sampling: Sampling = "place",
    write_captions: CaptionWriter = write_template_captions,
    entailed: EntailmentScorer | None = None,
    raw: Path | None = None,
) -> dict[tuple[str, int], int]:
    """Write the set's files into a folder; return (type, complexity) -> number of examples.

    Args:
        drafted: from ``sample_drafts``.
        words: thesaurus that determines which words exclude each other.
        out: folder of the release.
        seed: each draw depends only on this, the image and the caption.
        reject: called with each reject.
        plausible: scores the negatives, and the most plausible are selected; None: a random selection.
        sampling: how negatives of the type atom are drawn.
        write_captions: writes the captions.
        entailed: finds swaps that still follow from their caption, which are left out; None: only the graph
            decides.
        raw: folder of D_RAW: a file of all captions for each complexity; None: it is not written.

    Raises:
        DataError: no example is left.

    Errors of ``write_captions`` occur before any file is written.
    """
    counts: dict[tuple[str, int], int] = {}
    captions = iter(write_captions([draft.graph for samples in drafted.values() for draft in samples]))
    for n, samples in drafted.items():
        examples: dict[str, list[Example]] = {negative_type: [] for negative_type in FOILS}
        pairs: list[Example] = []
        for draft in samples:
            caption = next(captions)
            where = f"image {draft.image_id}, {n} atoms"
            if isinstance(caption, str):
                reject(Reject(where, caption, ""))
                continue
            pairs.append(Example(draft.image_id, draft.box, caption.text, {}))
            captioned = CaptionedGraph(caption, draft.graph, draft.whole)
            rng = np.random.default_rng(
                int(compute_stable_keys([f"{draft.image_id} {caption.text}"], seed)[0])
            )
            for negative_type, foils in FOILS.items():
                judge = entailed if negative_type == "swap" else None
                if negative_type == "atom" and sampling == "place":
                    drawn = draw_atom_foils(captioned, words, rng)
                    negatives = take_negatives(drawn, caption.text, NUMBER, plausible)
                else:
                    texts = foils(captioned, words)
                    negatives = select_negatives(texts, caption.text, NUMBER, rng, plausible, judge)
                if len(negatives) < NUMBER:
                    reject(Reject(f"{where}, {negative_type}", FEW, caption.text))
                else:
                    examples[negative_type].append(
                        Example(draft.image_id, draft.box, caption.text, {COLUMN: negatives})
                    )
        if raw is not None:
            write_examples(get_raw_path(raw, n), pairs)
        for negative_type, selected in examples.items():
            counts[negative_type, n] = write_examples(get_file_path(out, negative_type, n), selected)
    if not any(counts.values()):
        raise DataError("No caption with hard negatives is left: see the rejects for the reasons.")
    return counts
