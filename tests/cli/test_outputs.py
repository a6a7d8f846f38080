"""Nothing is ever written over what was read, however the paths are spelled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from caramel import cli
from caramel.cli.commands import cli as group
from caramel.io.files import compute_file_hash
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame, write_table

BENCHMARK = "sugarcrepe"
# Command -> what it reads and writes, if it may: {} is a spelling of the folder that holds all inputs.
CASES = {
    "audit of a folder": ("audit", "{}/set", "--out", "{}/set", "--scorer", "casing"),
    "audit beside files in a folder of the folder": (
        "audit",
        "{}",
        "--out",
        "{}/other",
        "--scorer",
        "casing",
    ),
    "audit of a file": ("audit", "{}/file/pairs.parquet", "--out", "{}/file", "--scorer", "casing"),
    "audit with a corpus": ("audit", "{}/set", "--out", "{}/file", "--training", "{}/file/pairs.parquet"),
    "refine of a folder": ("refine", "{}/set", "--out", "{}/set"),
    "refine of a file": ("refine", "{}/set/swap_obj.json", "--out", "{}/set"),
    "refine of its report": ("refine", "{}/file/refine.json", "--out", "{}/file"),
    "select of a folder": ("select", "{}/set", "--out", "{}/set", "--scorer", "casing"),
    "select of its report": ("select", "{}/file/selection.json", "--out", "{}/file", "--scorer", "casing"),
    "eval": (
        "eval",
        "--model",
        "blind:length",
        "--benchmark",
        BENCHMARK,
        "--data",
        "{}/set",
        "--out",
        "{}/set",
    ),
    "eval into a new class": (
        "eval",
        "--model",
        "blind:length",
        "--benchmark",
        "zero_shot",
        "--data",
        "{}",
        "--out",
        "{}/new",
    ),
    "detect": (
        *("detect", "--model", "open_clip:any", "--training", "{}/set", "--benchmark", BENCHMARK),
        *("--data", "{}/set", "--out", "{}/set"),
    ),
    "metrics": ("metrics", "--benchmark", BENCHMARK, "{}/run/metrics.csv", "--out", "{}/run"),
    "compare": ("compare", "{}/run", "{}/other/comparison.csv", "--out", "{}/other"),
    "probe": (
        "probe",
        "blind:length",
        "--captions",
        "{}/run/metrics.csv",
        "--images",
        "{}/set",
        "--out",
        "{}/set",
    ),
    "runs": ("runs", "v1", "--out", "{}/pins/v1.json"),
    "study": ("study", "--out", "{}/set"),
    "table": ("table", "{}/run", "--benchmark", BENCHMARK, "--out", "{}/run/similarities.parquet"),
    "correct-score": (
        *("correct-score", "{}/run", "--benchmark", BENCHMARK, "--verdicts", "{}/run/metrics.csv"),
        *("--out", "{}/run/metrics.csv"),
    ),
    "explore": ("explore", "{}/run", "--data", "{}/set", "--out", "{}/run/similarities.parquet"),
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of inputs that have the names of outputs."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": str(i),
            "filename": f"{i}.jpg",
            "caption": f"A cat and {i} dogs.",
            "negative_caption": f"no {i}",
        }
        for i in range(12)
    ]
    for folder in ("set", "file", "run", "other", "pins"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    text = json.dumps({row["id"]: row for row in rows})
    Path("in/set/swap_obj.json").write_text(text)
    Path("params").symlink_to(
        tmp_path / "in" / "set"
    )  # what a study reads lies in the folder that it is run in
    Path("pins").symlink_to(tmp_path / "in" / "pins")
    Path("in/pins/v1.json").write_text("{}")
    for report in ("refine", "selection"):
        Path(f"in/file/{report}.json").write_text(text)
    pd.DataFrame(rows).to_parquet("in/file/pairs.parquet")
    scores = np.random.default_rng(0).normal(size=(12, 2))
    scored = build_frame(
        SIMILARITIES,
        pd.DataFrame(scores, columns=["s_c0_i0", "s_c1_i0"]).assign(
            instance_id=[str(i) for i in range(12)],
            image_id=[f"{i}.jpg" for i in range(12)],
            subsets=[["swap_obj"]] * 12,
            model="m",
            benchmark=BENCHMARK,
        ),
    )
    write_table(SIMILARITIES, scored, "in/run/similarities.parquet")
    Path("in/run/metrics.csv").write_text("id,correct\n1,true\n2,false\n")
    Path("in/other/comparison.csv").symlink_to(Path("in/run/similarities.parquet").resolve())
    return tmp_path / "in"


def spellings() -> dict[str, Callable[[Path], str]]:
    """Return ways to name a folder."""

    def linked(folder: Path) -> str:
        Path("link").symlink_to(folder)
        return "link"

    return {
        "absolute": str,
        "relative": lambda folder: folder.name,
        "around": lambda folder: f"../{folder.parent.name}/./{folder.name}/set/..",
        "linked": linked,
    }


def test_every_command_that_writes_is_tried() -> None:
    known = dict(group.commands)
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            known |= {f"{name} {inner}": one for inner, one in command.commands.items()}
    writing = {name for name, command in known.items() if any(p.name == "out" for p in command.params)}
    # tests/release/test_get.py, test_releasing.py, test_model_release.py: what they read is a project
    elsewhere = {"get", "release", "release-model"}
    elsewhere |= {"crepe index", "crepe systematicity", "crepe productivity"}  # test_crepe_commands.py
    elsewhere |= {"crepe check-parser"}  # tests/crepe/test_parser_check.py
    elsewhere |= {"crepe figures", "crepe top"}  # test_crepe_results.py, test_crepe_top_command.py
    elsewhere |= {"annotate answers", "annotate export"}  # tests/cli/annotate: what they read is a task
    elsewhere |= {"reproduce"}  # test_reproduce_command.py: it evaluates models
    elsewhere |= {"batch write"}  # test_batch_command.py: what it reads is a project
    # test_annotation_decisions.py
    elsewhere |= {"annotate agreement", "annotate baseline", "annotate decide"}
    assert writing == {arguments[0] for arguments in CASES.values()} | elsewhere


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spelling", spellings())
def test_nothing_is_written_over_an_input(
    case: str, spelling: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = compute_file_hash(inputs)
    read, written = (way(inputs) for way in (str, spellings()[spelling]))
    arguments = [part.format(read) for part in CASES[case]]
    place = arguments.index("--out") + 1
    arguments[place] = CASES[case][place].format(written)
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    said = capsys.readouterr().err
    assert (ended.value.code, "inputs are never overwritten" in said) == (1, True), said
    assert Path(arguments[place]).name in said
    assert compute_file_hash(inputs) == before
    assert not list(inputs.rglob(".*"))


def test_beside_what_was_read_there_is_room(inputs: Path) -> None:
    for arguments in (
        ("metrics", "--benchmark", BENCHMARK, "in/run/similarities.parquet", "--out", "in/run"),
        ("compare", "in/run", "in/run", "--out", "in/run"),
        ("table", "in/run", "--benchmark", BENCHMARK, "--out", "in/run/table.md"),
        ("audit", "in/set/swap_obj.json", "--out", "in/set/audit", "--scorer", "casing", "--folds", "2"),
        ("audit", "in/set", "--out", "out/audit", "--scorer", "casing", "--folds", "2"),
        ("audit", "in/set", "--out", "out/audit", "--scorer", "casing", "--folds", "2"),
        ("audit", "in/set", "--out", "in/set/whole", "--scorer", "casing", "--folds", "2"),
        ("audit", "in/set", "--out", "in/set/whole", "--scorer", "casing", "--folds", "2"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        assert ended.value.code == 0, arguments
    shutil.rmtree("out")


@pytest.mark.parametrize(
    "arguments",
    [
        ("metrics", "--benchmark", BENCHMARK, "in/run"),
        ("compare", "in/run", "in/run"),
        ("audit", "in/set", "--scorer", "casing", "--folds", "2"),
        ("select", "in/set", "--scorer", "casing", "--folds", "2"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_whose_name_looks_like_a_url_is_written_to(arguments: tuple[str, ...], inputs: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--out", "dual:data/out"])
    assert ended.value.code == 0
    assert list(Path("dual:data/out").iterdir())


def test_a_folder_that_is_a_circle_of_links_is_said_to_be_missing(
    inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("loop").symlink_to("loop")
    for arguments in (
        ("--data", "in/set", "--images", "loop"),
        ("--data", "loop"),
        ("--data", "in/set", "--images", "in", "--store", "loop"),
    ):
        words = ["eval", "--model", "open_clip:loop", "--benchmark", BENCHMARK, *arguments, "--out", "out"]
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 1
        assert capsys.readouterr().err.startswith("Error: ")
