"""BiVLC's detectors: a row per natural and per synthetic item, judged as their authors judge it."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.errors import DataError
from caramel.evaluation.external.detector_files import compute_detector_outcomes
from caramel.evaluation.external.runs import compute_file_metrics
from caramel.registry import BENCHMARKS
from caramel.utils.resampling import Bootstrap

CHANCES = st.sampled_from([0.0, 0.2, 0.4999999, 0.5, 0.5000001, 0.8, 1.0])
INSTANCE = st.tuples(CHANCES, CHANCES, CHANCES, CHANCES)  # c0, c1, i0, i1


def rows_of(instances: list[tuple[float, ...]], batch: int = 3) -> list[dict[str, Any]]:
    """Return rows as released: of each batch first all natural items, then all synthetic ones."""
    rows = []
    for start in range(0, len(instances), batch):
        part = instances[start : start + batch]
        rows += [{"text_pred": c0, "img_pred": i0, "label": 0.0} for c0, _, i0, _ in part]
        rows += [{"text_pred": c1, "img_pred": i1, "label": 1.0} for _, c1, _, i1 in part]
    return rows


def oracle(c0: float, c1: float, i0: float, i1: float) -> dict[str, float]:
    """Retrieval by detection only where the query's own class is predicted right (BiVLC, appendix E)."""
    hit = {
        "i_pos2t": i0 < 0.5 and c0 < c1,
        "i_neg2t": i1 > 0.5 and c0 < c1,
        "t_pos2i": c0 < 0.5 and i0 < i1,
        "t_neg2i": c1 > 0.5 and i0 < i1,
    }
    hit["i2t"] = hit["i_pos2t"] and hit["i_neg2t"]
    hit["t2i"] = hit["t_pos2i"] and hit["t_neg2i"]
    hit["group"] = hit["i2t"] and hit["t2i"]
    shares = {"text_detected": ((c0 < 0.5) + (c1 > 0.5)) / 2, "image_detected": ((i0 < 0.5) + (i1 > 0.5)) / 2}
    return {name: float(value) for name, value in hit.items()} | shares


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return path


@given(st.lists(INSTANCE, min_size=1, max_size=8))
def test_detectors_are_judged_as_bivlc_judges_them(instances: list[tuple[float, ...]]) -> None:
    rows = rows_of(instances)
    found, firsts = compute_detector_outcomes(
        pd.DataFrame(rows), [f"row {n}" for n in range(len(rows))], "rows"
    )
    expected = pd.DataFrame([oracle(*one) for one in instances])
    pd.testing.assert_frame_equal(found.hits[list(expected)], expected)
    assert [rows[n]["text_pred"] for n in firsts] == [one[0] for one in instances]
    even = [c0 == c1 or i0 == 0.5 for c0, c1, i0, _ in instances]
    assert found.ties["i_pos2t"].tolist() == even


def test_the_files_of_bivlc_and_sugarcrepe_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    instances = [tuple(rng.random(4).tolist()) for _ in range(40)]
    path = write(tmp_path / "BiVLC_Classifier_CORRECT_CLIP_baseline.csv", rows_of(instances))
    found = compute_file_metrics([path], BENCHMARKS["bivlc"], bootstrap=Bootstrap(100, 0))
    values = found[found["subset"] == "all"].set_index("metric")
    expected = pd.DataFrame([oracle(*one) for one in instances]).mean()
    for name, value in expected.items():
        assert values.loc[name, ["value", "n"]].tolist() == pytest.approx([value, 40])
    (note,) = found.attrs["notes"]
    assert "names no images" in note
    texts = [{"text_pred": row["text_pred"], "label": row["label"]} for row in rows_of(instances)]
    path = write(tmp_path / "SUGARCREPE_Classifier_CLIP_baseline.csv", texts)
    found = compute_file_metrics([path], BENCHMARKS["sugarcrepe"], bootstrap=Bootstrap(100, 0)).set_index(
        ["subset", "metric"]
    )
    assert found.loc[("all", "accuracy"), "value"] == pytest.approx(
        np.mean([c0 < c1 for c0, c1, *_ in instances])
    )
    assert found.loc[("all", "text_detected"), "value"] == pytest.approx(expected["text_detected"])
    assert set(found.index.get_level_values("metric")) == {"accuracy", "text_detected"}


def test_what_has_no_prediction_is_unscored(tmp_path: Path) -> None:
    rows = rows_of([(0.1, 0.9, 0.1, 0.9), (0.1, 0.9, 0.1, 0.9)])
    rows[0]["img_pred"] = ""
    path = write(tmp_path / "m.csv", rows)
    found = compute_file_metrics([path], BENCHMARKS["bivlc"], bootstrap=Bootstrap(100, 0)).set_index("metric")
    assert found.loc["text_detected", ["n", "unscored"]].tolist() == [2, 0]
    assert found.loc["group", ["value", "n", "unscored"]].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": "2"}, r"row 1 .*: '2' in column 'label' is not a class. 0 is natural, 1 is synthetic"),
        ({"label": ""}, "'' in column 'label' is not a class"),
        ({"text_pred": "1.5"}, "'1.5' in column 'text_pred' is not a probability"),
        ({"img_pred": "much"}, "'much' in column 'img_pred' is not a probability"),
        ({"label": "1"}, r"natural rows \(1\) and synthetic rows \(3\)"),
    ],
)
def test_what_is_no_detection_is_an_error(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    rows = rows_of([(0.1, 0.9, 0.1, 0.9), (0.1, 0.9, 0.1, 0.9)])
    rows[0] |= row
    with pytest.raises(DataError, match=message):
        compute_file_metrics(
            [write(tmp_path / "m.csv", rows)], BENCHMARKS["bivlc"], bootstrap=Bootstrap(100, 0)
        )
