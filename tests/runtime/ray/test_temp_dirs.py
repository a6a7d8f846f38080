"""What Ray writes lies in a folder that nobody else can enter, and is gone when nobody needs it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from caramel.errors import ResourceError
from caramel.runtime.ray.temp_dirs import (
    LONGEST,
    clear_session_folder,
    create_session_folder,
    get_temporary_root,
)

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: another user is needed")
USER = f"caramel-{os.geteuid()}"


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for temporary files, whose path is short, as that of RAY_TMPDIR."""
    folder = tmp_path_factory.getbasetemp() / "r"
    folder.mkdir(exist_ok=True)
    link = Path("/tmp") / f"r{os.getpid()}"
    link.symlink_to(folder)
    monkeypatch.setenv("RAY_TMPDIR", str(link))
    yield link
    link.unlink()
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_a_session_has_a_folder_of_its_own_that_is_gone_after_it(root: Path) -> None:
    with create_session_folder() as first, create_session_folder() as second:
        assert first != second
        assert first.parent == second.parent == root / USER
        assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
        (first / "session" / "logs").mkdir(parents=True)
    assert not first.exists()
    assert not second.exists()
    with create_session_folder() as again:
        assert again == first, "names stay short"


@needs_root
def test_another_user_can_neither_list_nor_read_nor_move_nor_add_anything(root: Path) -> None:
    with create_session_folder() as folder:
        folder.chmod(0o777)  # as Ray does
        secret = folder / "worker.log"
        secret.write_text("secret")
        secret.chmod(0o666)
        for command in (
            f"ls {folder}",
            f"ls {folder.parent}",
            f"cat {secret}",
            f"mv {secret} {secret}.moved",
            f"mv {folder} {folder}.moved",
            f"mv {folder.parent} {folder.parent}.moved",
            f"touch {folder}/added",
        ):
            done = subprocess.run(["sh", "-c", command], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)  # fmt: skip
            assert done.returncode != 0, command
            assert "secret" not in done.stdout
        assert secret.read_text() == "secret"


def refused() -> str:
    with pytest.raises(ResourceError) as caught, create_session_folder():
        pass
    assert "RAY_TMPDIR" in str(caught.value)
    return str(caught.value)


def test_a_folder_that_is_a_link_or_a_file_or_open_to_others_is_refused(root: Path, tmp_path: Path) -> None:
    place = root / USER
    place.symlink_to(tmp_path)
    assert "is a link" in refused()
    assert list(tmp_path.iterdir()) == []
    place.unlink()
    place.write_text("")
    assert "is no folder" in refused()
    place.unlink()
    place.mkdir()
    place.chmod(0o755)
    assert "is open to others (mode 0755, not 0700)" in refused()
    assert list(place.iterdir()) == []
    place.chmod(0o700)
    with create_session_folder() as folder:
        assert folder.parent == place


@needs_root
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    place = root / USER
    place.mkdir(mode=0o700)
    os.chown(place, NOBODY, NOBODY)
    assert f"belongs to user {NOBODY}, not to you" in refused()


def test_a_folder_that_every_user_may_replace_is_refused(root: Path) -> None:
    root.resolve().chmod(0o777)
    assert "(mode 0777, no sticky bit)" in refused()
    root.resolve().chmod(0o1777)
    with create_session_folder():
        pass


def test_a_long_path_is_refused_if_it_was_asked_for_and_else_not_taken(tmp_path: Path, monkeypatch) -> None:
    long = tmp_path / ("x" * 60)
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    assert f"more than {LONGEST} bytes" in refused()
    assert not long.exists()
    monkeypatch.delenv("RAY_TMPDIR")
    monkeypatch.setenv("TMPDIR", str(long))
    assert get_temporary_root() == Path("/tmp")
    monkeypatch.setenv("TMPDIR", "/t")
    assert get_temporary_root() == Path("/t")


def test_what_a_killed_session_left_is_removed_by_the_next_but_not_what_is_still_used(root: Path) -> None:
    with create_session_folder():
        pass
    private = root / USER
    for name in ("0", "1", "2"):
        (private / name / "session_x" / "logs").mkdir(parents=True)
    waiting = "import sys; print(flush=True); sys.stdin.read()"
    raylet = subprocess.Popen(
        [sys.executable, "-c", waiting, f"--session_dir={private / '1'}/session_x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert raylet.stdout is not None
    raylet.stdout.readline()
    with FileLock(private / "2.lock"), create_session_folder() as folder:
        assert folder.name == "0"
        assert list(folder.iterdir()) == []
        assert sorted(path.name for path in private.iterdir() if path.is_dir()) == ["0", "1", "2"]
    raylet.communicate(b"")
    with create_session_folder():
        assert sorted(path.name for path in private.iterdir() if path.is_dir()) == ["0"]


def test_a_cleared_folder_is_empty_and_its_processes_have_ended_and_no_others(root: Path) -> None:
    with create_session_folder() as folder:
        (folder / "session_x").mkdir()
        commands = [["sleep", "600"], ["tail", "-f", "/dev/null", f"{folder}/session_x"]]
        other, ours = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
        clear_session_folder(folder)
        assert list(folder.iterdir()) == []
        assert not psutil.pid_exists(ours.pid)
        assert other.poll() is None
        other.kill()
        other.wait()


def test_a_folder_that_was_removed_and_made_anew_open_to_others_is_no_hindrance_to_the_next_session(
    root: Path,
) -> None:
    with create_session_folder() as folder:
        shutil.rmtree(folder.parent)
        (folder / "session" / "logs").mkdir(parents=True)  # as Ray's processes do
        folder.parent.chmod(0o755)
    assert not folder.parent.exists()
    with create_session_folder() as again:
        assert again == folder
        again.parent.chmod(0o755)
    assert again.parent.exists(), "one that was opened to others, and not made anew, is not removed"


def test_a_session_folder_is_cleared_also_where_the_folder_around_it_was_removed(root: Path) -> None:
    with create_session_folder() as folder:
        shutil.rmtree(folder.parent)
        clear_session_folder(folder)
        assert [*folder.iterdir()] == []
        assert folder.parent.stat().st_mode & 0o077 == 0
