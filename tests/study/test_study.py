"""What a study says of its cells: the contrast by draws of the scenes, components, and all else corrected by Holm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from caramel.config.profiles import read_profile
from caramel.config.schema import Config
from caramel.errors import DataError
from caramel.report.sections.study_sections import format_claim
from caramel.report.study_page import render_study_page
from caramel.schemas.study import STUDY
from caramel.study.cells import Cell, list_cells
from caramel.study.preregistration import Registration
from caramel.study.study import CellResults, compare_all, compare_variants, plan_study, summarise_study
from caramel.utils.stats import holm_correction

ROOT = Path(__file__).parents[2]
Draws = Sequence[tuple[int, int]]
VARIANTS = ("base", "infonce", "trohn_text", "trohn_img")
COLUMNS = [(m, "without_add") for m in ("accuracy", "i2t", "t2i", "group")] + [
    ("group", "seen"),
    ("group", "unseen"),
]


# Two draws with two generators, and two with two bases: each component of the spread can be told.
SETS = {"study.draws": "[[2, 1], [1, 2], [2, 1], [1, 2]]", "report.primary_comparison.against": "base"}


def config(**sets: str) -> Config:
    named = {key.replace("__", "."): value for key, value in sets.items()}
    return read_profile("study", SETS | named, ROOT)[1]


def runs(
    *, lift: float = 0.05, noise: float = 0.01, seed: int = 0, draws: Draws | None = None
) -> pd.DataFrame:
    """Return table ``study`` of the cells: images lift every figure, the rest is noise."""
    rng, rows = np.random.default_rng(seed), []
    for cell in list_cells(draws or config().study.draws):
        for variant in VARIANTS:
            for tuned in ("",) if variant == "base" else ("11", "12"):
                for metric, subset in COLUMNS:
                    value = 0.5 + lift * (variant == VARIANTS[-1]) + noise * rng.standard_normal()
                    rows.append((variant, tuned, *cell, subset, metric, value, 500))
    return pd.DataFrame(rows, columns=list(STUDY.columns))


def ran(rows: pd.DataFrame, draws: Draws | None = None) -> CellResults:
    rng, names = np.random.default_rng(1), [(f"i{n}", f"i{n}:x") for n in range(80)]
    index = pd.MultiIndex.from_tuples(names, names=["image_id", "instance_id"])
    hits = [
        (cell, pd.Series(rng.integers(-1, 2, 80).astype(float), index=index))
        for cell in list_cells(draws or config().study.draws)
        for _ in range(2)
    ]
    return CellResults(rows, dict.fromkeys(("without_add", "seen", "unseen"), hits))


EXPLORATORY = Registration(False, "Exploratory: no plan.")


def value(rows: pd.DataFrame, **where: object) -> float:
    for column, wanted in where.items():
        rows = rows[rows[column] == wanted]
    return float(rows["value"].item())


def test_a_comparison_pairs_runs_of_one_cell_and_seed_and_the_base_with_all_of_its_cell() -> None:
    rows = runs()
    for against in ("base", "infonce"):
        found = compare_variants(rows, "trohn_img", against, "group", "seen").values
        assert len(found) == 8 * 2
        for key, difference in found.items():
            cell = dict(zip(Cell._fields, key, strict=False)) | {"metric": "group", "subset": "seen"}
            tuned = "" if against == "base" else key[3]
            mine = value(rows, variant="trohn_img", finetune=key[3], **cell)
            assert difference == pytest.approx(mine - value(rows, variant=against, finetune=tuned, **cell))


def test_the_interval_and_the_test_are_those_of_the_means_of_the_draws() -> None:
    found = compare_variants(runs(), "trohn_img", "base", "group", "without_add")
    means = [np.mean([v for key, v in found.values.items() if key[0] == draw]) for draw in range(4)]
    wanted = stats.ttest_1samp(means, 0)
    assert found.p == pytest.approx(wanted.pvalue)
    low, high = wanted.confidence_interval()
    assert (found.over_draws.low, found.over_draws.high) == pytest.approx((low, high))


def test_the_contrast_stands_first_and_once_and_all_pairs_follow() -> None:
    found = compare_all(runs(), config().report.primary_comparison)
    keys = [(f.variant, f.against, f.metric, f.subset) for f in found]
    assert keys[0] == ("trohn_img", "base", "group", "without_add")
    assert len(set(keys)) == len(keys) == 6 * len(COLUMNS)


def test_a_contrast_that_is_named_the_other_way_round_is_compared_once_and_has_its_compounds() -> None:
    turned = config(
        report__primary_comparison__variant="infonce", report__primary_comparison__against="trohn_img"
    )
    found = compare_all(runs(), turned.report.primary_comparison)
    pairs = [(frozenset((f.variant, f.against)), f.metric, f.subset) for f in found]
    assert len(set(pairs)) == len(pairs) == 6 * len(COLUMNS)
    assert list(summarise_study(ran(runs()), turned, "c0ffee", EXPLORATORY)["compounds"]) == [
        "seen",
        "unseen",
    ]


def test_a_difference_below_0_does_not_show_the_claim() -> None:
    found = summarise_study(ran(runs(lift=-0.05, noise=0.002)), config(), "c0ffee", EXPLORATORY)
    assert found["contrast"]["p"] < 0.05
    assert found["contrast"]["shown"] is False
    assert format_claim(found).startswith(
        "The opposite is shown: trohn_img over base, Group on without_add, −5"
    )
    assert "opposite is shown" in render_study_page(found)


def test_draws_that_do_not_differ_at_all_show_nothing() -> None:
    assert compare_variants(runs(noise=0.0), "trohn_img", "base", "group", "seen").p == 1


def test_where_no_number_is_enough_the_page_says_how_many_were_looked_at() -> None:
    found = summarise_study(ran(runs(noise=0.3)), config(study__effect="0.001"), "c0ffee", EXPLORATORY)
    assert found["contrast"]["power"]["needed"]["instances"] is None
    assert "not with 1\u202f000 times as many" in render_study_page(found)


def test_a_study_of_one_generator_and_base_in_each_draw_has_its_contrast_and_what_can_be_told_of_its_spread() -> (
    None
):
    one_each = {"study.draws": str([[1, 1]] * 8), "report.primary_comparison.against": "infonce"}
    asked = read_profile("study", one_each, ROOT)[1]
    rows = runs(draws=asked.study.draws)
    found = summarise_study(ran(rows, asked.study.draws), asked, "0" * 40, EXPLORATORY)
    assert found["contrast"]["against"] == "infonce"
    assert found["contrast"]["shown"]
    assert len(found["contrast"]["cells"]) == 8
    assert sum(part["share"] or 0 for part in found["contrast"]["components"]) == pytest.approx(1)
    assert "Shown" in render_study_page(json.loads(json.dumps(found)))


def test_holm_is_over_all_but_the_contrast() -> None:
    found = summarise_study(ran(runs(lift=0.02)), config(), "c0ffee", EXPLORATORY)
    p = np.array([row["p"] for row in found["exploratory"]])
    assert len(p) == 6 * len(COLUMNS) - 1
    assert [row["p_holm"] for row in found["exploratory"]] == pytest.approx(holm_correction(p))
    assert [row["shown"] for row in found["exploratory"]] == [q < 0.05 for q in holm_correction(p)]


def test_the_summary_is_json_with_components_that_sum_to_one_seen_and_unseen() -> None:
    found = json.loads(
        json.dumps(summarise_study(ran(runs()), config(), "c0ffee", EXPLORATORY), allow_nan=False)
    )
    parts = {"contrast": found["contrast"], **found["compounds"]}
    assert list(parts) == ["contrast", "seen", "unseen"]
    for part in parts.values():
        assert sum(row["share"] for row in part["components"]) == pytest.approx(1)
        assert len(part["cells"]) == 8
        assert 0 <= part["power"]["power"] <= 1


def test_the_models_figures_are_means_of_draws_and_differ_as_the_comparisons_say() -> None:
    rows = runs()
    found = summarise_study(ran(rows), config(), "c0ffee", EXPLORATORY)
    of = {(row["variant"], row["metric"], row["subset"]): row for row in found["models"]}
    assert len(of) == 4 * len(COLUMNS)
    base = rows[(rows["variant"] == "base") & (rows["metric"] == "i2t")]
    draws = [base[base["scenes"] == draw]["value"].mean() for draw in range(4)]
    assert of["base", "i2t", "without_add"]["mean"] == pytest.approx(np.mean(draws))
    assert of["base", "i2t", "without_add"]["sd"] == pytest.approx(np.std(draws, ddof=1))
    for row in found["exploratory"]:
        pair = [of[row[side], row["metric"], row["subset"]]["mean"] for side in ("variant", "against")]
        assert row["mean"] == pytest.approx(pair[0] - pair[1])


@pytest.mark.parametrize(("lift", "noise", "verdict"), [(0.05, 0.002, "Shown"), (0.0, 0.02, "Not shown")])
def test_the_page_says_shown_or_not_shown_by_the_rule(lift: float, noise: float, verdict: str) -> None:
    found = summarise_study(ran(runs(lift=lift, noise=noise, seed=3)), config(), "c0ffee", EXPLORATORY)
    assert found["contrast"]["shown"] is (verdict == "Shown") is (found["contrast"]["p"] < 0.05)
    assert format_claim(found).startswith(f"{verdict}: trohn_img over base, Group on without_add,")
    page = render_study_page(found).replace("<wbr>", "")
    for text in (
        format_claim(found).split(",")[0],
        "Variance components",
        "fine-tuning seeds",
        "Holm",
        "c0ffee",
    ):
        assert text in page
    assert "http" not in page.replace("http-equiv", "")


def test_nothing_is_bold_without_a_test_that_shows_it() -> None:
    found = summarise_study(ran(runs(lift=0.0, noise=0.02, seed=3)), config(), "c0ffee", EXPLORATORY)
    assert not any(row["shown"] for row in found["exploratory"])
    assert 'class="best"' not in render_study_page(found)


def test_a_figure_that_a_cell_lacks_is_an_error() -> None:
    rows = runs()
    rows.loc[rows["finetune"] == "12", "value"] = np.nan
    with pytest.raises(DataError, match="group on unseen of trohn_img over base"):
        compare_variants(rows, "trohn_img", "base", "group", "unseen")


def test_the_plan_of_the_profile_has_a_cell_for_each_of_eight_draws() -> None:
    found, todo = plan_study("study", {}, ROOT)
    assert [cell for cell, _ in todo] == [Cell(draw, 0, 0) for draw in range(8)]
    assert found.finetune.seeds == (11, 12)
    assert found.report.primary_comparison.variant in found.finetune.variants
