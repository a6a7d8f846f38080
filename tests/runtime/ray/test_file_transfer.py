from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from caramel.errors import DataError, ResourceError
from caramel.runtime.ray import file_transfer
from caramel.runtime.ray.file_transfer import (
    LocalFile,
    Parcel,
    format_as_given,
    format_source_path,
    map_instances,
    pack_file,
    unpack_parcel,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the driver's with files; the node's own folder is elsewhere."""
    monkeypatch.setattr(file_transfer, "CACHE", tmp_path / "node")
    place = tmp_path / "driver" / "model"
    (place / "inner").mkdir(parents=True)
    (place / "weights").write_bytes(bytes(range(256)) * 9)
    (place / "inner" / "empty").touch()
    return place


def reader(asked: list[str]) -> Callable[[str, int], bytes]:
    """Return what reads the driver's files, and notes which."""

    def read(path: str, start: int) -> bytes:
        asked.append(Path(path).name)
        return Path(path).read_bytes()[start : start + file_transfer.CHUNK]

    return read


def test_a_file_counts_by_its_content_and_not_by_its_place(folder: Path) -> None:
    first = LocalFile(str(folder), "name=").content
    moved = folder.rename(folder.with_name("moved"))
    assert LocalFile(str(moved), "name=").content == first
    assert LocalFile(str(moved), "other=").content != first
    (moved / "weights").write_bytes(b"other")
    assert LocalFile(str(moved), "name=").content != first
    with pytest.raises(DataError, match="missing"):
        LocalFile(str(folder)).content  # noqa: B018 - it is asked


def test_a_folder_comes_to_a_node_as_it_is_and_is_not_sent_twice(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(file_transfer, "CHUNK", 1000)
    parcel = pack_file(LocalFile(str(folder), "name=", "?x"))
    asked: list[str] = []
    there = unpack_parcel(parcel, reader(asked))
    place = Path(there.removeprefix("name=").removesuffix("?x"))
    assert place != folder
    assert (place / "weights").read_bytes() == (folder / "weights").read_bytes()
    assert (place / "inner" / "empty").read_bytes() == b""
    assert asked == ["weights"] * 3  # the empty file has no bytes to ask for
    assert unpack_parcel(parcel, reader(asked)) == there
    assert len(asked) == 3
    assert (
        format_source_path(parcel)
        == format_as_given(LocalFile(str(folder), "name=", "?x"))
        == f"name={folder}?x"
    )


def test_files_around_another_one_keep_their_places_relative_to_it(folder: Path) -> None:
    shard = folder.parent / "elsewhere" / "0.parquet"
    shard.parent.mkdir()
    shard.write_bytes(b"images")
    local = LocalFile(str(folder / "weights"), around=(str(shard),))
    place = Path(unpack_parcel(pack_file(local), reader([])))
    assert (place.parent / os.path.relpath(shard, folder)).read_bytes() == b"images"
    assert local.content == LocalFile(str(folder / "weights")).content, "the index says what is in its shards"


def test_a_file_that_changes_on_its_way_is_named_with_the_node_and_leaves_nothing(folder: Path) -> None:
    parcel = pack_file(LocalFile(str(folder / "weights")))
    with pytest.raises(ResourceError, match=r"weights' came to node .* other bytes .* again"):
        unpack_parcel(parcel, lambda path, start: bytes(2304))
    with pytest.raises(ResourceError, match="other bytes"):
        unpack_parcel(parcel, lambda path, start: b"")  # cut off
    assert [
        path for path in file_transfer.CACHE.rglob("*") if path.is_file() and path.suffix != ".lock"
    ] == []
    assert Path(unpack_parcel(parcel, reader([]))).read_bytes() == (folder / "weights").read_bytes()


def test_links_keep_their_names_and_what_has_no_file_is_there(folder: Path) -> None:
    store = folder.parent / "cache"
    store.mkdir()
    (store / "ab12").write_bytes(b"linked")
    (folder / "model.safetensors").symlink_to(store / "ab12")
    (folder / "gone").symlink_to(store / "nothing")
    place = Path(unpack_parcel(pack_file(LocalFile(str(folder))), reader([])))
    assert (place / "model.safetensors").read_bytes() == b"linked"
    index = Path(unpack_parcel(pack_file(LocalFile(str(folder / "model.safetensors"))), reader([])))
    assert index.name == "model.safetensors"
    (folder.parent / "none").mkdir()
    assert Path(unpack_parcel(pack_file(LocalFile(str(folder.parent / "none"))), reader([]))).is_dir()


def test_a_file_that_was_written_anew_is_sent_anew_and_a_broken_copy_is_mended(folder: Path) -> None:
    local = LocalFile(str(folder / "weights"))
    first = Path(unpack_parcel(pack_file(local), reader([])))
    first.chmod(0o644)
    first.write_bytes(b"broken")
    assert Path(unpack_parcel(pack_file(local), reader([]))).read_bytes() == (folder / "weights").read_bytes()
    (folder / "weights").write_bytes(b"new")
    assert Path(unpack_parcel(pack_file(local), reader([]))).read_bytes() == b"new"


def test_a_file_around_another_one_that_is_missing_says_how_it_is_made(folder: Path) -> None:
    with pytest.raises(DataError, match="missing"):
        pack_file(LocalFile(str(folder / "weights"), around=(str(folder / "shard"),)))


def test_parts_of_a_kind_are_replaced_however_deep_they_stand() -> None:
    value = {"a": [LocalFile("x"), (1, LocalFile("y"))], "b": "text", "c": b"bytes"}
    found = map_instances(value, LocalFile, lambda local: local.path)
    assert found == {"a": ["x", (1, "y")], "b": "text", "c": b"bytes"}
    assert map_instances(found, Parcel, lambda parcel: pytest.fail("there is none")) == found
