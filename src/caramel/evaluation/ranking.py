"""Ranks: how many false candidates of a query score above its best true one, or the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from caramel.evaluation.scoring import Dual, Encoded, Floats, Run, encode
from caramel.evaluation.tasks import Index, Rankings

CELLS = 2**23  # scores held at a time: 64 MB
COLUMNS = ("s_true", "s_other", "above", "equal", "candidates")


def rank_columns(task: Rankings, keys: Sequence[bytes], run: Run, model: Any) -> dict[str, Floats]:
    """Return ``s_true``, ``s_other``, ``above``, ``equal`` and ``candidates`` of each row.

    A row in which any candidate has NaN has NaN everywhere but in ``candidates``.
    """
    prompts = list(dict.fromkeys(prompt for text in task.texts for prompt in text))
    place = {prompt: i for i, prompt in enumerate(prompts)}
    groups = [np.array([place[prompt] for prompt in text], np.int64) for text in task.texts]

    def pairs() -> tuple[Index, Index]:
        texts, images = _items(task.rows, task.pools)
        sizes = np.array([len(group) for group in groups])[texts]
        return np.concatenate([groups[t] for t in texts.tolist()]), np.repeat(images, sizes)

    scores = _grouped(encode(task.images, keys, prompts, pairs, run, model), groups)
    return ranks(task, scores)


def ranks(task: Rankings, scores: Encoded) -> dict[str, Floats]:
    """Return the rank columns of a task whose scores are known; see ``rank_columns``."""
    rows = task.rows
    shared = rows["pool"].duplicated(keep=False)
    found = np.full((len(rows), len(COLUMNS)), np.nan)
    alone = np.flatnonzero(~shared)
    if len(alone):
        found[alone] = _by_row(rows.iloc[alone], task.pools, scores)
    for (direction, pool), part in rows[shared].groupby(["direction", "pool"], sort=False):
        at = rows.index.get_indexer(part.index)
        found[at] = _by_block(part, task.pools[pool], direction == "i2t", scores)
    return dict(zip(COLUMNS, found.T, strict=True))


def _items(rows: pd.DataFrame, pools: Sequence[Index]) -> tuple[Index, Index]:
    """Return the (text, image) of every query with every candidate."""
    sizes = np.array([len(pools[p]) for p in rows["pool"]], np.int64)
    queries = np.repeat(rows["query"].to_numpy(np.int64), sizes)
    candidates = np.concatenate([pools[p] for p in rows["pool"]])
    to_text = np.repeat((rows["direction"] == "i2t").to_numpy(), sizes)
    return np.where(to_text, candidates, queries), np.where(to_text, queries, candidates)


def _by_row(rows: pd.DataFrame, pools: Sequence[Index], scores: Encoded) -> Floats:
    """Return the columns of rows that have a pool each."""
    found = np.empty((len(rows), len(COLUMNS)))
    sizes = np.array([len(pools[p]) for p in rows["pool"]], np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(np.cumsum(sizes) // CELLS)) + 1).tolist(), len(rows)]
    for start, stop in pairwise(bounds):
        part = rows.iloc[start:stop]
        values = np.split(
            scores.against_images(*_items(part, pools)), np.cumsum(sizes[start:stop])[:-1]
        )
        for i, (line, pool, true) in enumerate(zip(values, part["pool"], part["true"], strict=True)):
            found[start + i] = _rank(line[None], [np.isin(pools[pool], true)])[0]
    return found


def _by_block(rows: pd.DataFrame, pool: Index, to_text: bool, scores: Encoded) -> Floats:
    """Return the columns of rows that share a pool, as blocks of a matrix."""
    queries = rows["query"].to_numpy(np.int64)
    step = max(1, CELLS // len(pool))
    parts = []
    for start in range(0, len(rows), step):
        block = queries[start : start + step]
        values = scores.matrix(pool, block).T if to_text else scores.matrix(block, pool)
        masks = [np.isin(pool, true) for true in rows["true"].iloc[start : start + step]]
        parts.append(_rank(values, masks))
    return np.concatenate(parts)


def _rank(values: Floats, masks: Sequence[Any]) -> Floats:
    """Return the columns of queries whose scores are ``values`` (q, c); ``masks`` mark the true ones."""
    true = np.stack(masks)
    best = np.where(true, values, -np.inf).max(axis=1)
    other = np.where(true, -np.inf, values).max(axis=1)
    above = ((values > best[:, None]) & ~true).sum(axis=1)
    equal = ((values == best[:, None]) & ~true).sum(axis=1)
    size = np.full(len(values), values.shape[1])
    found = np.stack([best, other, above, equal, size], axis=1).astype(float)
    found[np.isnan(values).any(axis=1), :-1] = np.nan
    return found


def _grouped(scores: Encoded, groups: Sequence[Index]) -> Encoded:
    """Return scores of texts that are groups of prompts.

    Embeddings of a group are averaged and brought to length 1, as CLIP does with the templates of a class
    (Radford et al. 2021, 3.1.4); a matcher's scores are averaged.
    """
    if all(len(group) == 1 for group in groups):
        return _Averaged(scores, groups) if not isinstance(scores, Dual) else _picked(scores, groups)
    if not isinstance(scores, Dual):
        return _Averaged(scores, groups)
    means = np.stack([scores.texts[group].mean(axis=0) for group in groups])
    return replace(scores, texts=(means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32))


def _picked(scores: Dual, groups: Sequence[Index]) -> Dual:
    """Return the scores of single prompts: nothing is averaged, nothing rounded."""
    order = np.concatenate(groups)
    same = len(order) == len(scores.texts) and bool((order == np.arange(len(order))).all())
    return scores if same else replace(scores, texts=scores.texts[order])


@dataclass(frozen=True)
class _Averaged:
    """Scores of groups of prompts: the mean of the prompts' scores."""

    scores: Encoded
    groups: Sequence[Index]

    def against_images(self, texts: Index, images: Index) -> Floats:
        sizes = np.array([len(self.groups[t]) for t in texts.tolist()], np.int64)
        prompts = np.concatenate([self.groups[t] for t in texts.tolist()])
        each = self.scores.against_images(prompts, np.repeat(images, sizes))
        sums: Floats = np.add.reduceat(each, np.cumsum(sizes) - sizes)
        return sums / sizes

    def between_texts(self, left: Index, right: Index) -> Floats:
        return np.full(len(left), np.nan)

    def matrix(self, texts: Index, images: Index) -> Floats:
        return np.stack(
            [self.scores.matrix(self.groups[t], images).mean(axis=0) for t in texts.tolist()]
        )
