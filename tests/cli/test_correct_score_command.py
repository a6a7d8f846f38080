"""`caramel correct-score` estimates scores on the truly right instances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from eval_calls import run_eval

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verdicts(eval_call: Call) -> Path:
    """Score a model, and write verdicts on its instances to a file; half of the truths are known."""
    run_eval(eval_call, "blind:length", "a")
    ids = pd.read_parquet("a/similarities.parquet")["instance_id"]
    lines = [f"{name},{int(i % 5 > 0)},{int(i % 5 > 0) if i % 2 else ''}\n" for i, name in enumerate(ids)]
    Path("verdicts.csv").write_text("instance_id,verdict,truth\n" + "".join(lines))
    return Path("verdicts.csv")


def test_corrected_scores_are_printed_and_written(eval_call: Call, verdicts: Path) -> None:
    code, out, err = eval_call(
        "correct-score", "a", "--benchmark", "sugarcrepe", "--verdicts", str(verdicts), "--out", "c.csv"
    )
    assert (code, err) == (0, "")
    assert "prediction_powered" in out
    rows = pd.read_csv("c.csv")
    assert {*rows["method"]} == {"plain", "rogan_gladen", "prediction_powered"}
    assert (rows["ci_low"] <= rows["ci_high"]).all()


@pytest.mark.parametrize("text", ["3", "4/3", "0/0", "-1/3", "a/b"])
def test_false_accepts_that_are_no_share_are_an_error(eval_call: Call, verdicts: Path, text: str) -> None:
    code, _, err = eval_call(
        *("correct-score", "a", "--benchmark", "sugarcrepe", "--verdicts", str(verdicts)),
        *("--false-accepts", text),
    )
    assert code == 1
    assert "as in 3/40" in err


def test_the_verdicts_are_not_overwritten(eval_call: Call, verdicts: Path) -> None:
    code, _, err = eval_call(
        *("correct-score", "a", "--benchmark", "sugarcrepe", "--verdicts", str(verdicts)),
        *("--out", str(verdicts)),
    )
    assert code == 1
    assert "verdicts.csv" in err


def test_verdicts_that_determine_nothing_are_an_error(eval_call: Call, verdicts: Path) -> None:
    rows = pd.read_csv(verdicts, dtype=str, keep_default_na=False)
    rows.assign(truth="").to_csv(verdicts, index=False)
    call = ("correct-score", "a", "--benchmark", "sugarcrepe", "--verdicts", str(verdicts), "--out", "c.csv")
    code, out, err = eval_call(*call)
    assert (code, out) == (1, "")
    assert "Fill column truth" in err
    assert "--false-accepts K/N" in err
    assert not Path("c.csv").exists()
    code, _, err = eval_call(*call, "--false-accepts", "1/40")
    assert (code, err) == (0, "")
