"""Select rows on the mirrored grid of adversarial refinement, in any number of dimensions.

A gap is a pair's positive score minus its negative score under a blind scorer. Hsieh et al. (2023, D.3) put each
pair into a grid over its gaps under two scorers. They keep the same number of pairs from each cell and from its
mirror image through the origin. If one gap is zero, they balance the sign of the other gap in ten bins per side. If
both gaps are zero, they keep the pair. ``select_balanced`` does the same for k scorers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.blind.scorers import DECIMALS
from caramel.utils.arrays import Ints
from caramel.utils.hashing import compute_stable_keys

UNIT = (
    10**DECIMALS
)  # gaps are integer multiples of 1 / UNIT, so that a gap and its mirror are exactly opposite
ZERO_BINS = 10  # bins per side of the other gaps, if some gap is zero

KeepMask = npt.NDArray[np.bool_]


def select_balanced(
    gaps: Ints, names: Iterable[str], strata: Sequence[str] | None, *, cell: float, seed: int
) -> KeepMask:
    """Return which pairs to keep so that each of k scorers is right as often as it is wrong. (n,).

    The scorers whose gap is not zero span the grid of a pair. This gives 2 ** k - 1 grids, and the origin:

    - No gap is zero: a grid of k dimensions with cells of side ``cell``.
    - Some gaps are zero: a grid over the other gaps, with ``ZERO_BINS`` bins per side.
    - All gaps are zero: the pair is kept.

    A cell and its mirror image through the origin keep the same number of pairs: all pairs of the smaller cell, and
    a random part of the larger one. No cell crosses an axis. Therefore every scorer prefers the positive in one of
    the two cells exactly as often as the negative in the other. With k = 2 this is the published method.

    Args:
        gaps: (n, k) gaps in units of 1 / UNIT.
        names: n unique names. They and the seed determine the draw, so that the order of rows does not.
        strata: n names of parts, each with its own grids; None: one part, as published.
        cell: side of a cell of the full grid, in [1 / UNIT, 1]; with 1, only the signs of the gaps matter.
        seed: seed of the draw.
    """
    return select_mirrored(compute_grid_cells(gaps, cell=cell), names, strata, seed=seed)


def compute_grid_cells(gaps: Ints, *, cell: float) -> Ints:
    """Return the coordinates of each pair's cell, as in ``select_balanced``: 0 where a gap is zero. (n, k)."""
    full = (gaps != 0).all(axis=1)
    step = np.where(full, round(cell * UNIT), UNIT // ZERO_BINS)
    cells = np.empty(gaps.shape, dtype=np.int64)
    for number, column in enumerate(gaps.T):
        cells[:, number] = np.sign(column) * ((np.abs(column) - 1) // step + 1)
    return cells


def select_mirrored(
    cells: Ints, names: Iterable[str], strata: Sequence[str] | None, *, seed: int
) -> KeepMask:
    """Return which rows to keep so that each cell has as many rows as its mirror image. (n,).

    Args:
        cells: (n, k) integer coordinates; the mirror image has all of them negated. The origin mirrors itself.
        names: n unique names, for the draw.
        strata: n names of parts that are balanced separately; None: one part.
        seed: seed of the draw.
    """
    side = _compute_first_sign(cells)
    cell_index = _number_cells(cells * side[:, None], strata)
    is_positive = (side > 0).astype(np.int64)
    sizes = np.bincount(
        2 * cell_index + is_positive, minlength=2 * (int(cell_index.max(initial=-1)) + 1)
    ).reshape(-1, 2)
    quota = sizes.min(axis=1)[cell_index]
    keep_mask: KeepMask = (side == 0) | (quota > 0)
    # A draw is needed only in cells that lose some of their rows.
    is_drawn = keep_mask & (side != 0) & (sizes[cell_index, is_positive] > quota)
    drawn, keys = np.flatnonzero(is_drawn), compute_stable_keys(itertools.compress(names, is_drawn), seed)
    keep_mask[drawn] = _rank_within(cell_index[drawn], keys) < quota[drawn]
    return keep_mask


def reduce_mirrored(
    keep_mask: KeepMask,
    cells: Ints,
    names: Sequence[str],
    strata: Sequence[str] | None,
    *,
    rows: int,
    seed: int,
) -> KeepMask:
    """Return a mask that keeps only ``rows`` rows of ``keep_mask``, or one fewer, and stays balanced. (n,).

    Rows of mirrored cells are dropped in random couples, one row from each cell. Rows of the origin are dropped
    one by one.

    Args:
        keep_mask: result of ``select_mirrored`` for the cells, names and strata.
        cells: (n, k) as in ``select_mirrored``.
        names: n unique names, for the draw.
        strata: as in ``select_mirrored``.
        rows: number of rows to keep; if ``keep_mask`` has fewer, all of them are kept.
        seed: seed of the draw.
    """
    here = np.flatnonzero(keep_mask)
    side = _compute_first_sign(cells[here])
    cell_index = _number_cells(
        cells[here] * side[:, None], None if strata is None else [strata[i] for i in here.tolist()]
    )
    keys = compute_stable_keys([names[i] for i in here.tolist()], seed)
    rank = _rank_within(2 * cell_index + (side > 0), keys)
    couple = pd.factorize(cell_index * (len(here) + 1) + rank)[0]
    # The key of a couple is the key of its row on the positive side.
    lead = side >= 0
    key = np.empty(int(couple.max(initial=-1)) + 1, dtype=np.uint64)
    key[couple[lead]] = keys[lead]
    order = np.argsort(key, kind="stable")
    fits = np.cumsum(np.bincount(couple)[order]) <= rows
    chosen = np.zeros(len(key), dtype=np.bool_)
    chosen[order[fits]] = True
    result: KeepMask = np.zeros(len(keep_mask), dtype=np.bool_)
    result[here[chosen[couple]]] = True
    return result


def _compute_first_sign(cells: Ints) -> Ints:
    """Return the sign of each row's first coordinate that is not zero; 0 at the origin. (n, k) -> (n,)."""
    side = np.zeros(len(cells), dtype=np.int64)
    for column in cells.T:
        np.copyto(side, np.sign(column), where=side == 0)
    return side


def _number_cells(cells: Ints, strata: Sequence[str] | None) -> Ints:
    """Return one number per distinct stratum and cell, from 0. (n, k) -> (n,)."""
    cell_index = np.zeros(len(cells), dtype=np.int64)
    if strata is not None:
        cell_index = pd.factorize(np.asarray(strata, dtype=object))[0].astype(np.int64)
    for column in cells.T:
        low = int(column.min(initial=0))
        # Numbers stay below n times the range of the coordinates: they fit into 64 bits for any k.
        cell_index = cell_index * (int(column.max(initial=0)) - low + 1) + (column - low)
        cell_index = pd.factorize(cell_index)[0].astype(np.int64)
    return cell_index


def _rank_within(groups: Ints, keys: npt.NDArray[np.uint64]) -> Ints:
    """Return each row's rank by its key among the rows of its group, from 0. (n,)."""
    order = np.lexsort((keys, groups))
    ordered, at = groups[order], np.arange(len(groups))
    starts = np.r_[True, ordered[1:] != ordered[:-1]][: len(groups)]
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = at - np.maximum.accumulate(np.where(starts, at, 0))
    return rank
