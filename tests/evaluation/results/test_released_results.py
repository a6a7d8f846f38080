"""Per-instance results that authors released give the figures that their papers print."""

import csv
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from released import BIVLC, SUGARCREPE, released

from caramel.evaluation.external.runs import compute_file_metrics
from caramel.registry import BENCHMARKS
from caramel.report.published_rows import read_published_rows
from caramel.utils.resampling import Bootstrap

DETECTORS = ("src", "Detectors", "results")
GPT4V = "gpt-4v-results"


@cache
def measured(paths: tuple[Path, ...], benchmark: str) -> pd.DataFrame:
    """Return the metrics that `caramel metrics` makes of files, by subset and metric."""
    found = compute_file_metrics(paths, BENCHMARKS[benchmark], bootstrap=Bootstrap(10, 0))
    return found.set_index(["subset", "metric"])


def printed(table: str, row: str, benchmark: str) -> dict[tuple[str, str], str]:
    """Return the figures of a row of a table of BiVLC's paper, per cent as printed."""
    rows = read_published_rows()
    chosen = rows[
        (rows["paper"] == "BiVLC")
        & (rows["table"] == table)
        & (rows["row"] == row)
        & (rows["benchmark"] == benchmark)
    ]
    return {(r.subset, r.metric): r.value for r in chosen.itertuples()}


def agree(found: pd.DataFrame, figures: dict[tuple[str, str], str]) -> None:
    assert {place: f"{100 * found.loc[place, 'value']:.2f}" for place in figures} == figures


def answers(order: str) -> tuple[Path, ...]:
    return tuple(sorted(released(SUGARCREPE, GPT4V, order).glob("*.json")))


@pytest.mark.parametrize("table", ["Table 3", "Table 4"])
@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("BiVLC_ViT-B-32.csv", "CLIP"),
        ("BiVLC_CLIP_COCO.csv", "CLIP_COCO"),
        ("BiVLC_CLIP_TROHN-Img.csv", "CLIP_TROHN-IMG"),
    ],
)
def test_the_results_of_bivlc_are_its_tables_3_and_4(file: str, row: str, table: str) -> None:
    found = measured((released(BIVLC, "results", file),), "bivlc")
    figures = printed(table, row, "bivlc")
    assert len(figures) == (7 if table == "Table 3" else 9)
    agree(found, figures)
    assert found.loc[("all", "group"), "n"] == 2933


@pytest.mark.parametrize(
    ("file", "row"),
    [
        ("SUGARCREPE_CORRECT_ViT-B-32.csv", "CLIP"),
        ("SUGARCREPE_CORRECT_CLIP_TROHN-Text.csv", "CLIP_TROHN-TEXT"),
        ("SUGARCREPE_CORRECT_CLIP_TROHN-Img.csv", "CLIP_TROHN-IMG"),
    ],
)
def test_the_results_on_sugarcrepe_are_the_first_column_of_bivlcs_table_3(file: str, row: str) -> None:
    path = released(BIVLC, "results", file)
    found = measured((path,), "sugarcrepe")
    agree(found, printed("Table 3", row, "sugarcrepe"))
    with path.open(newline="") as rows:
        correct = [line["correct"] == "1" for line in csv.DictReader(rows)]
    assert len(correct) == 7512 == found.loc[("all", "accuracy"), "n"]  # as Table 1 counts SugarCrepe
    assert found.loc[("all", "accuracy"), "value"] == pytest.approx(sum(correct) / 7512)


def test_the_detectors_of_bivlc_are_its_table_5() -> None:
    path = released(BIVLC, *DETECTORS, "BiVLC_Classifier_CORRECT_CLIP_TROHN-Img.csv")
    found = measured((path,), "bivlc")
    agree(found, printed("Table 5", "CLIP_TROHN-IMG/Det", "bivlc"))
    detected = {("all", "text_detected"): "61.34", ("all", "image_detected"): "100.00"}  # Table 5, too
    agree(found, detected)
    assert found.loc[("all", "group"), "n"] == 2933


@pytest.mark.parametrize(
    ("file", "accuracy"),
    [
        ("SUGARCREPE_Classifier_CLIP_baseline.csv", "74.59"),
        ("SUGARCREPE_Classifier_CLIP_TROHN-Img.csv", "77.65"),
    ],
)
def test_the_detectors_on_sugarcrepe_have_the_accuracy_of_bivlcs_section_6(file: str, accuracy: str) -> None:
    """The section prints both below Table 5."""
    found = measured((released(BIVLC, *DETECTORS, file),), "sugarcrepe")
    agree(found, {("all", "accuracy"): accuracy})
    assert found.loc[("all", "accuracy"), "n"] == 7512


@pytest.mark.parametrize(("folder", "order"), [("positive-first", "PN"), ("negative-first", "NP")])
def test_the_order_of_gpt_4vs_options_is_told_by_its_replies(folder: str, order: str) -> None:
    found = measured(answers(folder), "sugarcrepe")
    assert [subset for subset, _ in found.index if subset.startswith("order:")] == [f"order:{order}"]


def test_gpt_4vs_accuracy_is_the_one_in_its_own_file() -> None:
    """The file on swap_obj with the positive first ends with its accuracy, 0.8577, over 246 rows."""
    own = json.loads(released(SUGARCREPE, GPT4V, "positive-first", "gpt4v-swap_obj.json").read_text())
    found = measured(answers("positive-first"), "sugarcrepe")
    value, n = found.loc[("swap_obj", "choice_2way"), ["value", "n"]]
    assert (round(value, 4), n) == (own["accuracy"], 246) == (0.8577, 246)


def test_both_orders_of_gpt_4vs_options_are_one_instance() -> None:
    both = measured((*answers("positive-first"), *answers("negative-first")), "sugarcrepe")
    assert both.loc[("all", "choice_2way"), "n"] == 5440
    right: dict[tuple[str, str], list[bool]] = {}
    for folder in ("positive-first", "negative-first"):
        for path in answers(folder):
            rows = json.loads(path.read_text())
            for key, row in rows.items():
                if key != "accuracy":
                    right.setdefault((path.name, key), []).append(row["correct"])
    assert both.loc[("all", "choice_2way"), "value"] == pytest.approx(mean([mean(r) for r in right.values()]))
    strict = both.loc[("all", "choice_2way_all_orders"), "value"]
    assert strict == pytest.approx(mean([all(r) for r in right.values()]))
    for folder, order in (("positive-first", "PN"), ("negative-first", "NP")):
        alone = measured(answers(folder), "sugarcrepe").loc[("all", "choice_2way"), "value"]
        assert both.loc[(f"order:{order}", "choice_2way"), "value"] == alone


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
