"""Fit linear probes that predict object positions from a model's embeddings.

On images of two objects the probes predict

- which two cells are filled
- for each noun, the cell that it is in
- from the predictions for both nouns, the relation between them

Each noun has its own probe, because the cell of a noun is a linear function of an image vector. Which of two
nouns is on the left is not such a function. On texts a probe predicts the relation word of the caption.

A probe is a ridge regression on one-hot classes. Its penalty is selected by leave-one-out on its own training
scenes. It is evaluated on held-out scenes (``FOLDS`` folds of scenes). Chance is the share of the most frequent
class. The positive control fits the same probes on the mean colours of image patches, which hold all positions.
What the control misses says nothing about a model.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from caramel.benchmarks.image_files import compute_content_keys, read_encoded_images
from caramel.evaluation.results.bound_columns import CELLS, NOUN, PIXELS, PROBE_COLUMNS, RELATION, WORD
from caramel.evaluation.results.summary import parse_variant
from caramel.evaluation.scores.encoding import RunConfig, encode_items
from caramel.evaluation.scores.item_scores import DualEncoderScores
from caramel.interfaces.benchmark import ImageFile, Index
from caramel.interfaces.model import DualEncoder
from caramel.interfaces.settings import Compute, Execution
from caramel.io.image_codec import decode_center_crop
from caramel.models.devices import get_gpus_per_worker, resolve_device
from caramel.models.specs import open_model
from caramel.runtime.ray.trials import select_executors
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.drawing import CANVAS
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import GRID, NOUNS, RELATIONS, Scene
from caramel.utils.arrays import Floats, Ints
from caramel.utils.stats import wilson_interval

FOLDS = 5
PATCH = 8  # pixels
LEAST = 10  # smallest number of scenes that a noun needs to be probed
PENALTIES = tuple(10.0**power for power in range(-1, 5))
N_CELLS = GRID * GRID
# Ordered pairs of cells in one row or column -> index into RELATIONS, the relation of the first cell to the second.
ALIGNED = {
    (a, b): RELATIONS.index(("left" if a < b else "right") if a // GRID == b // GRID else ("above" if a < b else "below"))
    for a, b in itertools.permutations(range(N_CELLS), 2)
    if a // GRID == b // GRID or a % GRID == b % GRID
}  # fmt: skip


class ProbePredictions(NamedTuple):
    """A probe's predictions on held-out scenes and the truth: class indices, (n,) each."""

    predicted: Ints
    true: Ints


def probe_positions(
    folders: Mapping[str, str],
    data: Path,
    *,
    split: str,
    device: str,
    batch_size: int,
    execution: Execution,
) -> pd.DataFrame:
    """Return the accuracy of the probes on the first run of each variant, as ``PROBE_COLUMNS``.

    There are no rows if fewer than ``LEAST`` scenes are known. ``n`` counts scenes, and captions for the target
    ``relation word``. The interval is Wilson's for that number.

    Args:
        folders: checkpoint folder by name of the model.
        data: folder of tables ``pairs`` and ``images``.
        split: split of the pairs.
        device: auto, cpu or cuda.
        batch_size: items per forward pass.
        execution: with Ray, shards are encoded on a cluster whose nodes share no disk, or else on this machine.
            The folder holds the embedding store; vectors in the store are not encoded again.
    """
    scenes = read_scenes(data, split)
    if len(scenes) < LEAST:
        return pd.DataFrame(columns=list(PROBE_COLUMNS))
    images = [ImageFile(str(data / "images.parquet"), name=name) for name in scenes["image_id"]]
    keys, texts = compute_content_keys(images), list(dict.fromkeys(scenes["caption"]))
    at_text = [texts.index(caption) for caption in scenes["caption"]]
    device, store = resolve_device(device), str(execution.folder / "embeddings")
    first: dict[str, str] = {}
    for name in folders:
        first.setdefault(parse_variant(name), name)
    _, of_shards = select_executors(execution.executor, len(first))
    gpus = get_gpus_per_worker(execution.gpus, device)
    control = compute_readings(
        read_patches(read_encoded_images(images)), np.zeros((len(scenes), 1)), scenes.assign(word=-1)
    )
    rows = _build_rows(PIXELS, control)
    for name in first.values():
        spec = f"{name}=open_clip:{folders[name]}"
        run = RunConfig(spec, Compute(device, "fp32"), batch_size, store, of_shards, gpus)
        model = open_model(spec, device, "fp32")
        assert isinstance(model, DualEncoder)
        vectors = encode_items(images, keys, texts, _build_empty_pairs, run, model)
        assert isinstance(vectors, DualEncoderScores)
        readings = compute_readings(
            np.asarray(vectors.images[vectors.image_index], float),
            np.asarray(vectors.texts[at_text], float),
            scenes,
        )
        rows += _build_rows(name, readings)
    return pd.DataFrame(rows, columns=list(PROBE_COLUMNS))


