"""A full or read-only volume is named with its mount point and what to do; real volumes are mounted."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from caramel.errors import DataError, ResourceError
from caramel.io import disk_space
from caramel.io.files import save_hashed, write_atomically

Mount = Callable[..., Path]


def read_only(folder: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    return folder


def fill(folder: Path) -> None:
    with (folder / "filling").open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(2**20))


def test_a_folder_on_a_volume_with_room_is_no_trouble(tmp_path: Path, mount: Mount) -> None:
    assert disk_space.find_volume_problem(tmp_path / "not" / "there") is None
    place = mount(tmp_path / "work")
    assert disk_space.find_volume_problem(place / "a") is None
    assert disk_space.find_volume(place / "a" / "b") == place
    disk_space.require_writable([tmp_path, place])


def test_a_full_volume_is_named(tmp_path: Path, mount: Mount) -> None:
    place = mount(tmp_path / "work", 20)
    fill(place)
    with pytest.raises(
        ResourceError, match=rf"no space left for .*work/a: its volume {place} has 0 MiB free"
    ):
        disk_space.require_writable([place / "a"])


def use_up_inodes(folder: Path) -> None:
    with suppress(OSError):
        for number in range(1000):
            (folder / str(number)).touch()


def test_a_volume_without_inodes_is_named_as_such(tmp_path: Path, mount: Mount) -> None:
    place = mount(tmp_path / "work", 50, inodes=20)
    use_up_inodes(place)
    said = f"no space left for {place}/a: its volume {place} has 50 MiB free, but no inodes for new files. Remove files"
    assert said in (disk_space.find_volume_problem(place / "a") or "")
    for write in (write_atomically, save_hashed):
        with pytest.raises(ResourceError, match="has 50 MiB free, but no inodes for new files"):
            write(place / "a", lambda temporary: temporary.write_text("x"))


def test_a_copy_is_blamed_on_the_volume_that_is_written_not_on_the_one_that_is_read(
    tmp_path: Path, mount: Mount
) -> None:
    source = mount(tmp_path / "source", 40)
    (source / "large").write_bytes(bytes(30 * 2**20))  # no room there either, and nothing is written there
    target = mount(tmp_path / "target", 20)
    with pytest.raises(ResourceError, match=f"its volume {target} has 0 MiB free"):
        write_atomically(target / "a", lambda temporary: shutil.copyfile(source / "large", temporary))
    with pytest.raises(OSError, match="No space left") as full:
        shutil.copyfile(source / "large", target / "a")
    said = disk_space.explain_disk_error(full.value, [])
    assert said is not None
    assert f"no space left for {target}/a: its volume {target} has 0 MiB free" in said


def test_a_volume_with_room_is_not_blamed_where_another_one_is_full(tmp_path: Path, mount: Mount) -> None:
    place = mount(tmp_path / "work", 20)
    fill(place)
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "file"))
    said = disk_space.explain_disk_error(error, [tmp_path, place])
    assert said is not None
    assert f"no space left for {place}: its volume {place} has 0 MiB free" in said


def test_a_read_only_volume_is_named_also_through_a_link(tmp_path: Path, mount: Mount) -> None:
    place = read_only(mount(tmp_path / "elsewhere"))
    (tmp_path / "work").symlink_to(place)
    with pytest.raises(ResourceError, match=rf"work/a cannot be written: its volume {place} is read-only"):
        disk_space.require_writable([tmp_path / "work" / "a"])


def test_an_error_of_the_system_is_blamed_on_the_volume_of_its_file(tmp_path: Path, mount: Mount) -> None:
    place = mount(tmp_path / "work", 20)
    error = OSError(errno.ENOSPC, "No space left on device", str(place / "a.parquet"))
    wrapped = RuntimeError("some library's words")
    wrapped.__cause__ = error
    for each in (error, wrapped):
        said = disk_space.explain_disk_error(each, [])
        assert said is not None
        assert f"no space left for {place}/a.parquet: its volume {place} has" in said


def test_an_error_that_does_not_say_is_blamed_on_a_volume_that_is_full_or_on_none(
    tmp_path: Path, mount: Mount
) -> None:
    place = mount(tmp_path / "work", 20)
    error = RuntimeError("PytorchStreamWriter failed writing file\nat some line")
    assert disk_space.explain_disk_error(error, [tmp_path, place]) is None
    fill(place)
    said = disk_space.explain_disk_error(error, [tmp_path, place])
    assert said is not None
    assert f"its volume {place} has 0 MiB free" in said
    assert said.endswith("(RuntimeError: PytorchStreamWriter failed writing file)")
    assert disk_space.explain_disk_error(DataError("row 3"), [place]) is None, "an error that says all itself"


def test_a_write_that_failed_without_a_name_is_blamed_on_the_fullest_volume(
    tmp_path: Path, mount: Mount
) -> None:
    place = mount(tmp_path / "work", 40)
    said = disk_space.explain_disk_error(OSError(errno.ENOSPC, "No space left on device"), [tmp_path, place])
    assert said is not None
    assert f"no space left, perhaps for {place}: its volume {place} has 40 MiB free" in said


def test_only_what_lies_on_the_full_volume_is_said_to_make_room_there(
    tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc" / "cache").mkdir(parents=True)
    for name in ("work", "mlruns"):
        fill(mount(tmp_path / name, 20))
    assert (disk_space.find_volume_problem("work") or "").endswith(
        "Free some space there: the files of finished stages in work/ may be deleted."
    )
    assert (disk_space.find_volume_problem("mlruns") or "").endswith("Free some space there.")
    fill(mount(tmp_path / ".dvc" / "cache", 20))
    assert "Free some space there: `dvc gc -w` drops old" in (
        disk_space.find_volume_problem(".dvc/cache/files") or ""
    )


def test_a_link_to_a_volume_that_is_not_mounted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for target in (tmp_path / "volume" / "work", Path("work")):
        Path("work").unlink(missing_ok=True)
        Path("work").symlink_to(target)
        for place in ("work", "work/shards"):
            with pytest.raises(ResourceError, match=f"work is a link to {target}, which does not exist"):
                disk_space.require_writable([place])


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").touch()
    for place in (tmp_path / "work", tmp_path / "work" / "shards"):
        with pytest.raises(ResourceError, match="work is a file, not a folder"):
            disk_space.require_writable([place])
