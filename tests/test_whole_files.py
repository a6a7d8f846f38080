"""Writing all or nothing, and naming by content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from caramel.errors import DataError
from caramel.files import file_hash, write_atomically


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def broken(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_atomically(path, broken)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synced_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace
    names = {}

    def synced(descriptor: int) -> None:
        names[len(done)] = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append("sync")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b)))
    write_atomically(tmp_path / "file", lambda temporary: temporary.write_text("new"))
    assert done == ["sync", "rename", "sync"]
    assert names[0].parent == tmp_path
    assert names[2] == tmp_path


def test_two_writers_of_one_file_have_different_temporary_names(tmp_path: Path) -> None:
    seen: list[Path] = []

    def write(temporary: Path) -> None:
        seen.append(temporary)
        temporary.write_text("x")

    write_atomically(tmp_path / "file", write)
    write_atomically(tmp_path / "file", write)
    assert len({*seen}) == 2


def test_what_is_missing_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing"):
        file_hash(tmp_path / "nothing")


def test_the_hash_of_a_folder_changes_with_names_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    one = file_hash(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    two = file_hash(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({one, two, file_hash(tmp_path)}) == 3
