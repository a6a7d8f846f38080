"""The fast path against an oracle that reads the definitions, one instance at a time."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.benchmarks.metrics import METRICS, RECALLS, compute_outcomes
from caramel.errors import DataError
from caramel.schemas.contracts import FLOAT
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame

COLUMNS = [
    name
    for name, column in SIMILARITIES.columns.items()
    if column.type == FLOAT and not name.startswith("s_true") and name != "s_other"
]
# Few values, so that ties and missing similarities are common.
VALUE = st.sampled_from([-0.5, 0.0, 0.25, 0.25, 0.75, math.nan])
ROW = st.fixed_dictionaries(dict.fromkeys(COLUMNS, VALUE))
# Scores of some true and some false candidates.
SCORES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.75]), min_size=1, max_size=12)
QUERY = st.tuples(SCORES, SCORES, st.booleans())


def judge(contests: list[tuple[float, float]]) -> tuple[bool | None, bool]:
    """Return (hit or None, tie) of contests that the first of each pair must win."""
    if any(math.isnan(x) for pair in contests for x in pair):
        return None, False
    return all(a > b for a, b in contests), any(a == b for a, b in contests)


def oracle(r: Mapping[str, float]) -> dict[str, tuple[bool | None, bool]]:
    """Return the outcome of every metric for one instance, from the papers' definitions."""
    pos_image_picks_text = (r["s_c0_i0"], r["s_c1_i0"])
    neg_image_picks_text = (r["s_c1_i1"], r["s_c0_i1"])
    pos_text_picks_image = (r["s_c0_i0"], r["s_c0_i1"])
    neg_text_picks_image = (r["s_c1_i1"], r["s_c1_i0"])
    i2t = [pos_image_picks_text, neg_image_picks_text]
    t2i = [pos_text_picks_image, neg_text_picks_image]
    found = {
        "accuracy": judge([pos_image_picks_text]),
        "image_accuracy": judge([pos_text_picks_image]),
        "p2_vs_n": judge([(r["s_c2_i0"], r["s_c1_i0"])]),
        "itt": judge([(r["s_c0_i0"], r["s_c1_i0"]), (r["s_c2_i0"], r["s_c1_i0"])]),
        "tot": judge([(r["t_p1_p2"], r["t_p2_n"]), (r["t_p1_p2"], r["t_p1_n"])]),
        "i2t": judge(i2t),
        "t2i": judge(t2i),
        "group": judge(i2t + t2i),
        "group_match": judge([(r["s_c0_i0"] + r["s_c1_i1"], r["s_c0_i1"] + r["s_c1_i0"])]),
    }
    both_images = judge(i2t + t2i)[0] is not None
    for name, contest in {
        "i_pos2t": pos_image_picks_text,
        "i_neg2t": neg_image_picks_text,
        "t_pos2i": pos_text_picks_image,
        "t_neg2i": neg_text_picks_image,
    }.items():
        found[name] = judge([contest]) if both_images else (None, False)
    return found


def ranked(true: list[float], false: list[float], k: int, ties_lost: bool) -> bool:
    """Return whether a true candidate is among the first k of the sorted list.

    Equal scores are sorted to the false candidates' advantage, or to the true ones'.
    """
    order = [(-score, ties_lost, "true") for score in true] + [
        (-score, not ties_lost, "false") for score in false
    ]
    return "true" in [kind for *_, kind in sorted(order)[:k]]


def oracle_of_ranks(
    true: list[float], false: list[float], missing: bool
) -> dict[str, tuple[float | None, bool]]:
    """Return share of hits and tie of every recall for one query; a tie is what the order decides."""
    found: dict[str, tuple[float | None, bool]] = {}
    for name, ks in {**{f"recall@{k}": [k] for k in (1, 3, 5, 10)}, "avg_recall": [1, 3]}.items():
        lost = [ranked(true, false, k, ties_lost=True) for k in ks]
        won = [ranked(true, false, k, ties_lost=False) for k in ks]
        found[name] = (None, False) if missing else (sum(lost) / len(ks), lost != won)
    return found


def same(value: float, expected: float | None) -> bool:
    return math.isnan(value) if expected is None else value == pytest.approx(float(expected))


