from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.refine.mirrored_grid import (
    UNIT,
    compute_grid_cells,
    reduce_mirrored,
    select_balanced,
    select_mirrored,
)

GAP = st.one_of(
    st.just(0), st.integers(-UNIT, UNIT), st.sampled_from([-30_000, -20_000, -1, 1, 20_000, 30_000])
)
ROWS = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.tuples(st.tuples(*[GAP] * k), st.sampled_from("ab")), min_size=1, max_size=80)
)
CELLS = st.sampled_from([0.02, 0.1, 0.25, 1.0])


def arrays(rows):
    gaps = np.array([gap for gap, _ in rows], dtype=np.int64)
    return gaps, [f"n{i}" for i in range(len(rows))], [stratum for _, stratum in rows]


def places(gaps, strata, cell):
    """Return the cell of each pair by the definition, in plain Python."""
    found = []
    for gap, stratum in zip(gaps.tolist(), strata, strict=True):
        bins = round(1 / cell) if all(gap) else 10
        place = []
        for g in gap:
            number = 0
            while number < bins and abs(g) > number * UNIT // bins:
                number += 1
            place.append(number if g > 0 else -number)
        found.append((stratum, tuple(place)))
    return found


@settings(max_examples=150, deadline=None)
@given(ROWS, CELLS, st.integers(0, 5))
def test_every_scorer_is_right_as_often_as_wrong_within_each_stratum(rows, cell, seed):
    gaps, names, strata = arrays(rows)
    kept = select_balanced(gaps, names, strata, cell=cell, seed=seed)
    for stratum in set(strata):
        mine = gaps[kept & (np.array(strata) == stratum)]
        assert (mine > 0).sum(axis=0).tolist() == (mine < 0).sum(axis=0).tolist()
    assert kept[(gaps == 0).all(axis=1)].all()


@settings(max_examples=150, deadline=None)
@given(ROWS, CELLS, st.integers(0, 5))
def test_a_cell_keeps_as_many_as_the_smaller_of_it_and_its_mirror_image(rows, cell, seed):
    gaps, names, strata = arrays(rows)
    kept = select_balanced(gaps, names, strata, cell=cell, seed=seed)
    here = places(gaps, strata, cell)
    before, after = Counter(here), Counter(p for p, k in zip(here, kept, strict=True) if k)
    for (stratum, place), number in before.items():
        mirror = (stratum, tuple(-x for x in place))
        assert after[stratum, place] == min(number, before[mirror])


@settings(max_examples=80, deadline=None)
@given(ROWS, CELLS, st.randoms())
def test_the_same_rows_are_kept_whatever_their_order(rows, cell, random):
    gaps, names, strata = arrays(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    kept = select_balanced(gaps, names, strata, cell=cell, seed=4)
    mixed = [names[i] for i in order], [strata[i] for i in order]
    assert select_balanced(gaps[order], *mixed, cell=cell, seed=4).tolist() == kept[order].tolist()


@settings(max_examples=80, deadline=None)
@given(ROWS, CELLS, st.integers(0, 60), st.randoms())
def test_thinned_rows_are_as_balanced_as_before_and_as_many_as_asked_for(rows, cell, number, random):
    gaps, names, strata = arrays(rows)
    kept = select_balanced(gaps, names, strata, cell=cell, seed=1)
    cells = compute_grid_cells(gaps, cell=cell)
    fewer = reduce_mirrored(kept, cells, names, strata, rows=number, seed=2)
    assert not (fewer & ~kept).any()
    wanted = min(number, int(kept.sum()))
    assert fewer.sum() in (wanted, wanted - 1)
    assert (gaps[fewer] > 0).sum(axis=0).tolist() == (gaps[fewer] < 0).sum(axis=0).tolist()
    here = Counter(p for p, k in zip(places(gaps, strata, cell), fewer, strict=True) if k)
    assert all(here[s, tuple(-x for x in place)] == number for (s, place), number in here.items())
    order = list(range(len(rows)))
    random.shuffle(order)
    mixed = [names[i] for i in order], [strata[i] for i in order]
    again = reduce_mirrored(kept[order], cells[order], *mixed, rows=number, seed=2)
    assert again.tolist() == fewer[order].tolist()


def test_one_grid_over_all_strata_balances_them_together():
    gaps = np.array([[300_000], [-300_000]])
    names, strata = ["n0", "n1"], ["a", "b"]
    assert select_balanced(gaps, names, None, cell=0.02, seed=1).tolist() == [True, True]
    assert select_balanced(gaps, names, strata, cell=0.02, seed=1).tolist() == [False, False]


@pytest.mark.parametrize(
    ("gaps", "kept"),
    [
        ([(0.3, -0.2, 0.5), (-0.3, 0.2, -0.5)], 2),
        ([(0.3, -0.2, 0.5), (-0.3, 0.2, 0.5)], 0),  # a mirror image in two of three axes
        ([(0, 0.15, 0.32), (0, -0.19, -0.38)], 2),  # one zero of three: bins of 0.1 over the others
        ([(0, 0.15, 0.32), (-0.19, 0, -0.38)], 0),  # other scorers have zeros: another grid
        ([(0, 0.15, 0.32), (0, -0.21, -0.38)], 0),
        ([(0, 0, 0.32), (0, 0, -0.38)], 2),
        ([(0, 0, 0)], 1),
    ],
)
def test_the_scorers_whose_gaps_are_not_zero_span_a_grid_of_their_own(gaps, kept):
    units = np.rint(np.array(gaps) * UNIT).astype(np.int64)
    names = [f"n{i}" for i in range(len(gaps))]
    assert select_balanced(units, names, None, cell=0.02, seed=4).sum() == kept


def test_many_scorers_do_not_overflow_the_numbers_of_cells():
    rng = np.random.default_rng(0)
    gaps = rng.integers(1, UNIT, (500, 30)) * rng.choice([-1, 1], (500, 30))
    both = np.concatenate([gaps, -gaps])
    names = [f"n{i}" for i in range(1000)]
    assert select_balanced(both, names, None, cell=0.001, seed=1).all()
    assert not select_balanced(gaps, names[:500], None, cell=0.001, seed=1).any()


def test_every_row_of_the_larger_cell_is_as_likely_to_be_kept():
    cells = np.repeat([[1], [-1]], [3, 1], axis=0)
    kept = sum(select_mirrored(cells, ["a", "b", "c", "d"], None, seed=s).astype(int) for s in range(600))
    assert kept[3] == 600
    assert kept[:3].sum() == 600
    assert (np.abs(kept[:3] - 200) < 50).all()  # 4.3 standard deviations
