"""The fast path against an oracle that reads the definitions, one instance at a time."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel import tables
from caramel.evaluation.metrics import METRICS, outcomes

COLUMNS = [c for c in tables.SIMILARITIES.columns if c not in tables.SIMILARITIES.key]
# Few values, so that ties and missing similarities are common.
VALUE = st.sampled_from([-0.5, 0.0, 0.25, 0.25, 0.75, math.nan])
ROW = st.fixed_dictionaries(dict.fromkeys(COLUMNS, VALUE))


def judge(contests: list[tuple[float, float]]) -> tuple[bool | None, bool]:
    """Return (hit or None, tie) of contests that the first of each pair must win."""
    if any(math.isnan(x) for pair in contests for x in pair):
        return None, False
    return all(a > b for a, b in contests), any(a == b for a, b in contests)


def oracle(r: dict[str, float]) -> dict[str, tuple[bool | None, bool]]:
    """Return the outcome of every metric for one instance, from the papers' definitions."""
    pos_image_picks_text = (r["s_c0_i0"], r["s_c1_i0"])
    neg_image_picks_text = (r["s_c1_i1"], r["s_c0_i1"])
    pos_text_picks_image = (r["s_c0_i0"], r["s_c0_i1"])
    neg_text_picks_image = (r["s_c1_i1"], r["s_c1_i0"])
    i2t = [pos_image_picks_text, neg_image_picks_text]
    t2i = [pos_text_picks_image, neg_text_picks_image]
    found = {
        "accuracy": judge([pos_image_picks_text]),
        "p2_vs_n": judge([(r["s_c2_i0"], r["s_c1_i0"])]),
        "itt": judge([(r["s_c0_i0"], r["s_c1_i0"]), (r["s_c2_i0"], r["s_c1_i0"])]),
        "tot": judge([(r["t_p1_p2"], r["t_p2_n"]), (r["t_p1_p2"], r["t_p1_n"])]),
        "i2t": judge(i2t),
        "t2i": judge(t2i),
        "group": judge(i2t + t2i),
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


@given(st.lists(ROW, min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_fast_path_agrees_with_the_definitions(rows: list[dict[str, float]]) -> None:
    frame = pd.DataFrame(rows, index=[f"i{n}" for n in range(len(rows))])
    hits, ties = outcomes(frame)
    assert list(hits.index) == list(frame.index)
    for position, row in enumerate(rows):
        for name, (hit, tie) in oracle(row).items():
            value = hits[name].iloc[position]
            assert (None if value is pd.NA else bool(value)) == hit, name
            assert bool(ties[name].iloc[position]) == tie, name


def test_every_metric_has_an_oracle() -> None:
    assert set(oracle(dict.fromkeys(COLUMNS, 0.0))) == set(METRICS)


def test_a_model_of_constant_similarity_misses_everything_and_ties_everywhere() -> None:
    hits, ties = outcomes(pd.DataFrame(dict.fromkeys(COLUMNS, np.full(5, 0.3))))
    assert not hits.to_numpy(dtype=bool).any()
    assert ties.to_numpy().all()


@pytest.mark.parametrize("name", METRICS)
def test_chance_is_what_random_similarities_give(name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((40_000, len(COLUMNS))), columns=COLUMNS)
    assert outcomes(frame).hits[name].mean() == pytest.approx(METRICS[name].chance, abs=0.01)
