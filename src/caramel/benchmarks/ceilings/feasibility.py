"""Select the heaviest set of instances whose strict inequalities can all hold at once.

An instance demands that linear combinations of cells are positive, where a cell is the similarity of a view of
a text and a view of an image. The values of cells are free. Which instances can be right at once is the problem
of the maximum feasible subsystem (Amaldi & Kann 1995). It is solved exactly:

1. A cell that occurs with one sign only can be made so large (or small) that all its inequalities hold. They are
   removed, whatever set of instances is selected. This is repeated. If no cycle is left, nothing is left.
2. What is left falls into components that share no cell and no instance.
3. By Gordan's theorem, exactly one holds: A f > 0 has a solution f, or y A = 0 has a solution y >= 0, y != 0. The
   inequalities with y > 0 then contradict each other: their instances cannot all be right. Contradictions that
   a linear program finds are added as constraints to an integer program over the instances, until the selected
   instances have none (logic-based Benders decomposition; Codato & Fischetti 2006).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from caramel.errors import CaramelError
from caramel.utils.arrays import Bools, Floats, Ints

_POSITIVE = 1e-9  # smaller values of a solution are zero


def select_feasible(matrix: sparse.csr_array, instances: Ints, weights: Floats) -> Bools:
    """Return a set of instances, (n,), that can all be right at once and has the greatest sum of weights.

    Args:
        matrix: A, (m, cells): each row times the values of the cells must be positive. A row of zeros cannot be.
        instances: (m,) instance of each row, in [0, n).
        weights: (n,) weight of each instance, not negative.
    """
    selected = np.ones(len(weights), bool)
    selected[instances[np.diff(matrix.indptr) == 0]] = False
    active = _remove_free_rows(matrix, selected[instances])
    if active.any():
        for rows in _split_components(matrix[active], np.flatnonzero(active), instances):
            members, codes = np.unique(instances[rows], return_inverse=True)
            selected[members] = _solve_component(matrix[rows], codes, weights[members])
    return selected


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


def _solve_component(matrix: sparse.csr_array, instances: Ints, weights: Floats) -> Bools:
    """Return ``select_feasible`` of one component by cuts, until the selected instances do not contradict."""
    cuts: list[Ints] = []
    while True:
        selected = _select_by_cuts(cuts, weights)
        rest, contradictions = selected.copy(), 0
        # Several contradictions at once, without common instances, save rounds.
        while (cut := _find_contradiction(matrix, instances, rest)) is not None:
            cuts.append(cut)
            rest[cut] = False
            contradictions += 1
        if not contradictions:
            return selected


def _find_contradiction(matrix: sparse.csr_array, instances: Ints, selected: Bools) -> Ints | None:
    """Return instances among the selected ones that cannot all be right; None if all selected ones can."""
    from scipy.optimize import linprog

    rows = np.flatnonzero(selected[instances])
    if not len(rows):
        return None
    demands = sparse.vstack([matrix[rows].T, np.ones((1, len(rows)))]).tocsr()
    right = np.concatenate([np.zeros(matrix.shape[1]), [1.0]])
    # The rows' own numbers as costs make the solution, and so the result, unique more often.
    solution = linprog(np.arange(len(rows)), A_eq=demands, b_eq=right, method="highs-ds")
    if solution.status == 2:  # no such y: the inequalities can all hold
        return None
    if solution.status != 0:
        raise CaramelError(f"A ceiling could not be computed: {solution.message}")
    return np.unique(instances[rows[solution.x > _POSITIVE]])


def _select_by_cuts(cuts: list[Ints], weights: Floats) -> Bools:
    """Return the heaviest set of instances, (n,), that holds no cut completely."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not cuts:
        return np.ones(len(weights), bool)
    held = np.zeros((len(cuts), len(weights)))
    for row, cut in enumerate(cuts):
        held[row, cut] = 1
    limits = LinearConstraint(held, ub=held.sum(axis=1) - 1)
    solution = milp(
        -weights / weights.max(),
        constraints=limits,
        bounds=Bounds(0, 1),
        integrality=np.ones(len(weights)),
        options={"mip_rel_gap": 0},
    )
    if solution.status != 0:
        raise CaramelError(f"A ceiling could not be computed: {solution.message}")
    return np.asarray(solution.x > 0.5)
