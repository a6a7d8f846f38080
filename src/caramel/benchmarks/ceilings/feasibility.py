"""Find the greatest weight of instances whose strict inequalities can all hold at once.

An instance demands that linear combinations of cells are positive, where a cell is the similarity of a view of
a text and a view of an image. The values of cells are free. Which instances can be right at once is the problem
of the maximum feasible subsystem (Amaldi & Kann 1995):

1. A cell that occurs with one sign only can be made so large (or small) that all its inequalities hold. They are
   removed, whatever set of instances is selected. This is repeated. If no cycle is left, nothing is left.
2. What is left falls into components that share no cell and no instance.
3. Instances of a component that demand the same are merged, and their weights add up.
4. By Gordan's theorem, exactly one holds: A f > 0 has a solution f, or y A = 0 has a solution y >= 0, y != 0. The
   inequalities with y > 0 then contradict each other: their instances cannot all be right. Contradictions that
   a linear program finds are added as constraints to an integer program over the instances, until the selected
   instances have none (logic-based Benders decomposition; Codato & Fischetti 2006).

The problem is NP-hard: without the image it contains the minimum feedback arc set. After ``LIMIT`` seconds the result
is a bound: the integer program, or its linear relaxation, with the contradictions found so far. No set of instances
weighs more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from caramel.errors import CaramelError
from caramel.utils.arrays import Bools, Floats, Ints

LIMIT = 3.0  # seconds for one problem
_POSITIVE = 1e-9  # smaller values of a solution are zero
_INFEASIBLE, _OUT_OF_TIME = 2, 1  # status of SciPy's solvers


class FeasibleWeight(NamedTuple):
    """The greatest sum of weights of instances that can all be right; an upper bound of it if not ``exact``."""

    weight: float
    exact: bool


def compute_feasible_weight(
    matrix: sparse.csr_array, instances: Ints, weights: Floats, limit: float | None = None
) -> FeasibleWeight:
    """Return the greatest sum of weights of instances that can all be right at once.

    Args:
        matrix: A, (m, cells): each row times the values of the cells must be positive. A row of zeros cannot be.
        instances: (m,) instance of each row, in [0, n).
        weights: (n,) weight of each instance, not negative.
        limit: seconds after which a bound is returned; None: ``LIMIT``.
    """
    deadline = time.monotonic() + (LIMIT if limit is None else limit)
    selected = np.ones(len(weights), bool)
    selected[instances[np.diff(matrix.indptr) == 0]] = False
    active = _remove_free_rows(matrix, selected[instances])
    bounds, exact = 0.0, True
    if active.any():
        for rows in _split_components(matrix[active], np.flatnonzero(active), instances):
            members, codes = np.unique(instances[rows], return_inverse=True)
            part, merged, groups = _merge_equal_instances(matrix[rows], codes)
            of_group = np.bincount(groups, weights[members]).astype(np.float64)
            solved, bound = _solve_component(part, merged, of_group, deadline)
            selected[members] = False if solved is None else solved[groups]
            if solved is None:
                bounds += bound
                exact = False
    return FeasibleWeight(float(weights[selected].sum()) + bounds, exact)


def is_contradictory(matrix: sparse.csr_array) -> bool:
    """Return whether no values of the cells make all rows times these values positive."""
    count = matrix.shape[0]
    return _find_contradiction(matrix, np.zeros(count, np.int64), np.ones(1, bool), np.inf) is not None


def _remove_free_rows(matrix: sparse.csr_array, active: Bools) -> Bools:
    """Return the rows, (m,), that stay when those are removed that some cell can make positive by itself."""
    active = active.copy()
    positive, negative = (matrix > 0).astype(np.int64).T.tocsr(), (matrix < 0).astype(np.int64).T.tocsr()
    entries = abs(matrix).sign()
    while active.any():
        n_positive, n_negative = positive @ active.astype(np.int64), negative @ active.astype(np.int64)
        free = (n_positive == 0) != (n_negative == 0)
        removable = active & (entries @ free.astype(np.int64) > 0)
        if not removable.any():
            break
        active &= ~removable
    return active


def _split_components(matrix: sparse.csr_array, rows: Ints, instances: Ints) -> list[Ints]:
    """Return the rows of each component; rows of one instance, or with a common cell, are in one component."""
    _, codes = np.unique(instances[rows], return_inverse=True)
    by_instance = sparse.csr_array((np.ones(len(rows)), (np.arange(len(rows)), codes)))
    incidence = sparse.hstack([abs(matrix).sign(), by_instance]).tocsr()
    count, labels = sparse.csgraph.connected_components(incidence @ incidence.T, directed=False)
    order = np.argsort(labels, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _merge_equal_instances(matrix: sparse.csr_array, instances: Ints) -> tuple[sparse.csr_array, Ints, Ints]:
    """Return (rows, group of each of these rows, group of each instance); instances of a group demand the same."""
    matrix = matrix.sorted_indices()
    demands: list[set[bytes]] = [set() for _ in range(int(instances.max()) + 1)]
    chosen: dict[tuple[int, bytes], int] = {}
    for row, of in _iter_rows(matrix):
        instance = int(instances[row])
        key = matrix.indices[of].tobytes() + matrix.data[of].tobytes()
        demands[instance].add(key)
        chosen.setdefault((instance, key), row)
    codes: dict[frozenset[bytes], int] = {}
    groups = np.array([codes.setdefault(frozenset(keys), len(codes)) for keys in demands], np.int64)
    firsts = np.unique(groups, return_index=True)[1]
    rows = np.array([row for (instance, _), row in chosen.items() if firsts[groups[instance]] == instance])
    return matrix[rows], groups[instances[rows]], groups


def _solve_component(
    matrix: sparse.csr_array, instances: Ints, weights: Floats, deadline: float
) -> tuple[Bools | None, float]:
    """Return the heaviest instances of a component, None if time ran out, and a bound of their weight.

    Cuts are added until the selected instances do not contradict each other.
    """
    cuts, bound = _find_opposites(matrix, instances), float(weights.sum())
    try:
        while True:
            selected = _select_by_cuts(cuts, weights, deadline)
            bound = float(weights[selected].sum())
            rest, contradictions = selected.copy(), 0
            # Several contradictions at once, without common instances, save rounds.
            while (cut := _find_contradiction(matrix, instances, rest, deadline)) is not None:
                cuts.append(cut)
                rest[cut] = False
                contradictions += 1
            if not contradictions:
                return selected, bound
    except TimeoutError:
        return None, min(bound, _compute_bound(cuts, weights))


def _find_opposites(matrix: sparse.csr_array, instances: Ints) -> list[Ints]:
    """Return the pairs of instances that each demand one thing, and the opposite of each other."""
    single = np.flatnonzero(np.bincount(instances)[instances] == 1)
    signs = (matrix[single], -matrix[single])
    keys, opposites = (
        {(part.indices[of].tobytes(), part.data[of].tobytes()): index for index, of in _iter_rows(part)}
        for part in signs
    )
    return [
        instances[single[[index, opposites[key]]]]
        for key, index in keys.items()
        if index < opposites.get(key, -1)
    ]


def _iter_rows(matrix: sparse.csr_array) -> Iterator[tuple[int, slice]]:
    """Yield the number of each row, and where its entries are."""
    for row in range(matrix.shape[0]):
        yield row, slice(*matrix.indptr[row : row + 2])


def _find_contradiction(
    matrix: sparse.csr_array, instances: Ints, selected: Bools, deadline: float
) -> Ints | None:
    """Return instances among the selected ones that cannot all be right; None if all selected ones can.

    Raises:
        TimeoutError: the deadline, a time of ``time.monotonic``, has passed.
    """
    from scipy.optimize import linprog

    rows = np.flatnonzero(selected[instances])
    if not len(rows):
        return None
    demands = sparse.vstack([matrix[rows].T, np.ones((1, len(rows)))]).tocsr()
    right = np.concatenate([np.zeros(matrix.shape[1]), [1.0]])
    # The rows' own numbers as costs make the solution, and so the result, unique more often.
    solution = linprog(
        np.arange(len(rows)),
        A_eq=demands,
        b_eq=right,
        method="highs-ds",
        options={"time_limit": _get_seconds_left(deadline)},
    )
    if solution.status == _INFEASIBLE:  # no such y: the inequalities can all hold
        return None
    if solution.status == _OUT_OF_TIME:
        raise TimeoutError
    if solution.status != 0:
        raise CaramelError(f"A ceiling could not be computed: {solution.message}")
    return np.unique(instances[rows[solution.x > _POSITIVE]])


def _select_by_cuts(cuts: list[Ints], weights: Floats, deadline: float) -> Bools:
    """Return the heaviest set of instances, (n,), that holds no cut completely.

    Raises:
        TimeoutError: the deadline has passed.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not cuts:
        return np.ones(len(weights), bool)
    held, most = _build_limits(cuts, len(weights))
    solution = milp(
        -weights / weights.max(),
        constraints=LinearConstraint(held, ub=most),
        bounds=Bounds(0, 1),
        integrality=np.ones(len(weights)),
        options={"mip_rel_gap": 0, "time_limit": _get_seconds_left(deadline)},
    )
    if solution.status == _OUT_OF_TIME:
        raise TimeoutError
    if solution.status != 0:
        raise CaramelError(f"A ceiling could not be computed: {solution.message}")
    return np.asarray(solution.x > 0.5)


def _compute_bound(cuts: list[Ints], weights: Floats) -> float:
    """Return an upper bound of the weight of a set that holds no cut completely: its linear relaxation."""
    from scipy.optimize import linprog

    if not cuts:
        return float(weights.sum())
    held, most = _build_limits(cuts, len(weights))
    scale = float(weights.max())
    options = {"time_limit": LIMIT}
    solution = linprog(-weights / scale, held, most, bounds=(0, 1), method="highs", options=options)
    return -float(solution.fun) * scale if solution.status == 0 else float(weights.sum())


def _build_limits(cuts: list[Ints], count: int) -> tuple[sparse.csr_array, Floats]:
    """Return which instances each cut has, (cuts, count), and how many of them can be right."""
    sizes = np.array([len(cut) for cut in cuts])
    held = sparse.csr_array(
        (np.ones(sizes.sum()), (np.repeat(np.arange(len(cuts)), sizes), np.concatenate(cuts))),
        shape=(len(cuts), count),
    )
    return held, sizes - 1.0


def _get_seconds_left(deadline: float) -> float:
    """Return the time until the deadline; raise a TimeoutError if there is none."""
    if (left := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    return left
