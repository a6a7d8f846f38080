"""`caramel metrics` recomputes what `caramel eval` wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from eval_calls import run_eval

from caramel.evaluation.rescoring import binding_figures, matching
from caramel.evaluation.results import errata_effect

Call = Callable[..., tuple[int, str, str]]


def test_metrics_recomputes_what_eval_wrote(eval_call: Call, clip_folder: Path) -> None:
    run_eval(eval_call, f"tiny=open_clip:{clip_folder}", "out")
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


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("errata.csv", errata_effect.COLUMNS),
        ("binding.csv", binding_figures.COLUMNS),
        ("matching.csv", matching.COLUMNS),
    ],
)
def test_a_table_of_an_earlier_call_is_removed_and_a_file_of_the_user_is_not(
    eval_call: Call, name: str, columns: tuple[str, ...]
) -> None:
    Path("by_others.csv").write_text("instance_id,accuracy\nswap_att/1,1\nswap_att/2,0\n", encoding="utf-8")
    words = ("metrics", "--benchmark", "sugarcrepe", "by_others.csv", "--out", "out", "--n-bootstrap", "100")
    path = Path("out", name)
    path.parent.mkdir()
    path.write_text("word,correction\nteh,the\n", encoding="utf-8")
    code, _, err = eval_call(*words)
    assert code == 1
    assert f"'out/{name}' is no table of `caramel metrics`" in err
    assert path.read_text(encoding="utf-8") == "word,correction\nteh,the\n"
    assert not Path("out", "metrics.csv").exists(), "it is found before any work"
    path.write_text(",".join(columns) + "\n", encoding="utf-8")
    code, _, err = eval_call(*words)
    assert code == 0, err
    assert not path.exists()
    assert Path("out", "metrics.csv").is_file()
