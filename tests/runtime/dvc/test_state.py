"""What a killed process leaves of DVC's files is recognised, and mended without running anything again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commands import run_command
from dvc_commands import run_dvc
from processes import checked

from caramel.doctor import versions
from caramel.doctor.findings import FAIL
from caramel.doctor.local import fix_project
from caramel.errors import DataError, ResourceError
from caramel.runtime.dvc import state
from caramel.runtime.mlflow import tracking

COPY = "import shutil, sys; shutil.copy(*sys.argv[1:]); open('ran', 'a').write(sys.argv[2])"
WHOLE = (
    "schema: '2.0'\nstages:\n  b:\n    cmd: x\n    outs:\n    - path: b\n      md5: {md5}\n      size: 1\n"
)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two stages, a to b to c, that note in ``ran`` when they run; the lock of a = 1 is in git."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "put.py").write_text(COPY, encoding="utf-8")
    (folder / "dvc.yaml").write_text(
        "stages:\n"
        "  first: {cmd: python put.py a b, deps: [a], outs: [b]}\n"
        "  second: {cmd: python put.py b c, deps: [b], outs: [c]}\n",
        encoding="utf-8",
    )
    (folder / ".gitignore").write_text("/b\n/c\n/ran\n", encoding="utf-8")
    (folder / "a").write_text("1", encoding="utf-8")
    run(folder, "git", "init", "-q")
    dvc(folder, "init", "-q")
    dvc(folder, "repro", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "1")
    return folder


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "project"))


def run(folder: Path, *command: str) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=-1, stderr=-2, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def dvc(folder: Path, *words: str) -> str:
    return checked(run_dvc(words, folder, os.environ)).stdout


def refused(folder: Path) -> bool:
    """Return whether DVC itself refuses to work."""
    return run_dvc(["repro", "--dry"], folder, os.environ).returncode != 0


@pytest.mark.parametrize("share", [0.0, 0.55])
def test_a_cut_lock_is_mended_and_nothing_that_ended_runs_again(share: float, project: Path) -> None:
    (project / "a").write_text("2", encoding="utf-8")
    dvc(project, "repro", "-q")  # what is not in git yet
    assert (project / "ran").read_text(encoding="utf-8") == "bcbc"
    lock = project / "dvc.lock"
    whole = lock.read_bytes()
    lock.write_bytes(whole[: int(share * len(whole))])
    assert refused(project)
    with pytest.raises(DataError, match=r"dvc\.lock .*caramel doctor --fix"):
        state.read_lock(project)
    (done,) = fix_project(project)
    assert "the last commit's again" in done
    assert (project / state.BROKEN).read_bytes() == whole[: int(share * len(whole))]
    dvc(project, "repro", "-q")
    assert lock.read_bytes() == whole
    assert (project / "c").read_text(encoding="utf-8") == "2"
    assert (project / "ran").read_text(encoding="utf-8") == "bcbc", "a stage that had ended was run again"
    assert list(fix_project(project)) == []


def test_a_cut_lock_that_git_does_not_have_is_removed_and_made_from_the_run_cache(project: Path) -> None:
    lock = project / "dvc.lock"
    whole = lock.read_bytes()
    run(project, "git", "rm", "-q", "--cached", "dvc.lock")
    run(project, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "2")
    lock.write_bytes(b"")
    (done,) = fix_project(project)
    assert "was removed" in done
    dvc(project, "repro", "-q")
    assert lock.read_bytes() == whole
    assert (project / "ran").read_text(encoding="utf-8") == "bc"


def test_a_merge_that_stopped_in_the_lock_is_mended_and_what_is_dropped_is_named(project: Path) -> None:
    def commit(message: str) -> None:
        run(project, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qam", message)

    lock = project / "dvc.lock"
    whole = lock.read_text(encoding="utf-8")
    first, _, second = whole.partition("  second:")
    run(project, "git", "checkout", "-qb", "theirs")
    lock.write_text(first + "  second:" + re.sub("md5: [0-9a-f]{32}", f"md5: {'a' * 32}", second))
    commit("theirs")
    run(project, "git", "checkout", "-qb", "ours", "HEAD~1")
    mine = first + "  second:" + re.sub("md5: [0-9a-f]{32}", f"md5: {'b' * 32}", second)
    lock.write_text(mine)
    commit("ours")
    user = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    merge = subprocess.run(["git", *user, "merge", "theirs"], cwd=project, capture_output=True, check=False)
    assert (merge.returncode, "<<<<<<<" in lock.read_text(encoding="utf-8")) == (1, True)
    with pytest.raises(DataError, match=r"a git merge stopped in it.*caramel doctor --fix"):
        state.read_lock(project)
    done = run_command(project, "doctor", "--fix").stdout
    assert "It lacks what the other side of the merge has of 1 stages:\n  - second\n" in done
    assert "`git checkout --theirs dvc.lock` takes the other side's instead" in done
    assert "`git add dvc.lock` ends the conflict" in done
    assert lock.read_text(encoding="utf-8") == mine
    run(project, "git", "checkout", "-q", "--theirs", "dvc.lock")
    run(project, "git", "add", "dvc.lock")
    assert state.read_lock(project)["stages"]["second"]["outs"][0]["md5"] == "a" * 32
    lock.write_bytes(b"")
    (done,) = fix_project(project)
    assert "other side" not in done, "no merge is open"


@pytest.mark.parametrize("text", ["", '{"write": {[1]', '{"read": 5}', '{"write": {"b": {"pid": "x"}}}'])
def test_a_cut_rwlock_is_removed(text: str, project: Path) -> None:
    (project / state.RWLOCK).write_text(text, encoding="utf-8")
    assert "is truncated" in (state.find_rwlock_problem(project) or "")
    (done,) = fix_project(project)
    assert "rwlock was removed" in done
    assert state.find_rwlock_problem(project) is None


def test_dvc_refuses_a_cut_rwlock_and_takes_the_mended_one(project: Path) -> None:
    (project / "a").write_text("3", encoding="utf-8")
    (project / state.RWLOCK).write_text("", encoding="utf-8")
    assert refused(project)
    list(fix_project(project))
    assert not refused(project)


def test_an_rwlock_of_a_process_that_is_not_dvc_is_removed_and_one_of_a_dead_process_is_left(
    project: Path,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number, trouble in ((ended.pid, False), (os.getpid(), True)):
        held = {"write": {str(project / "b"): {"pid": number, "cmd": "dvc repro"}}}
        (project / state.RWLOCK).write_text(json.dumps(held), encoding="utf-8")
        assert bool(state.find_rwlock_problem(project)) == trouble
        assert len(list(fix_project(project))) == trouble


def test_an_rwlock_of_a_killed_process_that_nobody_has_waited_for_is_removed(project: Path) -> None:
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "dvc"])
    try:
        held = {"write": {str(project / "b"): {"pid": killed.pid, "cmd": "dvc repro"}}}
        (project / state.RWLOCK).write_text(json.dumps(held), encoding="utf-8")
        killed.kill()
        while psutil.Process(killed.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        (project / "a").write_text("3", encoding="utf-8")
        assert refused(project)
        assert len(list(fix_project(project))) == 1
        assert not refused(project)
    finally:
        killed.wait()


def test_nothing_is_mended_beside_a_dvc_at_work(project: Path) -> None:
    (project / "dvc").write_text("import time; time.sleep(60)", encoding="utf-8")
    working = subprocess.Popen([sys.executable, "dvc"], cwd=project)
    try:
        (project / "dvc.lock").write_bytes(b"")
        with pytest.raises(ResourceError, match=f"process {working.pid}"):
            list(fix_project(project))
        assert (project / "dvc.lock").read_bytes() == b""
    finally:
        working.send_signal(signal.SIGKILL)
        working.wait()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]\n",
        "schema: '2.0'\nstages: [1]\n",
        "schema: '2.0'\nstages:\n  b: [1]\n",
        WHOLE.format(md5="5"),
        WHOLE.format(md5="0123abc"),
        WHOLE.format(md5="0a" * 16).replace("      md5", "      mb5"),
        "<<<<<<< HEAD\nschema: '2.0'\n=======\n",
        "\0" * 100,
        "schema: !!int ''\n",
    ],
)
def test_a_lock_that_dvc_would_not_write_is_an_error_that_names_the_cure(text: str, tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"(?s)dvc\.lock .*caramel doctor --fix"):
        tracking.get_data_versions(["b"], tmp_path)


def test_a_lock_that_is_whole_or_missing_is_read(tmp_path: Path) -> None:
    assert tracking.get_data_versions(["b"], tmp_path) == {}
    (tmp_path / "dvc.lock").write_text(WHOLE.format(md5="0a" * 16), encoding="utf-8")
    assert tracking.get_data_versions(["b"], tmp_path) == {"b": "0a" * 16}


FILES = {"a.bin": "0a" * 16, "a/c.bin": "1b" * 16}


def listed(**changes: str) -> str:
    """Return a lock whose output a version-aware remote keeps file by file, with other hashes."""
    files = "".join(
        f"      - relpath: {name}\n        md5: {digest}\n        cloud: {{s3: {{version_id: x}}}}\n"
        for name, digest in (FILES | changes).items()
    )
    return f"schema: '2.0'\nstages:\n  b:\n    cmd: x\n    outs:\n    - path: b\n      files:\n{files}"


def test_an_output_that_is_listed_file_by_file_has_dvcs_hash_of_the_listing(tmp_path: Path) -> None:
    from dvc_data.hashfile.tree import Tree

    tree = Tree.from_list([{"relpath": name, "md5": digest} for name, digest in FILES.items()])
    tree.digest()
    (tmp_path / "dvc.lock").write_text(listed(), encoding="utf-8")
    assert list(fix_project(tmp_path)) == []
    assert tracking.get_data_versions(["b"], tmp_path) == {"b": tree.hash_info.value}
    (tmp_path / "dvc.lock").write_text(listed(**{"a.bin": "0a" * 12}), encoding="utf-8")
    with pytest.raises(DataError, match="the hash of 'b' is cut"):
        state.read_lock(tmp_path)


@pytest.mark.parametrize(
    "params",
    [
        "x: [" + "1, " * 50_001 + "]",
        f"x: {'y' * 2**18}",
        "x: 2026-01-01",
        f"x: {2**70}",
        "x: {1: a}",
    ],
    ids=["many entries", "long", "a date", "a large number", "a number as a key"],
)
def test_a_lock_that_dvc_takes_is_left_alone(params: str, tmp_path: Path) -> None:
    lock = WHOLE.format(md5="0a" * 16) + f"    params:\n      other.yaml:\n        {params}\n"
    (tmp_path / "dvc.lock").write_text(lock, encoding="utf-8")
    assert list(fix_project(tmp_path)) == []
    assert (tmp_path / "dvc.lock").read_text(encoding="utf-8") == lock


def test_a_lock_that_cannot_be_read_is_reported_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").mkdir()
    with pytest.raises(ResourceError, match=r"dvc\.lock cannot be read: Is a directory"):
        list(fix_project(tmp_path))
    assert (tmp_path / "dvc.lock").is_dir()
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True) as status:
        found = versions.check_dvc_lock(tmp_path, status)
    assert (found.state, found.cure) == (FAIL, "")
    assert "Is a directory" in found.text


def test_a_broken_lock_is_kept_where_dvcs_folder_is_a_volume_of_its_own(
    tmp_path: Path, mount: Callable[..., Path]
) -> None:
    mount(tmp_path / ".dvc")
    (tmp_path / "dvc.lock").write_text("[]", encoding="utf-8")
    (done,) = fix_project(tmp_path)
    assert "was removed" in done
    assert (tmp_path / state.BROKEN).read_text(encoding="utf-8") == "[]"


def test_a_lock_that_did_not_change_is_parsed_once_and_one_that_did_anew(tmp_path: Path) -> None:
    lock = tmp_path / "dvc.lock"
    lock.write_text(WHOLE.format(md5="a" * 32), encoding="utf-8")
    first = state.read_lock(tmp_path)
    assert state.read_lock(tmp_path) is first
    lock.write_text(WHOLE.format(md5="b" * 32), encoding="utf-8")
    assert state.read_lock(tmp_path)["stages"]["b"]["outs"][0]["md5"] == "b" * 32
