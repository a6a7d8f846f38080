"""Compute the ceilings of a benchmark: the most that any model of a class can reach, by subset and metric.

A model of a class gives equal views equal similarities (``model_classes``), and is free otherwise. So its
similarities are one value for each cell, a pair of views, and a metric is a set of strict inequalities between
cells (``benchmarks.metrics``). An instance whose inequality compares a cell with itself is a tie, which every metric
counts as a miss. Instances may also contradict each other: a caption that is true in one row and false in another
row of the same image. The ceiling is the greatest share of instances whose inequalities can all hold at once,
found exactly (``feasibility``) unless it takes longer than ``feasibility.LIMIT`` seconds; then the ceiling is an upper
bound of it, which may depend on the speed of the machine.

For two captions with equal views and two images, i2t, t2i, group and group_match are therefore 0: i2t and group
compare a cell with itself, t2i demands s(c, i0) > s(c, i1) and the opposite, and group_match compares equal sums.

A score v above a ceiling c has the skill (v − c) / (1 − c): 1 if always right, 0 at the ceiling, and below 0 if a
model of the class can do better. It is undefined if c = 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from caramel.benchmarks.ceilings.feasibility import (
    FeasibleWeight,
    compute_feasible_weight,
    is_contradictory,
)
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES, ModelClass
from caramel.benchmarks.metrics import METRICS, Metric
from caramel.utils.arrays import Bools, Floats, Ints

CEILING_COLUMNS = ("model_class", "subset", "metric", "ceiling", "exact", "n", "impossible")
ROW_COLUMNS = ("caption", "negative_caption", "caption2", "image", "negative_image")
# Part of the name of a similarity -> column of the rows.
TEXTS = {
    **{"c0": "caption", "c1": "negative_caption", "c2": "caption2"},
    **{"p1": "caption", "p2": "caption2", "n": "negative_caption"},
}
IMAGES = {"i0": "image", "i1": "negative_image"}
_ANY_IMAGE = "any image"


def compute_ceilings(
    rows: pd.DataFrame,
    metrics: Sequence[str],
    subsets: Mapping[str, Bools],
    means: Mapping[str, Sequence[str]],
    classes: Mapping[str, ModelClass] = MODEL_CLASSES,
) -> pd.DataFrame:
    """Return the ceiling of each class, subset and metric: ``CEILING_COLUMNS``.

    ``ceiling`` is a share in [0, 1], NaN if no instance of the subset has the texts and images of the metric. It is an
    upper bound if ``exact`` is false. ``n`` counts the instances that have them. ``impossible`` counts those that no
    model of the class has right, whatever the other instances are; the rest of what is missing to 1 is due to instances
    that contradict each other. A mean counts the instances of its members. The ceiling of a mean is that of one model, so it may be less than
    the mean of its members' ceilings.

    Args:
        rows: ``ROW_COLUMNS``: texts, or None; names of images, or None.
        metrics: names; metrics for rankings are left out, because their ceilings are unknown.
        subsets: mask of the rows of each subset.
        means: members of each mean, subsets and earlier means.
        classes: the classes of models.
    """
    lines: list[tuple[str, str, str, float, bool, int, int]] = []
    for class_name, model_class in classes.items():
        cells = _ViewCells(rows, model_class)
        for metric in (name for name in metrics if name in METRICS):
            matrix, instances, scored = build_inequalities(cells, METRICS[metric])
            alone = _find_impossible(matrix, instances, len(rows))
            for subset, weights in build_weights(subsets, means, scored).items():
                counted = weights > 0
                value, exact = _compute_ceiling(matrix, instances, np.where(alone, 0.0, weights))
                value = value if counted.any() else float("nan")
                counts = int(counted.sum()), int((alone & counted).sum())
                lines.append((class_name, subset, metric, value, exact, *counts))
    return pd.DataFrame(lines, columns=list(CEILING_COLUMNS))


def compute_skill(values: Floats, ceilings: Floats) -> Floats:
    """Return (value − ceiling) / (1 − ceiling) for shares in [0, 1]; NaN if the ceiling is 1."""
    room, skill = 1 - ceilings, np.full(len(values), np.nan)
    np.divide(values - ceilings, room, out=skill, where=room > 1e-12)
    return skill


class _ViewCells:
    """The cell of each row in each column of similarities, as a model of a class sees it."""

    def __init__(self, rows: pd.DataFrame, model_class: ModelClass) -> None:
        self._sees_images = model_class.sees_images
        self._texts = {
            name: [_apply_view(text, model_class) for text in rows[name]] for name in set(TEXTS.values())
        }
        self._images = {name: rows[name].tolist() for name in IMAGES.values()}
        self._codes: dict[Hashable, int] = {}

    def encode_column(self, name: str) -> Ints:
        """Return the number of each row's cell, −1 if the row lacks a text or an image. (n,)."""
        _, first, second = name.split("_")
        texts = self._texts[TEXTS[first]]
        cells: list[Hashable | None]
        if second in TEXTS:  # similarities of two texts are symmetric
            others = self._texts[TEXTS[second]]
            cells = [
                None if a is None or b is None else frozenset((a, b))
                for a, b in zip(texts, others, strict=True)
            ]
        else:
            cells = [
                None if a is None or pd.isna(b) else (a, b if self._sees_images else _ANY_IMAGE)
                for a, b in zip(texts, self._images[IMAGES[second]], strict=True)
            ]
        return np.array(
            [-1 if cell is None else self._codes.setdefault(cell, len(self._codes)) for cell in cells],
            np.int64,
        )


