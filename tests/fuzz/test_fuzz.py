"""The short form of `make fuzz`: the same few hundred mutated inputs each time, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_projects import git_settings
from remote_projects import run

HERE = Path(__file__).parent
RUN = [sys.executable, str(HERE / "run.py")]


def test_mutated_inputs_are_taken_whole_or_refused_with_a_message(tmp_path: Path) -> None:
    words = ["--inputs", "120", "--seed", "0", "--out", str(tmp_path / "found")]
    done = subprocess.run([*RUN, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
def test_inputs_of_strangers_that_are_not_mutated_are_taken(tmp_path: Path) -> None:
    names = (
        "get repository",
        "pin repository",
        "verify repository",
        "runs server",
        "runs folder",
        "get folder",
        "get special",
        "eval registered",
        "doctor addresses",
    )
    only = [word for name in names for word in ("--only", name)]
    done = subprocess.run([*RUN, "--valid", *only], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_planted_programs_run_where_nothing_keeps_git_from_it(tmp_path: Path) -> None:
    """Else the fuzzer, which looks for what they make, would see nothing."""
    run("git", "init", "-q", root=tmp_path)
    (tmp_path / ".git" / "config").write_bytes(git_settings(Path("$CARAMEL_FUZZ_MARKER")))
    run("git", "status", root=tmp_path, check=False, CARAMEL_FUZZ_MARKER=str(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()


def seen_by_the_fuzz(code: str, folder: Path) -> str:
    """Return what a program says that has the modules of the fuzz; ``marker`` is what planted programs make."""
    places = os.pathsep.join(map(str, (HERE, HERE.parent / "support", HERE.parent / "report")))
    start = "import os, subprocess, sys\nfrom pathlib import Path\nmarker = Path('../ran').resolve()\n"
    start += "os.environ['CARAMEL_FUZZ_MARKER'] = str(marker)\n"
    (folder / "box").mkdir()
    command = [sys.executable, "-c", start + code]
    return run(*command, root=folder / "box", PYTHONPATH=places, PYTHONSAFEPATH="1").stdout


def test_planted_modules_are_imported_where_the_folder_is_searched(tmp_path: Path) -> None:
    code = """
import hostile
hostile.plant_python(Path())
del os.environ["PYTHONSAFEPATH"], os.environ["PYTHONPATH"]
for options in (["-P"], []):
    subprocess.run([sys.executable, *options, "-m", "dvc", "--version"], stdout=subprocess.DEVNULL)
    print(marker.exists())
"""
    assert seen_by_the_fuzz(code, tmp_path) == "False\nTrue\n"


def test_a_server_that_a_graph_names_notes_that_it_is_asked(tmp_path: Path) -> None:
    code = """
import strangers
strangers.addressed()
os.environ[strangers.URL] = strangers.note_requests(Path())
strangers.name_server(Path())
print(marker.exists())
subprocess.run([sys.executable, "-m", "dvc", "status", "--json"], capture_output=True)
print(marker.exists())
"""
    assert seen_by_the_fuzz(code, tmp_path) == "False\nTrue\n"


def test_special_files_are_left_where_a_version_is_got(tmp_path: Path) -> None:
    code = """
import strangers, specials
Path("left.specials").write_text(".caramel-get/lock fifo\\n.caramel-get/files folder\\n.caramel-get/files/x socket\\n")
strangers.leave_special_files(Path.cwd())
print(sorted(name for name in specials.describe(Path.cwd()) if name != "/dev/null"), *Path("..").iterdir())
"""
    said = "['out/.caramel-get/files', 'out/.caramel-get/lock'] ../box\n"
    assert seen_by_the_fuzz(code, tmp_path) == said


def test_what_is_written_for_an_odd_version_is_seen(tmp_path: Path) -> None:
    code = """
import strangers
from types import SimpleNamespace
for name in ("work/registered/tuned-1/model/x", "work/registered/tuned-/x", "data/x"):
    Path(name).parent.mkdir(parents=True)
    Path(name).touch()
    print(*strangers.only_its_own_folder_is_written(SimpleNamespace(box=Path.cwd(), files={})), sep=", ")
"""
    said = ["", "made a folder of another name", "wrote 'data/x', made a folder of another name"]
    assert seen_by_the_fuzz(code, tmp_path).splitlines() == said


def test_a_picture_is_owed_to_the_rows_that_name_it(tmp_path: Path) -> None:
    code = """
import oracles
from types import SimpleNamespace
valid = {"data/a.json": b"[]", "data/b/0.jpg": b"whole"}
for files in ({**valid, "data/b/0.jpg": b"x"}, {"data/b/0.jpg": b"x"}, {**valid, "data/a.json": b"[1]", "data/b/0.jpg": b"x"}, valid):
    print(*oracles.pictures_decode(SimpleNamespace(code=0, valid=valid, files=files)), sep=", ")
"""
    said = ["took a picture that does not decode", "", "", ""]
    assert seen_by_the_fuzz(code, tmp_path).splitlines() == said


def test_a_line_end_within_a_caption_is_the_same_in_every_text_file(tmp_path: Path) -> None:
    code = """
import independent
for end in (b"\\n", b"\\r\\n", b"\\r"):
    print(independent.csv_rows(end.join([b"id,caption", b'1,"a', b'b"', b"2,c"])))
"""
    rows = [{"id": "1", "caption": "a\nb"}, {"id": "2", "caption": "c"}]
    assert seen_by_the_fuzz(code, tmp_path).splitlines() == [str(rows)] * 3


def test_rows_of_json_end_where_lines_do(tmp_path: Path) -> None:
    code = """
import independent
for end in (b"\\n", b"\\r\\n", b"\\r"):
    print(independent.rows_of("a.jsonl", end.join([b'{"a": 1}', b"", b'{"a": 2}'])))
"""
    assert seen_by_the_fuzz(code, tmp_path).splitlines() == [str([{"a": 1}, {"a": 2}])] * 3


def test_a_table_of_ours_that_is_no_csv_is_a_finding(tmp_path: Path) -> None:
    code = """
import oracles_of_results
from types import SimpleNamespace
Path("out").mkdir()
Path("out/metrics.csv").write_bytes(b"model,subset\\nm\\r,all\\n")
seen = SimpleNamespace(code=0, box=Path(), files={"data/v.json": b'[{"model": "m", "correct": "True"}]'})
print(*oracles_of_results.share_of_verdicts(seen))
"""
    said = "wrote a table although a row is longer or shorter than the header\n"
    assert seen_by_the_fuzz(code, tmp_path) == said
