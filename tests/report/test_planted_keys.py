"""Keys and passwords that a user has around him stand in nothing that a command writes or says, each in a process of its own."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer, always, picture
from commands import run_command, run_eval
from released_projects import made
from remote_projects import QUIET, cached, run
from small_releases import write_sugarcrepe
from synthetic import write_all

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "CARAMEL_CHAT_KEY": "plant3d-chat-key",
    "OPENAI_API_KEY": "plant3d-openai-key",
    "HF_TOKEN": "plant3d-hf-token",
    "AWS_ACCESS_KEY_ID": "PLANT3DAWSID",
    "AWS_SECRET_ACCESS_KEY": "plant3d-aws-secret",
    "AWS_SESSION_TOKEN": "plant3d-aws-token",
    "MLFLOW_TRACKING_USERNAME": "plant3d-mlflow-user",
    "MLFLOW_TRACKING_PASSWORD": "plant3d-mlflow-password",
    "NO_PROXY": "127.0.0.1",
}
GIT = "https://me:plant3d-git-password@git.example.org/x.git"
REMOTE = """[core]
    remote = far
['remote "far"']
    url = https://me:plant3d-url-password@dvc.example.org/x
    password = plant3d-dvc-password
    verify = true
"""
REFUSED = ("me:plant3d-in-login@h/v1", "h/v1?api_key=plant3d-in-query", "h/v1#plant3d-in-fragment")


def tell(path: Path) -> str:
    """Return all texts of a file: of tables and databases the cells, which are compressed or spread over pages."""
    if path.suffix == ".parquet":
        return repr(pd.read_parquet(path).to_dict("records"))
    if path.suffix in (".db", ".sqlite"):
        with sqlite3.connect(path) as database:
            return "\n".join(database.iterdump())
    return path.read_bytes().decode("latin-1")


def list_files(folder: Path) -> dict[Path, str]:
    """Return file -> hash."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def find_planted(folder: Path, before: Mapping[Path, str]) -> list[str]:
    """Return the files that are new or others, and hold something planted."""
    fresh = [path for path, digest in list_files(folder).items() if before.get(path) != digest]
    return [str(path) for path in fresh if "plant3d" in tell(path).lower()]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (ENVIRONMENT | QUIET).items():
        monkeypatch.setenv(name, value)
    for name in ("DVC_ROOT", "CARAMEL_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def committed(root: Path) -> dict[Path, str]:
    """Make a folder a repository with a remote; return its files."""
    for words in (
        ("init", "-q"),
        ("remote", "add", "origin", GIT),
        ("add", "-A", "--", ":!data", ":!.dvc/cache"),
        ("commit", "-qm", "x"),
    ):
        run("git", *words, root=root)
    return list_files(root)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer(always(f"B. Your key is {ENVIRONMENT['CARAMEL_CHAT_KEY']}."))
    yield server
    server.close()


def test_what_is_planted_is_found_wherever_it_stands(tmp_path: Path) -> None:
    pd.DataFrame({"x": ["y", "plant3d"] * 99}).to_parquet(tmp_path / "a.parquet")
    with sqlite3.connect(tmp_path / "b.db") as database:
        database.execute("CREATE TABLE a (b)")
        database.execute("INSERT INTO a VALUES ('plant3d')")
    (tmp_path / "c.html").write_text("<p>Plant3d</p>")
    (tmp_path / "d.txt").write_text("plant3d")
    before = {tmp_path / "d.txt": list_files(tmp_path)[tmp_path / "d.txt"]}
    assert [Path(name).name for name in sorted(find_planted(tmp_path, before))] == [
        "a.parquet",
        "b.db",
        "c.html",
    ]


def test_no_key_stands_in_what_eval_writes(tmp_path: Path, server: ChatServer) -> None:
    write_sugarcrepe(tmp_path / "data/sugarcrepe", {"swap_att": [("A red car.", "A blue car.")] * 4}, 2)
    (tmp_path / "images").mkdir()
    for n in range(2):
        (tmp_path / "images" / f"{n:012}.jpg").write_bytes(picture("red", kind="JPEG"))
    before = committed(tmp_path)
    said = ""
    models = ["blind:length", f"chat:m@{server.url}", *(f"chat:m@http://{address}" for address in REFUSED)]
    for number, model in enumerate(models):
        done = run_eval(tmp_path, model, "--out", f"out{number}")
        assert done.returncode == (number > 1), done
        said += done.stdout + done.stderr
    assert len(server.requests) > 1, "the key was sent, and said back"
    assert "plant3d" not in said.lower()
    assert "$CARAMEL_CHAT_KEY" in tell(tmp_path / "out1" / "answers.parquet")
    assert (tmp_path / "mlruns" / "mlflow.db").is_file()
    assert find_planted(tmp_path, before) == []


def test_no_key_stands_in_versions_and_releases(tmp_path: Path) -> None:
    project = made(tmp_path / "project")
    cached(project)
    (project / ".dvc" / "config").write_text(REMOTE)
    committed(project)
    before = list_files(tmp_path)
    said = ""
    for words in (
        ("pin", "v2"),
        ("verify", "v1"),
        ("release", "v1", "--no-audit", "--out", "../released"),
        ("diff", "v1", ".", "--page", "../diff.html"),
        ("runs", "v1", "--out", "../runs.csv"),
        ("get", ".@v1", "--out", "../got"),
        ("doctor",),
    ):
        done = run_command(project, *words)
        assert done.returncode == 0 or words == ("doctor",), done
        said += done.stdout + done.stderr
    assert "plant3d" not in said.lower()
    assert (tmp_path / "got" / "pins" / "v1.json").is_file()
    assert (tmp_path / "released" / "README.md").is_file()
    assert find_planted(tmp_path, before) == []


def test_no_key_stands_in_the_report(tmp_path: Path) -> None:
    write_all(tmp_path / "data", per_subtype=2, seeds=1)
    (tmp_path / "params.yaml").write_bytes((ROOT / "params" / "default.yaml").read_bytes())
    (tmp_path / "inputs" / "zero_shot").mkdir(parents=True)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "claim.yaml").write_bytes((ROOT / "plans" / "claim.yaml").read_bytes())
    before = committed(tmp_path)
    done = run(sys.executable, str(ROOT / "pipelines" / "report.py"), root=tmp_path)
    assert "plant3d" not in (done.stdout + done.stderr).lower()
    assert json.loads((tmp_path / "data/report/summary.json").read_text())["numbers"]
    assert find_planted(tmp_path, before) == []
