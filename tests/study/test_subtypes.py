"""Parts of a study's contrast by subtype."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from caramel.config.sections.results import PrimaryComparison
from caramel.study.subtypes import compute_parts

SIZES = {"swap_att": 30, "replace_rel": 10, "add_obj": 60}


def build(gains: dict[str, list[float]], against: str) -> pd.DataFrame:
    """Return table ``study`` of two draws with two seeds each; ``gains``: by subtype the difference in each draw."""
    rows = []
    for draw in range(2):
        for seed in ("11", "12"):
            for subset, n in SIZES.items():
                common = {
                    "scenes": draw,
                    "generator": 0,
                    "base": 0,
                    "subset": subset,
                    "metric": "group",
                    "n": n,
                }
                other = {"variant": against, "finetune": "" if against == "base" else seed, "value": 0.5}
                if against != "base" or seed == "11":
                    rows.append({**common, **other})
                value = 0.5 + gains[subset][draw]
                rows.append({**common, "variant": "trohn_img", "finetune": seed, "value": value})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("against", ["base", "infonce"])
def test_parts_add_up_to_the_difference_over_the_instances_of_the_subset(against: str) -> None:
    runs = build({"swap_att": [0.1, 0.2], "replace_rel": [0.0, -0.1], "add_obj": [0.4, 0.4]}, against)
    contrast = PrimaryComparison(variant="trohn_img", against=against, metric="group", subset="without_add")
    parts = compute_parts(runs, contrast)
    assert [part["subtype"] for part in parts] == ["replace_rel", "swap_att"]
    by_draw = [(0.1 * 30 + 0.0) / 40, (0.2 * 30 - 0.1 * 10) / 40]
    assert sum(part["part"] for part in parts) == pytest.approx(np.mean(by_draw))
    swap = parts[1]
    assert (swap["n"], swap["value_against"]) == (30, pytest.approx(0.5))
    assert swap["difference"] == pytest.approx(0.15)
    assert swap["part_low"] < swap["part"] < swap["part_high"]
    whole = compute_parts(runs, contrast.model_copy(update={"subset": "all"}))
    assert [part["subtype"] for part in whole] == ["replace_rel", "swap_att", "add_obj"]


def test_a_contrast_of_some_compounds_has_no_parts() -> None:
    contrast = PrimaryComparison(variant="trohn_img", against="base", metric="group", subset="unseen")
    assert compute_parts(build({name: [0.0, 0.0] for name in SIZES}, "base"), contrast) == []
