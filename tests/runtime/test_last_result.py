"""A kept result, such as a loaded model, is given again while what it was read from is as it was, and no longer."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from caramel.runtime.last_result import LastResult, keep_last, stamp_files


@pytest.fixture
def read_text() -> tuple[LastResult[[str], str], list[str]]:
    """A function that reads a file, and the paths that it was called with."""
    calls: list[str] = []

    @keep_last(stamp_files)
    def read(path: str) -> str:
        calls.append(path)
        return Path(path).read_text() if Path(path).exists() else ""

    return read, calls


def in_place(path: Path) -> None:
    path.write_text("other")


def replaced(path: Path) -> None:
    (path.parent / "new").write_text("other")
    stat = path.stat()
    os.utime(path.parent / "new", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.replace(path.parent / "new", path)


@pytest.mark.parametrize("change", [in_place, replaced])
def test_a_file_is_read_again_when_it_was_written_or_replaced(
    change: Callable[[Path], None], read_text: tuple[LastResult[[str], str], list[str]], tmp_path: Path
) -> None:
    read, calls = read_text
    path = tmp_path / "a"
    path.write_text("first")
    os.utime(path, (0, 0))
    assert [read(str(path)), read(str(path)), len(calls)] == ["first", "first", 1]
    change(path)
    assert [read(str(path)), read(str(path)), len(calls)] == ["other", "other", 2]


def test_a_relative_path_in_another_working_folder_is_another_file(
    read_text: tuple[LastResult[[str], str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, _ = read_text
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        assert read("file") == name


def test_a_changed_variable_that_loaders_read_makes_a_new_result(
    read_text: tuple[LastResult[[str], str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = read_text
    for key, number in (("one", 1), ("one", 1), ("two", 2)):
        monkeypatch.setenv("CARAMEL_CHAT_KEY", key)
        read("OWNER/REPO")
        assert len(calls) == number


def test_an_error_is_not_kept_and_the_last_result_is_dropped_before_a_new_one_is_made() -> None:
    alive: list[int] = []

    class Model:
        def __init__(self) -> None:
            assert not alive, "two models are in memory"
            alive.append(1)

        def __del__(self) -> None:
            alive.clear()

    @keep_last(lambda name: name)
    def load(name: str) -> Model:
        if name == "broken":
            raise ValueError(name)
        return Model()

    load("a")
    load("b")
    with pytest.raises(ValueError, match="broken"):
        load("broken")
    assert not alive
    with pytest.raises(ValueError, match="broken"):
        load("broken")


def test_the_stamp_of_a_folder_changes_with_each_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    stamps = [stamp_files(tmp_path)]
    (tmp_path / "sub/a").write_text("1")
    stamps.append(stamp_files(tmp_path))
    (tmp_path / "sub/a").write_text("22")
    stamps += [stamp_files(tmp_path), stamp_files(tmp_path)]
    assert (len(set(stamps)), stamps[2] == stamps[3]) == (3, True)
