"""Rank candidates: count the false candidates of a query that score above or equal to its best true one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from caramel.evaluation.scores.item_scores import DualEncoderScores, Encode, ItemScores
from caramel.interfaces.benchmark import Index, Rankings
from caramel.utils.arrays import Floats

CELLS = 2**23  # scores in memory at a time: 64 MB
COLUMNS = ("s_true", "s_other", "n_above", "n_tied", "n_candidates")


def compute_rank_columns(task: Rankings, encode: Encode) -> dict[str, Floats]:
    """Return ``COLUMNS`` of each row, with the scores of the model that ``encode`` runs.

    Every position in a pool is a separate candidate. Candidates with equal words or pixels tie. If any candidate of a
    row has NaN, the row has NaN in all columns but ``n_candidates``.
    """
    prompts = list(dict.fromkeys(prompt for text in task.texts for prompt in text))
    positions = {prompt: i for i, prompt in enumerate(prompts)}
    groups = PromptGroups(
        np.array([positions[prompt] for text in task.texts for prompt in text], np.int64),
        np.array([len(text) for text in task.texts], np.int64),
    )

    def list_pairs() -> tuple[Index, Index]:
        texts, images = _expand_candidates(task.rows, task.pools)
        return groups.list_prompts(texts), np.repeat(images, groups.sizes[texts])

    return compute_ranks(task, pool_prompts(encode(prompts, list_pairs), groups))


def compute_ranks(task: Rankings, scores: ItemScores) -> dict[str, Floats]:
    """Return the rank columns of a task from its scores; see ``compute_rank_columns``."""
    rows = task.rows
    columns = np.full((len(rows), len(COLUMNS)), np.nan)
    shared = rows["pool"].duplicated(keep=False).to_numpy()
    sizes = np.array([len(task.pools[pool]) for pool in rows["pool"]], np.int64)
    for size in np.unique(sizes[~shared]).tolist():
        at = np.flatnonzero(~shared & (sizes == size))
        for part in _split_rows(at, size):
            columns[part] = _rank_own_pools(rows.iloc[part], task.pools, scores)
    among = np.flatnonzero(shared)
    for inside in rows.iloc[among].groupby(["direction", "pool"], sort=False).indices.values():
        at = among[inside]
        for part in _split_rows(at, int(sizes[at[0]])):
            columns[part] = _rank_shared_pool(rows.iloc[part], task.pools, scores)
    return dict(zip(COLUMNS, columns.T, strict=True))


def _split_rows(rows: Index, candidates: int) -> list[Index]:
    """Return the rows in parts of at most ``CELLS`` scores."""
    step = max(1, CELLS // candidates)
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _expand_candidates(rows: pd.DataFrame, pools: Sequence[Index]) -> tuple[Index, Index]:
    """Return the (text, image) of every query with every candidate."""
    chosen = [pools[pool] for pool in rows["pool"]]
    sizes = np.array([len(pool) for pool in chosen], np.int64)
    queries, candidates = np.repeat(rows["query"].to_numpy(np.int64), sizes), np.concatenate(chosen)
    to_text = np.repeat((rows["direction"] == "i2t").to_numpy(), sizes)
    return np.where(to_text, candidates, queries), np.where(to_text, queries, candidates)


def _list_true_candidates(rows: pd.DataFrame) -> tuple[Index, Index]:
    """Return (row, candidate) of every true candidate."""
    lists = rows["true"].tolist()
    return np.repeat(np.arange(len(lists)), [len(true) for true in lists]), np.concatenate(lists).astype(
        np.int64
    )


def _rank_own_pools(rows: pd.DataFrame, pools: Sequence[Index], scores: ItemScores) -> Floats:
    """Return the columns of rows whose pools are not shared and all have the same size."""
    values = scores.score_against_images(*_expand_candidates(rows, pools)).reshape(len(rows), -1)
    line, candidate = _list_true_candidates(rows)
    matched_row, column = np.nonzero(
        np.stack([pools[pool] for pool in rows["pool"]])[line] == candidate[:, None]
    )
    assert len(matched_row) == len(line), "a true candidate is not in the pool, or is a duplicate in it"
    return _rank_scores(values, line, column)


def _rank_shared_pool(rows: pd.DataFrame, pools: Sequence[Index], scores: ItemScores) -> Floats:
    """Return the columns of rows of one direction that share a pool."""
    pool = pools[rows["pool"].iloc[0]]
    queries = rows["query"].to_numpy(np.int64)
    to_text = rows["direction"].iloc[0] == "i2t"
    values = scores.score_all_pairs(pool, queries).T if to_text else scores.score_all_pairs(queries, pool)
    line, candidate = _list_true_candidates(rows)
    columns = np.full(max(pool.max(), candidate.max(initial=0)) + 1, -1)
    columns[pool] = np.arange(len(pool))
    assert (columns[pool] == np.arange(len(pool))).all(), "the pool has a duplicate"
    assert (columns[candidate] >= 0).all(), "a true candidate is not in the pool"
    return _rank_scores(values, line, columns[candidate])


def _rank_scores(values: Floats, line: Index, column: Index) -> Floats:
    """Return the columns of queries with scores ``values`` (q, c), which are modified.

    The cells ``values[line, column]`` belong to the true candidates. Each query has at least one.
    """
    size = np.full(len(values), values.shape[1])
    trues = np.bincount(line, minlength=len(values))
    assert (trues > 0).all(), "a query without a true candidate"
    best = np.full(len(values), -np.inf)
    with np.errstate(invalid="ignore"):  # NaN is a valid state here
        np.maximum.at(best, line, values[line, column])
    values[
        line, column
    ] = -np.inf  # true candidates are then never above the best true one, nor equal to it …
    other = values.max(axis=1)
    above = np.count_nonzero(values > best[:, None], axis=1)
    equal = np.count_nonzero(values == best[:, None], axis=1)
    equal -= np.where(np.isneginf(best), trues, 0)  # … unless the best true one is -inf
    other[trues == size] = np.nan
    result = np.stack([best, other, above, equal, size], axis=1).astype(np.float64)
    result[np.isnan(best) | (np.isnan(other) & (trues < size)), :-1] = np.nan
    return result


@dataclass(frozen=True)
class PromptGroups:
    """The prompts of each text, one text after the other.

    Attributes:
        prompts: indices of the prompts.
        sizes: number of prompts of each text, at least 1.
    """

    prompts: Index
    sizes: Index

    @cached_property
    def _starts(self) -> Index:
        starts: Index = np.cumsum(self.sizes) - self.sizes
        return starts

    def list_prompts(self, texts: Index) -> Index:
        """Return the prompts of these texts, one text after the other."""
        sizes = self.sizes[texts]
        before = np.cumsum(sizes) - sizes
        prompt_index: Index = self.prompts[
            np.repeat(self._starts[texts] - before, sizes) + np.arange(sizes.sum())
        ]
        return prompt_index


def pool_prompts(scores: ItemScores, groups: PromptGroups) -> ItemScores:
    """Return the scores of texts that consist of groups of prompts.

    The embeddings of a group are averaged and scaled to length 1, as CLIP does with the templates of a class
    (Radford et al. 2021, 3.1.4). A matcher's scores are averaged.
    """
    if not isinstance(scores, DualEncoderScores) or (groups.sizes == 1).all():
        return _PooledScores(scores, groups)
    means = np.empty((len(groups.sizes), scores.texts.shape[1]), np.float32)
    for text in range(len(means)):
        mean = scores.texts[groups.list_prompts(np.array([text]))].mean(axis=0, dtype=np.float64)
        means[text] = mean / np.linalg.norm(mean)
    return replace(scores, texts=means)


@dataclass(frozen=True)
class _PooledScores:
    """Scores of groups of prompts: the mean of the prompts' scores."""

    scores: ItemScores
    groups: PromptGroups

    def score_against_images(self, texts: Index, images: Index) -> Floats:
        sizes = self.groups.sizes[texts]
        prompt_scores = self.scores.score_against_images(
            self.groups.list_prompts(texts), np.repeat(images, sizes)
        )
        return _compute_group_means(prompt_scores, sizes)

    def score_between_texts(self, left: Index, right: Index) -> Floats:
        return np.full(len(left), np.nan)

    def score_all_pairs(self, texts: Index, images: Index) -> Floats:
        return _compute_group_means(
            self.scores.score_all_pairs(self.groups.list_prompts(texts), images), self.groups.sizes[texts]
        )


def _compute_group_means(values: Floats, sizes: Index) -> Floats:
    """Return the means of consecutive groups of rows with these sizes."""
    if (sizes == 1).all():
        return values
    sums: Floats = np.add.reduceat(values, np.cumsum(sizes) - sizes, axis=0)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))