def _build_empty_pairs() -> tuple[Index, Index]:
    return np.empty(0, np.int64), np.empty(0, np.int64)


def read_scenes(data: Path, split: str) -> pd.DataFrame:
    """Return the scenes of two objects, one row per image: image_id, caption, nouns and cells (lists of two), word.

    ``nouns`` are in the order of ``NOUNS``. ``word`` is the result of ``find_relation_word`` for the caption.
    """
    pairs = read_table(PAIRS, data / "pairs.parquet")
    names = {*read_table(IMAGES, data / "images.parquet", ["image_id"])["image_id"]}
    known = pairs[(pairs["split"] == split) & (pairs["source"] == "world") & pairs["scene"].notna()]
    known = known[known["image_id"].isin(names)].drop_duplicates("image_id")
    rows = []
    for image_id, caption, scene in zip(known["image_id"], known["caption"], known["scene"], strict=True):
        objects = sorted(Scene.from_json(scene).things, key=lambda item: NOUNS.index(item.noun))
        if len(objects) == 2:
            nouns, cells = [t.noun for t in objects], [GRID * t.row + t.column for t in objects]
            rows.append((image_id, caption, nouns, cells, find_relation_word(caption)))
    return pd.DataFrame(rows, columns=["image_id", "caption", "nouns", "cells", "word"])


def find_relation_word(caption: str) -> int:
    """Return the index in ``RELATIONS`` of a caption's only relation word; -1 unless it has exactly one."""
    parsed = parse_caption(caption)
    words = re.findall(rf"\b({'|'.join(RELATIONS)})\b", caption)
    if parsed is None or len(parsed.whole.relations) != 1 or len(words) != 1:
        return -1
    return RELATIONS.index(words[0])


# In such small products, threads only wait for each other.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def compute_readings(images: Floats, texts: Floats, scenes: pd.DataFrame) -> dict[str, ProbePredictions]:
    """Return the predictions of each target's probe; a target without enough scenes is left out.

    Args:
        images: vectors of the images, (n, d).
        texts: vectors of the captions, (n, d).
        scenes: result of ``read_scenes``.
    """
    cells = np.array(scenes["cells"].tolist(), np.int64)  # (n, 2)
    folds = np.random.default_rng(0).permutation(len(scenes)) % FOLDS
    filled = [tuple(sorted(pair)) for pair in cells.tolist()]
    classes = [*itertools.combinations(range(N_CELLS), 2)]
    of_cells = np.array([classes.index(pair) for pair in filled], np.int64)
    readings = {
        CELLS: ProbePredictions(fit_scores(images, of_cells, len(classes), folds).argmax(1), of_cells)
    }
    scores, probed = _score_nouns(images, scenes, cells, folds)
    if probed.any():
        readings[NOUN] = ProbePredictions(scores[probed].argmax(1), cells[probed])
    aligned = np.array([pair in ALIGNED for pair in map(tuple, cells.tolist())]) & probed.all(axis=1)
    if aligned.any():
        true = np.array([ALIGNED[a, b] for a, b in cells[aligned].tolist()], np.int64)
        readings[RELATION] = ProbePredictions(_read_relations(scores[aligned]), true)
    words = scenes["word"].to_numpy(np.int64)
    word_mask = words >= 0
    if word_mask.sum() >= LEAST:
        word_scores = fit_scores(texts[word_mask], words[word_mask], len(RELATIONS), folds[word_mask])
        readings[WORD] = ProbePredictions(word_scores.argmax(1), words[word_mask])
    return readings


