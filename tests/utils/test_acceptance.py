from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.utils.acceptance import POWER, Z_POWER, Verdict, compute_verdict, required_sample_size
from caramel.utils.stats import share_interval, variance_factor, wilson_interval

FACTOR = variance_factor(5)
SHARES = st.integers(0, 1000).map(lambda k: k / 1000)  # apart by more than the rounding of an interval's end
LIMITS = st.integers(500, 1000).map(lambda k: k / 1000)


def of_hits(hits: int, rows: int, limit: float) -> Verdict:
    """Return the verdict on independent rows."""
    values = (np.arange(rows) < hits).astype(float)
    found = share_interval(values, np.zeros(rows, np.int64), np.arange(rows), factor=FACTOR)
    return compute_verdict(*found, rows=rows, limit=limit)


@pytest.mark.parametrize(
    ("hits", "state"), [(430, "accepted"), (500, "accepted"), (560, "undecided"), (700, "refused")]
)
def test_a_set_is_accepted_refused_or_undecided(hits: int, state: str) -> None:
    found = of_hits(hits, 1000, 0.6)
    assert found.state == state
    assert found.is_passing("equivalence") == (state == "accepted")
    assert found.is_passing("not_refuted") == (state != "refused")
    assert str(found).startswith(state)


@pytest.mark.parametrize(("rows", "first"), [(100, 75), (807, 526)])
def test_what_was_accepted_because_nothing_was_shown_is_now_undecided(rows: int, first: int) -> None:
    assert of_hits(first, rows, 0.6).state == "refused", "the old rule stopped from here"
    below = of_hits(first - 1, rows, 0.6)
    assert (below.state, below.is_passing("not_refuted"), below.is_passing("equivalence")) == (
        "undecided",
        True,
        False,
    )


def test_an_unknown_accuracy_is_no_proof_of_anything() -> None:
    found = compute_verdict(np.nan, np.nan, np.nan, rows=3, limit=0.6)
    assert (found.state, found.needed) == ("undecided", None)


@given(SHARES, SHARES, st.integers(1, 5000), LIMITS)
def test_a_lower_accuracy_never_fares_worse(one: float, other: float, rows: int, limit: float) -> None:
    worst = ["accepted", "undecided", "refused"]
    low, high = (
        worst.index(compute_verdict(p, *map(float, wilson_interval(p, rows)), rows=rows, limit=limit).state)
        for p in sorted((one, other))
    )
    assert low <= high


@given(SHARES, st.integers(1, 5000), LIMITS, LIMITS)
def test_a_higher_limit_never_accepts_less(share: float, rows: int, one: float, other: float) -> None:
    best = ["refused", "undecided", "accepted"]
    interval = tuple(map(float, wilson_interval(share, rows)))
    low, high = (compute_verdict(share, *interval, rows=rows, limit=limit) for limit in sorted((one, other)))
    assert best.index(low.state) <= best.index(high.state)
    assert low.needed is None or (high.needed is not None and high.needed <= low.needed)


@given(SHARES, st.floats(0.5, 5000), st.floats(0.51, 1))
def test_the_rows_that_are_needed_scale_with_the_design_effect(share: float, n: float, limit: float) -> None:
    found = compute_verdict(share, *map(float, wilson_interval(share, n)), rows=1000, limit=limit)
    assert found.needed == pytest.approx(1000 / n * required_sample_size(limit), rel=1e-3, abs=1)


@pytest.mark.parametrize("limit", [0.55, 0.6, 0.7])
def test_with_the_rows_that_are_needed_four_of_five_sets_at_chance_are_accepted(limit: float) -> None:
    needed = of_hits(50, 100, limit).needed
    assert needed is not None
    rng = np.random.default_rng(0)
    # The interval counts the folds; hits that depend on each other as it says are those of fewer rows.
    hits = rng.binomial(round(needed / FACTOR), 0.5, size=4000) / round(needed / FACTOR)
    accepted = [float(wilson_interval(p, needed / FACTOR)[1]) <= limit for p in hits]
    assert np.mean(accepted) == pytest.approx(POWER, abs=0.04)


def test_a_set_whose_attacker_is_at_the_limit_is_seldom_accepted() -> None:
    rng = np.random.default_rng(1)
    accepted = [float(wilson_interval(p, 400)[1]) <= 0.6 for p in rng.binomial(400, 0.6, size=4000) / 400]
    assert np.mean(accepted) == pytest.approx(0.025, abs=0.01)


def test_the_message_says_whether_more_rows_would_help() -> None:
    assert str(of_hits(55, 100, 0.6)).endswith("from about 445 rows like these on, and there are 100")
    assert "fix the rows before adding more" in str(of_hits(1080, 2000, 0.56))
    assert "no number of rows" in str(of_hits(50, 100, 0.5))


def test_the_quantile_is_that_of_the_power() -> None:
    assert NormalDist().inv_cdf(POWER) == pytest.approx(Z_POWER)