@given(st.lists(ROW, min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_fast_path_agrees_with_the_definitions(rows: list[dict[str, float]]) -> None:
    frame = pd.DataFrame(rows, index=[f"i{n}" for n in range(len(rows))])
    hits, ties = compute_outcomes(frame, list(METRICS))
    assert list(hits.index) == list(ties.index) == list(frame.index)
    assert list(hits.columns) == list(ties.columns) == list(METRICS)
    for position, row in enumerate(rows):
        for name, (hit, tie) in oracle(row).items():
            assert same(hits[name].iloc[position], hit), name
            assert bool(ties[name].iloc[position]) == tie, name


@given(st.lists(QUERY, min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_recalls_agree_with_the_sorted_list(queries: list[tuple[list[float], list[float], bool]]) -> None:
    rows = [
        {
            "n_above": math.nan if missing else sum(x > max(true) for x in false),
            "n_tied": math.nan if missing else sum(x == max(true) for x in false),
        }
        for true, false, missing in queries
    ]
    hits, ties = compute_outcomes(pd.DataFrame(rows, dtype=float), list(RECALLS))
    for position, query in enumerate(queries):
        for name, (hit, tie) in oracle_of_ranks(*query).items():
            assert same(hits[name].iloc[position], hit), name
            assert bool(ties[name].iloc[position]) == tie, name


def test_recalls_of_queries_worked_out_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "n_above": [0, 0, 1, 2, 4, 9, 10, np.nan],
            "n_tied": [0, 1, 0, 1, 0, 0, 0, np.nan],
        }
    )
    hits, ties = compute_outcomes(frame, list(RECALLS))
    assert hits["recall@1"].tolist()[:-1] == [1, 0, 0, 0, 0, 0, 0]
    assert hits["recall@3"].tolist()[:-1] == [1, 1, 1, 0, 0, 0, 0]
    assert hits["recall@5"].tolist()[:-1] == [1, 1, 1, 1, 1, 0, 0]
    assert hits["recall@10"].tolist()[:-1] == [1, 1, 1, 1, 1, 1, 0]
    assert hits["avg_recall"].tolist()[:-1] == pytest.approx([1, 1 / 2, 1 / 2, 0, 0, 0, 0])
    assert hits.iloc[-1].isna().all()
    assert ties["recall@1"].tolist() == [False, True, *[False] * 6]
    assert ties["recall@3"].tolist() == [False, False, False, True, *[False] * 4]
    assert ties["avg_recall"].tolist() == [False, True, False, True, *[False] * 4]
    assert not ties[["recall@5", "recall@10"]].to_numpy().any()


def test_every_metric_has_an_oracle() -> None:
    assert set(oracle(dict.fromkeys(COLUMNS, 0.0))) == set(METRICS)
    assert set(oracle_of_ranks([0.0], [0.0], False)) == set(RECALLS)


def test_a_model_of_constant_similarity_misses_everything_and_ties_everywhere() -> None:
    hits, ties = compute_outcomes(pd.DataFrame(dict.fromkeys(COLUMNS, np.full(5, 0.3))), list(METRICS))
    assert not hits.to_numpy(dtype=bool).any()
    assert ties.to_numpy().all()


def test_metrics_come_in_the_order_that_they_were_asked_for() -> None:
    frame = pd.DataFrame([dict.fromkeys(COLUMNS, 0.0)])
    assert list(compute_outcomes(frame, ["group", "accuracy"]).hits.columns) == ["group", "accuracy"]


def test_an_unknown_metric_lists_the_choices() -> None:
    with pytest.raises(DataError, match="Unknown metric 'acc'") as stopped:
        compute_outcomes(pd.DataFrame(), ["acc"])
    assert all(name in str(stopped.value) for name in [*METRICS, *RECALLS])


FOUR = ("s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1")


def test_group_match_of_instances_worked_out_by_hand() -> None:
    rows = [
        (0.9, 0.1, 0.2, 0.8),  # Group as well: 1.7 against 0.3
        (0.9, 0.1, 0.5, 0.4),  # the second image picks the wrong caption, and 1.3 beats 0.6
        (0.5, 0.6, 0.7, 0.4),  # 0.9 against 1.3
        (0.75, 0.5, 0.5, 0.25),  # 1 against 1: a tie
        (0.5, 0.25, 0.5, 0.25),  # equal images, so that they tell nothing: a tie
        (0.9, math.nan, 0.2, 0.8),
    ]
    hits, ties = compute_outcomes(
        build_frame(SIMILARITIES, pd.DataFrame(rows, columns=FOUR)), ["group_match", "group"]
    )
    assert hits["group_match"].tolist()[:5] == [1, 1, 0, 0, 0]
    assert hits["group"].tolist()[:5] == [1, 0, 0, 0, 0]
    assert ties["group_match"].tolist() == [False, False, False, True, True, False]
    assert hits.iloc[5].isna().all()


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 4), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_who_has_group_has_group_match_however_near_or_large_the_scores(
    rows: list[tuple[float, ...]],
) -> None:
    # The next larger number for the right pairs: a sum of both would round the difference away.
    near = [(math.nextafter(a, math.inf), a, d, math.nextafter(d, math.inf)) for a, _, _, d in rows]
    frame = build_frame(SIMILARITIES, pd.DataFrame([*rows, *near], columns=FOUR))
    hits, ties = compute_outcomes(frame, ["group_match", "group"])
    assert (hits["group_match"] >= hits["group"]).all()
    assert (hits["group_match"][ties["group_match"]] == 0).all()


@pytest.mark.parametrize("name", METRICS)
def test_chance_is_what_random_similarities_give(name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((40_000, len(COLUMNS))), columns=COLUMNS)
    assert compute_outcomes(frame, [name]).hits[name].mean() == pytest.approx(METRICS[name].chance, abs=0.01)
