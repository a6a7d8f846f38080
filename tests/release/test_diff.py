"""Two versions differ in what was changed between them, and in nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from remote_projects import cached

from caramel.cli.commands import cli
from caramel.release import pin as pins
from caramel.release.diff import diff_versions, format_diff
from caramel.release.pin_file import read_pin
from caramel.release.pinned_tables import read_version_table
from caramel.release.publishing.changelog import write_changes
from caramel.release.resolve import resolve_version
from caramel.report.difference_page import render_difference_page
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.rejects import REJECTS


def negatives(names: list[str], subtype: str, seed: int) -> pd.DataFrame:
    rows = [
        (f"{name}:{subtype}", name, subtype.split("_")[0], subtype, f"not {name}", "rules", seed, 1, None)
        for name in names
    ]
    return build_frame(NEGATIVES, rows)


def similarities(right: int) -> pd.DataFrame:
    """Of 40 instances, of which so many are right."""
    scores = np.arange(40) < right
    known = {"model": "m", "benchmark": "sugarcrepe", "subsets": [["swap_att"]] * 40, "s_c1_i0": 0.5}
    names = {"instance_id": [f"i{k}" for k in range(40)], "image_id": [f"{k}.jpg" for k in range(40)]}
    return build_frame(SIMILARITIES, pd.DataFrame({**names, **known, "s_c0_i0": scores.astype(float)}))


def test_p_is_corrected_over_all_models_and_benchmarks_and_says_so(tmp_path: Path) -> None:
    """Ten models of which one alone gains a little: it must stand out from all of them."""

    def scored(right: int, gains: int) -> pd.DataFrame:
        parts = [similarities(right + gains * (n == 0)).assign(model=f"m{n}") for n in range(10)]
        return build_frame(SIMILARITIES, pd.concat(parts, ignore_index=True))

    none, rows = build_frame(REJECTS, []), negatives(["a"], "swap_att", 1)
    version(tmp_path, "v1", rows, none, right=0, seed=1, scored=scored(10, 0))
    version(tmp_path, "v2", rows, none, right=0, seed=1, scored=scored(10, 8))
    found = diff_versions(*(read_pin(name, tmp_path) for name in ("v1", "v2")), tmp_path)
    (figure,) = (row for row in found.metrics if row["subset"] == "all")
    assert figure["model"] == "m0"
    assert figure["tests"] == 30, "of ten models: all instances, their subset, and the mean of subsets"
    assert figure["p_holm"] == min(1.0, 30 * 2 / 2**8), "all signs of eight instances"
    assert "p by Holm over 30 figures 0.234" in format_diff(found)
    assert "corrected over all 30 figures" in render_difference_page(found.to_dict(), {})


def test_a_figure_that_was_not_measured_does_not_differ(tmp_path: Path) -> None:
    none, rows = build_frame(REJECTS, []), negatives(["a"], "swap_att", 1)
    for name, right in (("v1", 10), ("v2", 30)):
        scored = similarities(right)
        subsets = pd.Series([["add_att"]] * 4 + [["swap_att"]] * 36)
        scored = scored.assign(subsets=subsets, s_c0_i0=scored["s_c0_i0"].where(scored.index >= 4))
        version(tmp_path, name, rows, none, right=0, seed=1, scored=scored)
    found = diff_versions(*(read_pin(name, tmp_path) for name in ("v1", "v2")), tmp_path)
    assert {row["subset"] for row in found.metrics} == {"all", "swap_att", "macro"}


def test_what_has_no_interval_is_null_in_json_and_a_dash_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    none, rows = build_frame(REJECTS, []), negatives(["a"], "swap_att", 1)
    for name, right in (("v1", 10), ("v2", 30)):
        scored = similarities(right).iloc[10:]
        subsets = pd.Series([["add_\x7f\x9b"]] + [["swap_att"]] * 29, index=scored.index)
        version(tmp_path, name, rows, none, right=0, seed=1, scored=scored.assign(subsets=subsets))
    found = diff_versions(*(read_pin(name, tmp_path) for name in ("v1", "v2")), tmp_path)
    unmeasured = [row for row in found.metrics if np.isnan(row["ci_low"])]
    assert unmeasured, "a subset of one instance"
    page = render_difference_page(found.to_dict(), {})
    assert "nan" not in page.lower().split("<body")[1]
    write_changes("v1", "v2", tmp_path, tmp_path)
    changes = json.loads((tmp_path / "changes.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["diff", "v1", "v2", "--json"])
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed.pop("command") == "diff"
    assert printed == changes == found.to_dict()
    assert sum(row["ci_low"] is None for row in changes["metrics"]) == len(unmeasured)


def test_the_page_shows_a_small_p_as_a_bound_that_is_not_zero(tmp_path: Path) -> None:
    none, rows = build_frame(REJECTS, []), negatives(["a"], "swap_att", 1)
    for name, right in (("v1", 2), ("v2", 38)):
        version(tmp_path, name, rows, none, right=right, seed=1)
    found = diff_versions(*(read_pin(name, tmp_path) for name in ("v1", "v2")), tmp_path)
    assert "≤ 0.0003" in render_difference_page(found.to_dict(), {})


def version(
    root: Path,
    name: str,
    rows: pd.DataFrame,
    rejects: pd.DataFrame,
    right: int,
    seed: int,
    scored: pd.DataFrame | None = None,
) -> None:
    """Pin a project with these tables, as if DVC had made them; its cache keeps them. ``scored``: in place of ``right``."""
    write_table(NEGATIVES, rows, root / "data" / "refine" / "negatives.parquet")
    write_table(REJECTS, rejects, root / "data" / "refine" / "rejects.parquet")
    results = similarities(right) if scored is None else scored
    write_table(SIMILARITIES, results, root / "data" / "evaluate" / "similarities.parquet")
    outs = [
        {"path": f"data/{out}", "md5": pins.compute_dvc_hash(root / "data" / out)}
        for out in ("refine", "evaluate")
    ]
    lock = {"schema": "2.0", "stages": {"all": {"cmd": "x", "outs": outs}}}
    (root / "dvc.lock").write_text(json.dumps(lock), encoding="utf-8")
    params = {"evaluate": {"n_bootstrap": 100, "seed": 1}, "negatives": {"seed": seed}}
    (root / "params.yaml").write_text(json.dumps(params), encoding="utf-8")
    pins.create_pin(name, root)
    cached(root)


def test_rows_come_and_go_by_key_with_subtype_and_reason_and_figures_are_paired(tmp_path: Path) -> None:
    none = build_frame(REJECTS, [])
    old = pd.concat([negatives(["a", "b", "c"], "swap_att", 1), negatives(["d"], "replace_obj", 1)])
    version(tmp_path, "v1", old, none, right=10, seed=1)
    new = pd.concat(
        [negatives(["a"], "swap_att", 1), negatives(["b"], "swap_att", 2), negatives(["e"], "add_obj", 2)]
    )
    gone = build_frame(REJECTS, [("c:swap_att", "refine", "surplus", "not c")])
    version(tmp_path, "v2", new, gone, right=30, seed=2)
    found = diff_versions(read_pin("v1", tmp_path), read_pin("v2", tmp_path), tmp_path)
    assert found.params == {"negatives.seed": [1, 2]}
    assert found.code is None, "it is no repository"
    rows = {table.path: table for table in found.tables}["data/refine/negatives.parquet"]
    assert (rows.added, rows.removed, rows.changed, rows.columns) == (1, 2, 1, {"seed": 1})
    assert rows.by_subtype == {"add_obj": [1, 0], "replace_obj": [0, 1], "swap_att": [0, 1]}
    assert rows.reasons == {"refine: surplus": 1, "in no rejects": 1}
    (figure,) = (row for row in found.metrics if row["subset"] == "all")
    assert (figure["value_b"], figure["value_a"], figure["difference"]) == (0.25, 0.75, 0.5)
    assert 0 < figure["ci_low"] < 0.5 < figure["ci_high"]
    text = format_diff(found)
    for said in (
        "negatives.seed: 1 -> 2",
        "swap_att: +0 -1",
        "removed, refine: surplus: 1",
        "0.2500 -> 0.7500",
    ):
        assert said in text
    assert json.loads(json.dumps(found.to_dict()))["tables"]
    same = diff_versions(*[resolve_version(name, tmp_path) for name in ("v2", ".")], tmp_path)
    assert (same.params, same.tables, same.metrics) == ({}, [], [])


def test_the_same_rows_written_by_other_software_are_taken_as_the_version_s(tmp_path: Path) -> None:
    none = build_frame(REJECTS, [])
    version(tmp_path, "v1", negatives(["a"], "swap_att", 1), none, right=10, seed=1)
    path = tmp_path / "data" / "refine" / "negatives.parquet"
    pd.read_parquet(path).to_parquet(path, compression="gzip")
    shutil.rmtree(tmp_path / ".dvc" / "cache")
    pinned = read_pin("v1", tmp_path)
    assert diff_versions(pinned, pinned, tmp_path).tables == []
    assert len(read_version_table(pinned, "data/refine/negatives.parquet", tmp_path)) == 1
