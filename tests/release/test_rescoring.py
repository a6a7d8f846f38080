"""The figures of a pinned version come out of its similarities to the last digit, or it is said which do not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.evaluation.results.summary import summarise_similarities
from caramel.registry import BENCHMARKS
from caramel.release import pin as pins
from caramel.release.rescoring import rescore_version
from caramel.schemas.evaluation import ANSWERS, METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, write_table
from caramel.utils.resampling import Bootstrap


def similarities(model: str, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    known = {"model": model, "benchmark": "sugarcrepe"}
    rows = [
        {
            **known,
            "instance_id": f"swap_att/{k}",
            "image_id": f"{k % 7}.jpg",
            "subsets": ["swap_att"],
            "s_c0_i0": random.normal(),
            "s_c1_i0": random.normal(),
        }
        for k in range(40)
    ]
    return build_frame(SIMILARITIES, rows)


def project(root: Path, metrics: pd.DataFrame, rows: pd.DataFrame, params: object) -> Path:
    """A pinned project with results, as if DVC had made them."""
    out = root / "data" / "evaluate"
    write_table(SIMILARITIES, rows, out / "similarities.parquet")
    write_table(ANSWERS, build_frame(ANSWERS, []), out / "answers.parquet")
    write_table(METRICS, metrics, out / "metrics.parquet")
    lock = {"path": "data/evaluate", "md5": pins.compute_dvc_hash(out)}
    stages = {"schema": "2.0", "stages": {"evaluate": {"cmd": "x", "outs": [lock]}}}
    (root / "dvc.lock").write_text(json.dumps(stages), encoding="utf-8")
    (root / "params.yaml").write_text(json.dumps({"evaluate": params}), encoding="utf-8")
    pins.create_pin("v1", root)
    return root


def test_figures_come_out_or_are_named(tmp_path: Path) -> None:
    rows = pd.concat([similarities("a", 1), similarities("b", 2)], ignore_index=True)
    right = summarise_similarities(
        rows, {"sugarcrepe": BENCHMARKS["sugarcrepe"]}, bootstrap=Bootstrap(200, 3)
    )
    params = {"n_bootstrap": 200, "seed": 3}
    assert rescore_version("v1", project(tmp_path / "right", right, rows, params)) == (len(right), [])
    edited = right.copy()
    edited.loc[0, "value"] = np.nextafter(edited.loc[0, "value"], 1)
    found = rescore_version("v1", project(tmp_path / "edited", edited, rows, params)).differences
    assert len(found) == 1
    assert found[0].startswith("accuracy of a on sugarcrepe, all: value ")
    found = rescore_version("v1", project(tmp_path / "seed", right, rows, {**params, "seed": 4})).differences
    assert found
    assert all("ci_low" in line or "ci_high" in line for line in found)
    half = rows[rows["model"] == "a"]
    found = rescore_version("v1", project(tmp_path / "half", right, half, params)).differences
    assert "accuracy of b on sugarcrepe, all: not recomputed" in found
    ofb = right[right["model"] == "b"]
    found = rescore_version("v1", project(tmp_path / "more", ofb, rows, params)).differences
    assert "accuracy of a on sugarcrepe, all: not pinned" in found


def test_a_version_without_results_or_settings_is_told(tmp_path: Path) -> None:
    nothing = build_frame(METRICS, [])
    root = project(tmp_path, nothing, similarities("a", 1), {"seed": 3})
    with pytest.raises(DataError, match=r"do not say how it was scored: evaluate.'n_bootstrap'"):
        rescore_version("v1", root)
