"""`caramel metrics` recomputes what `caramel eval` wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from eval_calls import run_eval

Call = Callable[..., tuple[int, str, str]]


def test_metrics_recomputes_what_eval_wrote(eval_call: Call, clip_folder: Path) -> None:
    run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "out")
    Path("again").mkdir()
    for name in ("errata.csv", "binding.csv", "matching.csv"):
        Path("again", name).write_text("of an earlier run")
    code, _, _ = eval_call(
        "metrics",
        "--benchmark",
        "sugarcrepe",
        "out/similarities.parquet",
        "--out",
        "again",
        "--n-bootstrap",
        "100",
    )
    assert code == 0
    pd.testing.assert_frame_equal(pd.read_csv("again/metrics.csv"), pd.read_csv("out/metrics.csv"))
    assert not [*Path("again").glob("*ing.csv"), *Path("again").glob("errata.csv")]
