"""Figures on seen and unseen compounds at equal shares of the subtypes."""

from __future__ import annotations

from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.standardisation import STANDARDISED_COLUMNS, standardise_compounds
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap

# Shares of the subtypes as they are for real: the easy one is mostly seen, the hard one mostly unseen.
COUNTS = {("seen", "replace_obj"): 120, ("seen", "swap_att"): 40, ("unseen", "replace_obj"): 30, ("unseen", "swap_att"): 90}  # fmt: skip


def simulate(chances: dict[str, dict[tuple[str, str], float]], seed: int = 0) -> pd.DataFrame:
    """Return a table ``similarities``; ``chances``: model -> compounds and subtype -> probability of a hit."""
    rng = np.random.default_rng(seed)
    rows = []
    for model, chance in chances.items():
        number = 0
        for (compounds, subtype), count in COUNTS.items():
            for hit in rng.random(count) < chance[compounds, subtype]:
                rows.append(
                    {
                        "instance_id": f"i{number}",
                        "image_id": f"image{number}",
                        "subsets": ["without_add", compounds, subtype],
                        "model": model,
                        "benchmark": "instances",
                        "s_c0_i0": 0.5,
                        "s_c1_i0": 0.4 if hit else 0.6,
                    }
                )
                number += 1
    return build_frame(SIMILARITIES, pd.DataFrame(rows))


def estimate(scores: pd.DataFrame) -> pd.DataFrame:
    found = standardise_compounds(
        compute_run_hits(scores, "instances", ["accuracy"]), bootstrap=Bootstrap(300, 0)
    )
    return found.set_index(["a", "b", "compounds"])


def flat(easy: float, hard: float) -> dict[tuple[str, str], float]:
    """Return chances that depend on the subtype alone."""
    return {key: easy if key[1] == "replace_obj" else hard for key in COUNTS}


def test_a_model_that_knows_nothing_of_compounds_has_one_value_on_both_although_their_shares_differ() -> None:
    found = estimate(simulate({"base": flat(1.0, 0.0)}))
    assert found["value"]["base", "", "seen"] == pytest.approx(found["value"]["base", "", "unseen"])
    share = (120 + 30) / 280
    assert found["value"]["base", "", "seen"] == pytest.approx(share)
    assert found["value"]["base", "", "interaction"] == pytest.approx(0)


def test_the_value_is_the_weighted_mean_of_the_subtypes_by_hand() -> None:
    scores = simulate({"base": flat(0.9, 0.3)})
    hit = scores["s_c0_i0"] > scores["s_c1_i0"]
    names = scores["subsets"].map(lambda of: (of[1], of[2]))
    mean = hit.groupby(names).mean()
    wanted = sum(
        (120 + 30, 40 + 90)[n] / 280 * mean["unseen", s] for n, s in enumerate(("replace_obj", "swap_att"))
    )
    assert estimate(scores)["value"]["base", "", "unseen"] == pytest.approx(wanted)


def test_an_interaction_that_is_there_is_found() -> None:
    gain = {key: 0.9 if key[0] == "seen" else 0.2 for key in COUNTS}
    scores = simulate({"base": flat(0.2, 0.2), "tuned-1": gain, "tuned-2": gain})
    found = estimate(scores)
    assert found["p"]["tuned", "base", "interaction"] < 0.001
    assert found["value"]["tuned", "base", "interaction"] == pytest.approx(0.7, abs=0.2)


def test_the_test_of_the_interaction_keeps_its_level() -> None:
    p = [
        estimate(simulate({"base": flat(0.7, 0.3), "tuned-1": flat(0.8, 0.5)}, seed))["p"][
            "tuned", "base", "interaction"
        ]
        for seed in range(60)
    ]
    assert sum(value < 0.05 for value in p) <= 9  # 60 tests at 5 %: more than 9 has a chance of 1 in 1,500


def test_without_compounds_or_without_a_subtype_in_both_there_is_nothing_to_standardise() -> None:
    scores = simulate({"base": flat(0.5, 0.5)})
    only_seen = scores[[("seen" in of) for of in scores["subsets"]]]
    found = standardise_compounds(
        compute_run_hits(only_seen, "instances", ["accuracy"]), bootstrap=Bootstrap(100, 0)
    )
    assert found.empty
    assert tuple(found.columns) == STANDARDISED_COLUMNS


INSTANCES = st.lists(
    st.tuples(
        st.sampled_from(["seen", "unseen"]),
        st.sampled_from(["replace_obj", "swap_att", "add_obj"]),
        st.integers(0, 4),  # of which image
        st.tuples(st.booleans(), st.booleans()),  # what either model has right
    ),
    min_size=2,
    max_size=40,
)


def build(instances: list[tuple[str, str, int, tuple[bool, bool]]], models: tuple[str, str]) -> pd.DataFrame:
    """Return the table ``similarities`` of two models, by name in this order."""
    rows = [
        {
            "instance_id": f"i{number}",
            "image_id": f"image{image}",
            "subsets": [compounds, subtype],
            "model": model,
            "benchmark": "instances",
            "s_c0_i0": 0.5,
            "s_c1_i0": 0.4 if right[("base", "tuned").index(model)] else 0.6,
        }
        for model in models
        for number, (compounds, subtype, image, right) in enumerate(instances)
    ]
    return build_frame(SIMILARITIES, pd.DataFrame(rows))


@given(INSTANCES, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_figures_do_not_depend_on_the_order_of_rows_and_turn_their_sign_with_the_models(
    instances: list[tuple[str, str, int, tuple[bool, bool]]], random: Random
) -> None:
    found = estimate(build(instances, ("base", "tuned")))
    shuffled = random.sample(instances, len(instances))
    again = estimate(build(shuffled, ("base", "tuned")))
    pd.testing.assert_series_equal(found["value"], again["value"])
    turned = estimate(build(instances, ("tuned", "base")))
    for group in found.loc["tuned", "base"].index if len(found) else ():
        one, other = found.loc["tuned", "base", group], turned.loc["base", "tuned", group]
        assert one["value"] == pytest.approx(-other["value"])
        assert one["ci_low"] == pytest.approx(-other["ci_high"], nan_ok=True)
        assert one["p"] == pytest.approx(other["p"], nan_ok=True)


@given(INSTANCES)
@settings(max_examples=60)
def test_a_difference_is_that_of_the_values_and_the_interaction_that_of_the_groups(
    instances: list[tuple[str, str, int, tuple[bool, bool]]],
) -> None:
    found = estimate(build(instances, ("base", "tuned")))["value"]
    if found.empty:
        groups = [{s for c, s, *_ in instances if c == name} for name in ("seen", "unseen")]
        assert not groups[0] & groups[1]
        return
    for a, b in (("base", ""), ("tuned", ""), ("tuned", "base")):
        assert found[a, b, "interaction"] == pytest.approx(found[a, b, "seen"] - found[a, b, "unseen"])
    for group in ("seen", "unseen"):
        assert 0 <= found["base", "", group] <= 1
        assert found["tuned", "base", group] == pytest.approx(
            found["tuned", "", group] - found["base", "", group]
        )


@given(INSTANCES)
@settings(max_examples=40)
def test_a_group_s_value_is_not_moved_by_how_many_instances_of_a_subtype_it_has(
    instances: list[tuple[str, str, int, tuple[bool, bool]]],
) -> None:
    twice = [row for row in instances for _ in range(2)]  # each subtype twice in both groups: equal shares
    before, after = (estimate(build(rows, ("base", "tuned")))["value"] for rows in (instances, twice))
    pd.testing.assert_series_equal(before, after)
