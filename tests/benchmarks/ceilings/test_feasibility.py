"""A ceiling is exact where time allows, and otherwise still an upper bound."""

import itertools
import time

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from caramel.benchmarks.ceilings import feasibility
from caramel.benchmarks.ceilings.ceilings import ROW_COLUMNS, compute_ceilings
from caramel.benchmarks.ceilings.feasibility import compute_feasible_weight, is_contradictory
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES


def draw_order(n: int, texts: int, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return inequalities "text a above text b" with random a and b, and (n, 2) of a and b."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(texts, 2, replace=False) for _ in range(n)])
    matrix = sparse.lil_array((n, texts))
    matrix[np.arange(n), pairs[:, 0]], matrix[np.arange(n), pairs[:, 1]] = 1, -1
    return matrix.tocsr(), pairs


def find_best_order(pairs: np.ndarray, texts: int) -> int:
    """Return the greatest number of pairs that one order of the texts has right."""
    counts = np.zeros((texts, texts))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    best = dict[frozenset[int], float]({frozenset(): 0})
    for size in range(1, texts + 1):  # texts are placed from the top: dynamic programming over sets of them
        for placed in map(frozenset, itertools.combinations(range(texts), size)):
            rest = [other for other in range(texts) if other not in placed]
            best[placed] = max(best[placed - {last}] + counts[last, rest].sum() for last in placed)
    return int(best[frozenset(range(texts))])


def test_many_rows_of_few_captions_are_solved_exactly_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "LIMIT", 20.0)  # it takes half a second on an idle machine
    _, pairs = draw_order(500, 10)
    rows = pd.DataFrame(
        [
            (f"there are {a} cubes", f"there are {b} cubes", None, f"image {i}", None)
            for i, (a, b) in enumerate(pairs)
        ],
        columns=list(ROW_COLUMNS),
    )
    blind = {"no_image": MODEL_CLASSES["no_image"]}
    ceiling = compute_ceilings(rows, ["accuracy"], {"all": np.ones(500, bool)}, {}, blind).iloc[0]
    assert ceiling["ceiling"] == pytest.approx(find_best_order(pairs, 10) / 500)
    assert ceiling["exact"]


@pytest.mark.parametrize("limit", [0.0, 0.05, 60.0])
def test_without_time_the_result_is_an_upper_bound(limit: float) -> None:
    matrix, pairs = draw_order(120, 8, seed=1)
    found = compute_feasible_weight(matrix, np.arange(120), np.full(120, 1 / 120), limit)
    best = find_best_order(pairs, 8) / 120
    assert best - 1e-9 <= found.weight <= 1
    assert found.exact or limit < 60
    if found.exact:
        assert found.weight == pytest.approx(best)


def test_a_hard_problem_ends_in_time_with_a_bound() -> None:
    matrix, _ = draw_order(4000, 60)
    start = time.monotonic()
    found = compute_feasible_weight(matrix, np.arange(4000), np.full(4000, 1 / 4000), 1.0)
    assert not found.exact
    assert 0.5 < found.weight < 0.9
    assert time.monotonic() - start < 30


def test_a_ceiling_that_is_a_bound_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasibility, "LIMIT", 0.0)
    order = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("d", "b")]
    rows = pd.DataFrame([(a, b, None, "x", None) for a, b in order], columns=list(ROW_COLUMNS))
    blind = {"no_image": MODEL_CLASSES["no_image"]}
    ceiling = compute_ceilings(rows, ["accuracy"], {"all": np.ones(5, bool)}, {}, blind).iloc[0]
    assert not ceiling["exact"]
    assert ceiling["ceiling"] == 1


def test_instances_that_demand_the_same_share_their_fate() -> None:
    """Two instances say a > b > a cannot be: the heavier side wins, its weights added up."""
    matrix = sparse.csr_array(np.array([[1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]))
    found = compute_feasible_weight(matrix, np.arange(3), np.array([0.3, 0.3, 0.4]))
    assert found == (pytest.approx(0.6), True)


def test_inequalities_that_add_up_to_zero_contradict() -> None:
    cycle = np.array([[1.0, -1, 0], [0, 1, -1], [-1, 0, 1]])
    assert is_contradictory(sparse.csr_array(cycle))
    assert not is_contradictory(sparse.csr_array(cycle[:2]))
    assert is_contradictory(sparse.csr_array(np.zeros((1, 2))))
