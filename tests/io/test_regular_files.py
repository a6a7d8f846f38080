"""A project's own files are plain ones: what would keep a reader waiting is refused, by every command that reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import call_command
from released_projects import made
from special_files import make_null, make_socket

from caramel.errors import ConfigError
from caramel.io import regular_files
from caramel.io.regular_files import append_plain, read_plain, read_plain_text

READERS = {  # file of a project -> commands that read it
    "pins/v1.json": (("verify", "v1"), ("diff", "v1", "v1"), ("release", "v1", "--no-audit", "--out", "out")),
    "dvc.lock": (("verify", "v1"), ("pin", "v2"), ("doctor",)),
    "params.yaml": (("pin", "v2"), ("doctor",)),
    "dvc.yaml": (("doctor",),),
    ".dvc/config": (("doctor",),),
    "release.yaml": (("release", "v1", "--no-audit", "--out", "out"),),
    "params/default.yaml": (("config", "use", "default"), ("doctor",)),
    "requirements.lock": (("doctor",),),
    "work/timings.jsonl": (("timings",),),
}


@pytest.mark.parametrize("what", ["fifo", "null", "socket", "folder"])
def test_what_is_no_plain_file_is_not_waited_for(what: str, tmp_path: Path) -> None:
    make = {"fifo": os.mkfifo, "null": make_null, "socket": make_socket, "folder": Path.mkdir}
    make[what](tmp_path / "file")  # type: ignore[operator]
    with pytest.raises(OSError, match=r"plain file|No such device|directory"):
        read_plain(tmp_path / "file")
    with pytest.raises(ConfigError):
        append_plain(tmp_path / "file", "x")


def test_a_plain_file_is_read_through_a_link_and_added_to_through_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("é\r\nx".encode())
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", 2) == "é".encode()
    assert read_plain_text(tmp_path / "link") == "é\nx"
    append_plain(tmp_path / "file", "ü")
    assert (tmp_path / "file").read_bytes() == "é\r\nxü".encode()
    with pytest.raises(ConfigError, match="link"):
        append_plain(tmp_path / "link", "x")


@pytest.mark.parametrize("what", ["link", "fifo", "fifo that is read"])
def test_what_takes_a_files_place_after_the_check_is_not_written_into(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    other.write_text("other's")
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)

    def check_too_early(_: Path) -> None:
        if what == "link":
            path.symlink_to(other)
        elif what == "fifo":
            os.mkfifo(path)
        else:
            (tmp_path / "fifo").rename(path)

    monkeypatch.setattr(regular_files, "require_plain", check_too_early)
    with pytest.raises(ConfigError, match="is not a plain file"):
        append_plain(path, "x")
    assert other.read_text() == "other's"
    assert not os.read(reader, 1)
    os.close(reader)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "command"), [(name, c) for name, each in READERS.items() for c in each])
def test_a_command_does_not_wait_for_a_fifo_under_the_name_of_a_projects_file(
    name: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    project = made(tmp_path / "project")
    place = project / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    done = call_command(project, *command)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr + done.stdout