def _apply_view(text: object, model_class: ModelClass) -> Hashable | None:
    return (model_class.view_text(text),) if isinstance(text, str) else None


def build_inequalities(cells: _ViewCells, metric: Metric) -> tuple[sparse.csr_array, Ints, Bools]:
    """Return (A, instance of each row of A, scored instances) of a metric: see ``feasibility.compute_feasible_weight``."""
    pairs = [(cells.encode_column(a), cells.encode_column(b)) for a, b in metric.greater]
    needed = [codes for pair in pairs for codes in pair]
    needed += [cells.encode_column(name) for name in metric.needs]
    scored: Bools = np.all([codes >= 0 for codes in needed], axis=0)
    which = np.flatnonzero(scored)
    count = int(max(codes.max(initial=-1) for codes in needed)) + 1
    parts = [
        _build_signs(greater[which], count) - _build_signs(smaller[which], count)
        for greater, smaller in pairs
    ]
    matrix = sum(parts[1:], parts[0]) if metric.summed else sparse.vstack(parts)
    matrix = sparse.csr_array(matrix)
    matrix.eliminate_zeros()
    return matrix, np.tile(which, 1 if metric.summed else len(parts)), scored


def _build_signs(codes: Ints, count: int) -> sparse.csr_array:
    """Return (n, count) with a one at each row's code."""
    return sparse.csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), shape=(len(codes), count))


def _find_impossible(matrix: sparse.csr_array, instances: Ints, count: int) -> Bools:
    """Return which instances contradict themselves, (n,).

    Instances whose inequalities are the same, but for the names of the cells, are decided once.
    """
    result, decided = np.zeros(count, bool), dict[tuple[object, ...], bool]()
    order = np.argsort(instances, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(instances[order])) + 1) if len(order) else ():
        part = [slice(*matrix.indptr[row : row + 2]) for row in rows]
        names: dict[int, int] = {}
        pattern = tuple(
            tuple(
                (names.setdefault(cell, len(names)), value)
                for cell, value in zip(matrix.indices[of].tolist(), matrix.data[of].tolist(), strict=True)
            )
            for of in part
        )
        if pattern not in decided:
            decided[pattern] = is_contradictory(matrix[rows])
        result[instances[rows[0]]] = decided[pattern]
    return result


def build_weights(
    subsets: Mapping[str, Bools], means: Mapping[str, Sequence[str]], scored: Bools
) -> dict[str, Floats]:
    """Return the weight of each instance, (n,), in each subset and mean; the weights of one sum to 1, or to 0."""
    weights = {}
    for name, mask in subsets.items():
        held = mask & scored
        weights[name] = held / max(1, held.sum())
    for name, members in means.items():
        if parts := [weights[member] for member in members if member in weights and weights[member].any()]:
            weights[name] = np.mean(parts, axis=0)
    return weights


def _compute_ceiling(matrix: sparse.csr_array, instances: Ints, weights: Floats) -> FeasibleWeight:
    """Return the greatest sum of weights of instances that can all be right, in [0, 1]."""
    rows = np.flatnonzero(weights[instances] > 0)
    value, exact = compute_feasible_weight(matrix[rows], instances[rows], weights)
    return FeasibleWeight(min(1.0, value), exact)