def _score_nouns(images: Floats, scenes: pd.DataFrame, cells: Ints, folds: Ints) -> tuple[Floats, np.ndarray]:
    """Return the cells' scores for both nouns of each scene, (n, 2, cells), and which nouns have a probe, (n, 2)."""
    nouns = np.array(scenes["nouns"].tolist())
    scores, probed = np.zeros((len(scenes), 2, N_CELLS)), np.zeros((len(scenes), 2), bool)
    for noun in NOUNS:
        row, which = np.nonzero(nouns == noun)
        if len(row) >= LEAST:
            scores[row, which] = fit_scores(images[row], cells[row, which], N_CELLS, folds[row])
            probed[row, which] = True
    return scores, probed


def _read_relations(scores: Floats) -> Ints:
    """Return the relation of the aligned pair of cells with the highest sum of both nouns' scores (n, 2, cells)."""
    pairs = list(ALIGNED)
    sums = np.stack([scores[:, 0, a] + scores[:, 1, b] for a, b in pairs], axis=1)
    relations: Ints = np.array(list(ALIGNED.values()), np.int64)[sums.argmax(1)]
    return relations


def fit_scores(vectors: Floats, labels: Ints, count: int, folds: Ints) -> Floats:
    """Return the score of each class for every row, (n, count), from a probe fitted on the rows of the other folds."""
    from sklearn.linear_model import RidgeCV

    scores, wanted = np.zeros((len(labels), count)), np.eye(count)[labels]
    for fold in range(FOLDS):
        test = folds == fold
        if not test.any() or test.all():
            continue
        mean, spread = vectors[~test].mean(0), vectors[~test].std(0)
        scaled = (vectors - mean) / np.where(spread > 0, spread, 1.0)
        scores[test] = RidgeCV(PENALTIES).fit(scaled[~test], wanted[~test]).predict(scaled[test])
    return scores


def read_patches(files: Sequence[bytes]) -> Floats:
    """Return the mean distance of each patch's colours from the background, for encoded images, (n, patches · 3)."""
    side = CANVAS // PATCH
    stack = np.stack(
        [decode_center_crop(data, f"number {index}", CANVAS) for index, data in enumerate(files)]
    )
    colours = stack.astype(float)
    distances = np.abs(colours - np.median(colours.reshape(len(stack), -1, 3), axis=1)[:, None, None])
    patches = distances.reshape(len(stack), side, PATCH, side, PATCH, 3).mean((2, 4))
    means: Floats = patches.reshape(len(stack), -1)
    return means


def _build_rows(model: str, readings: Mapping[str, ProbePredictions]) -> list[dict[str, Any]]:
    return [
        {"model": model, "target": target, **_compute_probe_accuracy(target, of)}
        for target, of in readings.items()
    ]


def _compute_probe_accuracy(target: str, of: ProbePredictions) -> dict[str, float]:
    """Return the number of scenes, chance, accuracy and its interval."""
    n = len(of.true) // (
        2 if target == NOUN else 1
    )  # both nouns of a scene count once, because they belong to one image
    accuracy = float((of.predicted == of.true).mean())
    low, high = wilson_interval(accuracy, n)
    chance = float(np.bincount(of.true).max() / len(of.true))
    return {"n": n, "chance": chance, "accuracy": accuracy, "ci_low": float(low), "ci_high": float(high)}
