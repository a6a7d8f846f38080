"""Commands that write a file: only a plain file is replaced, a device or FIFO is written into."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from released_projects import made
from special_files import REFUSED, describe, make_null, make_refused

from caramel import cli
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame, write_table

BENCHMARK = "sugarcrepe"
FILES = {  # command -> its arguments before the file, and how the file starts
    "table": (["table", "../run", "--benchmark", BENCHMARK, "--no-published", "--out"], "|"),
    "runs": (["runs", "v1", "--out"], "run,"),
    "diff": (["diff", "v1", ".", "--page"], "<!doctype html>"),
}
FOLDERS = {  # command -> its arguments before the folder, a file in it, and how the file starts
    "metrics": (["metrics", "--benchmark", BENCHMARK, "../run", "--out"], "metrics.csv", "model"),
    "compare": (["compare", "../run", "../run", "--out"], "comparison.csv", "benchmark"),
    "audit": (
        ["audit", "../set", "--scorer", "casing", "--folds", "2", "--out"],
        "audit.html",
        "<!doctype html>",
    ),
    "refine": (["refine", "../set", "--out"], "swap_obj.json", "{"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project; beside it lie a run of `caramel eval` and a set of texts."""
    root = tmp_path_factory.mktemp("special")
    made(root / "project")
    scores = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 2)), columns=["s_c0_i0", "s_c1_i0"])
    names = {"instance_id": [f"{i}" for i in range(12)], "image_id": [f"{i}.jpg" for i in range(12)]}
    run = scores.assign(**names, subsets=[["swap_obj"]] * 12, model="m", benchmark=BENCHMARK)
    write_table(SIMILARITIES, build_frame(SIMILARITIES, run), root / "run" / "similarities.parquet")
    rows = {
        str(i): {
            "filename": f"{i}.jpg",
            "caption": f"A cat and {i} dogs.",
            "negative_caption": f"{i} cats, a dog.",
        }
        for i in range(12)
    }
    (root / "set").mkdir()
    (root / "set" / "swap_obj.json").write_text(pd.Series(rows).to_json())
    return root / "project"


@pytest.fixture
def out(project: Path, tmp_path: Path) -> Path:
    """Return a new folder."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def run(arguments: list[str], project: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the project and in this process: what it imports takes longer than what it does."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(project),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main(arguments)
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.mark.parametrize(
    ("command", "what"), [*((name, "link") for name in FILES), ("table", "dangling link"), ("diff", "socket")]
)
def test_a_file_is_not_written_over_what_is_none(command: str, what: str, project: Path, out: Path) -> None:
    make_refused(what, out / "file")
    before = describe(out.parent)
    done = run([*FILES[command][0], str(out / "file")], project)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(
        f"Error: {str(out / 'file')!r} is a {REFUSED[what].replace('does not exist', 'link')}"
    )
    assert done.stdout == "", "it is refused before any work"
    assert describe(out.parent) == before


@pytest.mark.parametrize("command", ["diff"])
def test_a_file_is_written_into_a_device_which_stays(command: str, project: Path, out: Path) -> None:
    make_null(out / "null")
    before = describe(out)
    done = run([*FILES[command][0], str(out / "null")], project)
    assert done.returncode == 0, done
    assert describe(out) == before


def read_fifo(path: Path) -> Callable[[], str]:
    """Return a function that gives what was written into a new FIFO."""
    os.mkfifo(path)
    texts: list[str] = []
    reader = threading.Thread(target=lambda: texts.append(path.read_text(encoding="utf-8")), daemon=True)
    reader.start()

    def join() -> str:
        reader.join(20)
        return texts[0]

    return join


@pytest.mark.parametrize("command", FILES)
def test_a_file_is_written_to_a_fifo_which_stays(command: str, project: Path, out: Path) -> None:
    arguments, start = FILES[command]
    read = read_fifo(out / "fifo")
    done = run([*arguments, str(out / "fifo")], project)
    assert done.returncode == 0, done
    assert read().lower().startswith(start)
    assert (out / "fifo").is_fifo()


def test_a_table_is_written_to_standard_output(project: Path) -> None:
    arguments, start = FILES["table"]
    command = [str(Path(sys.executable).with_name("caramel")), *arguments, "/dev/stdout"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done
    assert done.stdout.startswith(start)
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.parametrize(
    ("command", "what"), [*((name, "link") for name in FOLDERS), ("compare", "dangling link")]
)
def test_a_link_in_an_output_folder_leads_nothing_out_of_it(
    command: str, what: str, project: Path, out: Path
) -> None:
    arguments, name, _ = FOLDERS[command]
    make_refused(what, out / name)
    before = describe(out.parent)
    done = run([*arguments, str(out)], project)
    assert done.returncode == 1, done
    assert done.stderr.startswith(f"Error: {str(out / name)!r} is a link"), done.stderr
    assert describe(out.parent) == before


@pytest.mark.parametrize("command", ["compare"])
def test_a_fifo_in_an_output_folder_is_written_into(command: str, project: Path, out: Path) -> None:
    arguments, name, start = FOLDERS[command]
    read = read_fifo(out / name)
    done = run([*arguments, str(out)], project)
    assert done.returncode == 0, done
    assert read().lower().startswith(start)
    assert (out / name).is_fifo()


def test_what_an_earlier_run_left_is_removed_only_where_it_is_a_file(project: Path, out: Path) -> None:
    make_refused("link", out / "similarities.parquet")
    before = describe(out.parent)
    evaluate = [
        "eval",
        "--model",
        "blind:length",
        "--benchmark",
        BENCHMARK,
        "--data",
        "..",
        "--out",
        str(out),
    ]
    done = run(evaluate, project)
    assert "similarities.parquet' is a link" in done.stderr
    assert describe(out.parent) == before


@pytest.mark.parametrize("command", FILES)
def test_a_folder_is_no_file(command: str, project: Path, out: Path) -> None:
    done = run([*FILES[command][0], str(out)], project)
    assert (done.returncode, "is a directory" in done.stderr) == (2, True), done


@pytest.mark.parametrize("command", ["metrics"])
def test_a_file_or_device_is_no_folder(command: str, project: Path, out: Path) -> None:
    (out / "file").write_text("mine")
    make_null(out / "null")
    before = describe(out)
    for name in ("file", "null", "null/below"):
        done = run([*FOLDERS[command][0], str(out / name)], project)
        assert done.returncode in (1, 2), done
        assert "Traceback" not in done.stderr
        assert describe(out) == before
