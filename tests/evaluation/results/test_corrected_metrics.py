from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.evaluation.results.corrected_metrics import compute_corrected_metrics, read_verdicts
from caramel.registry import BENCHMARKS
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.corrected_scores import ErrorCount

N = 400
BENCHMARK = BENCHMARKS["sugarcrepe"]


def score() -> pd.DataFrame:
    """Return scores of a model that has each instance right that is not a multiple of 4."""
    number = np.arange(N)
    rows = pd.DataFrame({"instance_id": [f"i{i}" for i in number], "image_id": [f"{i // 2}" for i in number]})
    return build_frame(
        SIMILARITIES,
        rows.assign(
            subsets=[["add", "add_obj"] if i % 2 else ["swap", "swap_obj"] for i in number],
            model="m",
            benchmark="sugarcrepe",
            s_c0_i0=(number % 4 > 0).astype(float),
            s_c1_i0=0.5,
        ),
    )


def write_verdicts(folder: Path, known: int) -> Path:
    """Write verdicts: every eighth instance is wrong, a judge sees it; the truth of the first ones is known."""
    lines = [f"i{i},{int(i % 8 > 0)},{int(i % 8 > 0) if i < known else ''}\n" for i in range(N)]
    (folder / "verdicts.csv").write_text("instance_id,verdict,truth\n" + "".join(lines))
    return folder / "verdicts.csv"


def test_scores_are_corrected_for_the_wrong_instances(tmp_path: Path) -> None:
    rows = compute_corrected_metrics(
        score(), BENCHMARK, read_verdicts(write_verdicts(tmp_path, known=200))
    ).set_index(["subset", "method"])
    assert rows.loc[("all", "plain"), "value"] == 0.75
    for method in ("rogan_gladen", "prediction_powered"):
        row = rows.loc[("all", method)]
        assert row["value"] == pytest.approx(6 / 7)
        assert row["ci_low"] < 6 / 7 < row["ci_high"]
        assert (row["n"], row["known"]) == (N, 200)
    assert rows.loc[("swap_obj", "prediction_powered"), "value"] == pytest.approx(2 / 3)


def test_without_any_known_truth_only_a_known_error_rate_corrects(tmp_path: Path) -> None:
    verdicts = read_verdicts(write_verdicts(tmp_path, known=0))
    rows = compute_corrected_metrics(score(), BENCHMARK, verdicts).set_index(["subset", "method"])["value"]
    assert rows.loc["all"].drop("plain").isna().all()
    rows = compute_corrected_metrics(score(), BENCHMARK, verdicts, false_accepts=ErrorCount(0, 50)).set_index(
        ["subset", "method"]
    )["value"]
    assert rows["all", "rogan_gladen"] == pytest.approx(6 / 7)
    assert np.isnan(rows["all", "prediction_powered"])


def test_counted_false_accepts_are_not_of_the_corrected_instances(tmp_path: Path) -> None:
    """Hits and verdicts of images with a known truth do not change what the counted rate corrects."""
    verdicts = read_verdicts(write_verdicts(tmp_path, known=200))
    verdicts.loc[["i0", "i8", "i16"], "verdict"] = 1.0
    scores = score()
    rows = compute_corrected_metrics(scores, BENCHMARK, verdicts).set_index(["subset", "method"])
    scores.loc[:199, "s_c0_i0"] = 0.0
    others = compute_corrected_metrics(scores, BENCHMARK, verdicts).set_index(["subset", "method"])
    columns = ["value", "ci_low", "ci_high"]
    assert rows.loc[("all", "rogan_gladen"), columns].equals(others.loc[("all", "rogan_gladen"), columns])
    given = compute_corrected_metrics(scores[200:], BENCHMARK, verdicts, false_accepts=ErrorCount(3, 25))
    expected = given.set_index(["subset", "method"]).loc[("all", "rogan_gladen"), columns]
    assert rows.loc[("all", "rogan_gladen"), columns].tolist() == pytest.approx(expected.tolist())


def test_a_truth_of_every_image_leaves_nothing_to_a_counted_rate(tmp_path: Path) -> None:
    verdicts = read_verdicts(write_verdicts(tmp_path, known=N))
    rows = compute_corrected_metrics(score(), BENCHMARK, verdicts).set_index(["subset", "method"])["value"]
    assert np.isnan(rows["all", "rogan_gladen"])
    assert rows["all", "prediction_powered"] == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i0,yes,\n", "verdict must be 1"),
        ("i0,,\n", "verdict must be 1"),
        ("i0,1,2\n", "truth must be 1"),
        ("i0,1,\ni0,0,\n", "duplicate"),
        ("", "no verdict"),
    ],
)
def test_a_broken_file_of_verdicts_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.csv").write_text("instance_id,verdict,truth\n" + text)
    with pytest.raises(DataError, match=message):
        read_verdicts(tmp_path / "v.csv")


def test_a_scored_instance_without_a_verdict_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("instance_id,verdict,truth\ni0,1,1\n")
    with pytest.raises(DataError, match="without a verdict: 399"):
        compute_corrected_metrics(score(), BENCHMARK, read_verdicts(tmp_path / "v.csv"))


def test_a_benchmark_that_no_model_was_scored_on_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to correct"):
        compute_corrected_metrics(
            score(), BENCHMARKS["bivlc"], read_verdicts(write_verdicts(tmp_path, known=1))
        )
