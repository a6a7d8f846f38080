"""Only plain files are replaced or removed; all else is written into, or refused and left as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from special_files import REFUSED, describe, make_full, make_null, make_refused, make_socket

from caramel.errors import ConfigError
from caramel.io.files import (
    create_empty_folder,
    discard_results,
    forbid_overwriting_inputs,
    save_hashed,
    write_atomically,
)
from caramel.io.output_paths import check_folder, remove_file

TEXT = "text\n" * 50_000  # more than a pipe holds


def write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the path of a file in a folder of its own."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "file"


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """Return ``os.umask``; afterwards it is as it was."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_plain_file_is_refused_by_every_writer_and_stays(what: str, place: Path) -> None:
    make_refused(what, place)
    before = describe(place.parent.parent)
    for attempt in (
        lambda: write_atomically(place, write("new")),
        lambda: remove_file(place),
    ):
        with pytest.raises(ConfigError, match=REFUSED[what]) as stopped:
            attempt()
        assert repr(str(place)) in str(stopped.value)
        assert describe(place.parent.parent) == before
    if what not in ("folder", "link to a folder"):  # which may be the folder that is written to
        with pytest.raises(ConfigError, match=REFUSED[what]):
            forbid_overwriting_inputs([place], [])


def test_nothing_is_computed_for_a_target_that_is_refused(place: Path) -> None:
    place.symlink_to("elsewhere")
    with pytest.raises(ConfigError):
        write_atomically(place, lambda path: pytest.fail("was called"))


def test_a_result_is_not_kept_over_what_is_no_plain_file(place: Path) -> None:
    kept = save_hashed(place, write("one"))
    kept.unlink()
    kept.symlink_to(place.with_name("other"))
    with pytest.raises(ConfigError, match="link"):
        save_hashed(place, write("one"))
    assert [*place.parent.iterdir()] == [kept]


def test_a_device_is_written_into_and_stays(place: Path) -> None:
    make_null(place)
    before = describe(place.parent)
    write_atomically(place, write(TEXT))
    remove_file(place)
    assert describe(place.parent) == before


def test_a_device_that_is_full_is_named(place: Path) -> None:
    make_full(place)
    before = describe(place.parent)
    with pytest.raises(OSError, match="No space left") as stopped:
        write_atomically(place, write(TEXT))
    assert stopped.value.filename == str(place)
    assert describe(place.parent) == before


def test_a_fifo_hands_on_all_bytes_and_stays(place: Path) -> None:
    os.mkfifo(place)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(place.read_text(encoding="utf-8")))
    reader.start()
    write_atomically(place, write(TEXT))
    reader.join(20)
    assert read == [TEXT]
    assert [(path, path.is_fifo()) for path in place.parent.iterdir()] == [(place, True)]


WRITE = """
import sys
from pathlib import Path
from caramel.io.files import write_atomically
print("before", flush=True)
write_atomically(Path(sys.argv[1]), lambda path: path.write_text("text\\n" * 50_000))
print("after")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("to", ["a pipe", "a file", "the end of a file"])
def test_standard_output_is_written_on_wherever_it_leads(name: str, to: str, tmp_path: Path) -> None:
    if name == "link":
        name = str(tmp_path / "link")
        Path(name).symlink_to("/dev/stdout")
    file = tmp_path / "file"
    file.write_text("old\n")
    command = [sys.executable, "-c", WRITE, name]
    written = f"before\n{TEXT}after\n"
    if to == "a pipe":
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == written
        return
    with file.open("w" if to == "a file" else "a") as stream:
        subprocess.run(command, stdout=stream, check=True, timeout=60)
    assert file.read_text() == ("" if to == "a file" else "old\n") + written


def test_a_descriptor_that_is_not_open_for_writing_is_refused(tmp_path: Path) -> None:
    code = WRITE.replace('print("before", flush=True)', "")
    command = [sys.executable, "-c", code, "/dev/stdin"]
    with Path(__file__).open() as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False, timeout=60)
    assert "ConfigError: '/dev/stdin' is not open for writing" in done.stderr


def test_a_file_below_linked_folders_is_written(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "work").symlink_to("volume")
    write_atomically(tmp_path / "work" / "a" / "file", write("text"))
    assert (tmp_path / "volume" / "a" / "file").read_text() == "text"


def test_a_folder_inside_of_an_output_is_no_link(tmp_path: Path) -> None:
    check_folder(tmp_path / "nothing")
    (tmp_path / "captions").symlink_to("/tmp")
    with pytest.raises(ConfigError, match="captions' is a link"):
        check_folder(tmp_path / "captions")


@pytest.mark.parametrize("make", [make_null, os.mkfifo, make_socket])
def test_devices_fifos_and_sockets_are_not_removed_as_results(
    make: Callable[[Path], None], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(place)
    before = describe(place.parent)
    for remove in (create_empty_folder, lambda path: discard_results(path, "it is broken")):
        with pytest.raises(ConfigError, match="Move it away"):
            remove(place)
    assert describe(place.parent) == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o027, 0o002])
def test_a_new_file_has_the_permissions_that_open_gives(
    mask: int, place: Path, umask: Callable[[int], int]
) -> None:
    def private(path: Path) -> None:  # as some libraries write
        path.write_text("text")
        path.chmod(0o600)

    umask(mask)
    for name, writer in (("plain", write("text")), ("private", private)):
        write_atomically(place.with_name(name), writer)
        assert stat.S_IMODE(place.with_name(name).stat().st_mode) == 0o666 & ~mask, name
    assert stat.S_IMODE(save_hashed(place, private).stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, place: Path) -> None:
    place.write_text("old")
    place.chmod(mode)
    write_atomically(place, write("new"))
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("new", mode)


def test_a_file_that_root_replaces_stays_with_its_owner(place: Path) -> None:
    place.write_text("old")
    try:
        os.chown(place, 12345, 12346)
    except PermissionError:
        pytest.skip("files cannot be given away here: it takes root")
    write_atomically(place, write("new"))
    assert (place.stat().st_uid, place.stat().st_gid) == (12345, 12346)


def test_another_name_of_a_file_does_not_change_its_permissions(place: Path) -> None:
    blob = place.with_name("blob")
    blob.write_text("shared")
    blob.chmod(0o444)
    place.write_text("old")
    write_atomically(place, lambda temporary: os.link(blob, temporary))
    assert (place.read_text(), stat.S_IMODE(blob.stat().st_mode)) == ("shared", 0o444)
