"""Writing all or nothing, and naming by content."""

from __future__ import annotations

import csv
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from caramel.errors import ConfigError, DataError, ResourceError
from caramel.io import files
from caramel.io.files import (
    compute_file_hash,
    create_empty_folder,
    hash_files,
    load_hashed,
    remove_damaged,
    save_hashed,
    verify_hash,
    write_atomically,
    write_csv,
    write_json,
    write_text,
)
from caramel.io.readers import iter_csv_rows


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


def test_a_volume_that_a_library_fills_is_named_though_what_was_half_written_is_gone(
    tmp_path: Path, mount: Callable[..., Path]
) -> None:
    import torch
    from safetensors.torch import save_file

    place, weights = mount(tmp_path / "work", 24), {"w": torch.zeros(10 * 2**20)}
    writers = {
        "step.pt": lambda path: torch.save(weights, path),
        "model.safetensors": lambda path: save_file(weights, path),
        "table": lambda path: path.write_bytes(bytes(40 * 2**20)),
    }
    for name, write in writers.items():
        with pytest.raises(ResourceError, match=f"{name}' was not written: no space left") as stopped:
            save_hashed(place / name, write)
        # safetensors removes what it has half written itself, before it says so.
        free = 24 if name == "model.safetensors" else 0
        assert f"its volume {place} has {free} MiB free" in str(stopped.value)
        assert list(place.iterdir()) == []


def test_a_folder_that_cannot_be_synced_is_no_error_but_a_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(folder: bool, number: int) -> None:
        def sync(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) == folder:
                raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", sync)

    for number in (errno.EINVAL, errno.ENOTSUP):
        unable(folder=True, number=number)
        write_atomically(tmp_path / "file", lambda temporary: temporary.write_text("x"))
        unable(folder=False, number=number)
        with pytest.raises(OSError, match=os.strerror(number)):
            write_atomically(tmp_path / "file", lambda temporary: temporary.write_text("y"))
    unable(folder=True, number=errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_atomically(tmp_path / "file", lambda temporary: temporary.write_text("x"))


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
        compute_file_hash(tmp_path / "nothing")


def test_the_hash_of_a_folder_changes_with_names_and_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    one = compute_file_hash(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    two = compute_file_hash(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({one, two, compute_file_hash(tmp_path)}) == 3


def write(text: str):
    return lambda path: path.write_text(text)


def test_a_kept_file_is_named_by_its_content_and_found_by_the_name_it_was_given(tmp_path: Path) -> None:
    one = save_hashed(tmp_path / "a.txt", write("one"))
    two = save_hashed(tmp_path / "b.txt", write("two"))
    assert one.name == f"a.{compute_file_hash(one)[:32]}.txt"
    assert load_hashed(tmp_path, ".txt") == {"a": one, "b": two}
    assert load_hashed(tmp_path, ".txt", {"b", "c"}) == {"b": two}
    assert load_hashed(tmp_path / "nowhere", ".txt") == {}


def damages(path: Path) -> dict[str, Callable[[], object]]:
    content = path.read_bytes()
    flips = {
        f"bit {bit} of byte {at}": lambda at=at, bit=bit: path.write_bytes(
            content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]
        )
        for at in (0, len(content) // 2, len(content) - 1)
        for bit in (0, 7)
    }
    return {
        "cut": lambda: path.write_bytes(content[:-1]),
        "empty": lambda: path.write_bytes(b""),
        "longer": lambda: path.write_bytes(content + b"\0"),
        "a folder": lambda: (path.unlink(), path.mkdir(), (path / "x").touch()),
        "without its hash": lambda: path.rename(path.with_name("a.txt")),
        **flips,
    }


def test_whatever_happened_to_a_kept_file_is_noticed_said_in_a_line_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in damages(save_hashed(tmp_path / "x.txt", write("x"))):
        folder = tmp_path / name.replace(" ", "_")
        path = save_hashed(folder / "a.txt", write("some text"))
        damages(path)[name]()
        assert load_hashed(folder, ".txt") == {}, name
        assert list(folder.iterdir()) == []
        said = capsys.readouterr().err.strip()
        assert said.count("\n") == 0
        assert str(folder) in said
        assert "computed again" in said


def test_what_another_process_has_just_found_broken_is_not_whole_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_hashed(tmp_path / "a.txt", write("some text"))
    path.write_text("broken")
    hashed = files.compute_file_hash

    def removed(path: Path) -> str:
        path.unlink()
        return hashed(path)

    monkeypatch.setattr(files, "compute_file_hash", removed)
    assert not verify_hash(path)
    assert capsys.readouterr().err == ""

    path.mkdir()
    rmdir = os.rmdir

    def twice(folder: str, **how: object) -> None:
        rmdir(folder)
        rmdir(folder)

    monkeypatch.setattr(os, "rmdir", twice)
    assert not verify_hash(path)


def test_a_write_that_is_killed_leaves_nothing_that_is_taken_for_kept(tmp_path: Path) -> None:
    def killed(temporary: Path) -> None:
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_hashed(tmp_path / "a.txt", killed)
    (tmp_path / ".a.txt.0123456789ab").write_text("half")  # what SIGKILL would leave
    assert load_hashed(tmp_path, ".txt") == {}


def test_a_check_of_a_folder_removes_what_is_broken_and_touches_nothing_else(tmp_path: Path) -> None:
    broken, whole = save_hashed(tmp_path / "a.pt", write("1")), save_hashed(tmp_path / "b.pt", write("2"))
    broken.write_text("3")
    other = tmp_path / "table.parquet"
    other.touch()
    remove_damaged(tmp_path)
    remove_damaged(tmp_path / "nowhere")
    assert sorted(tmp_path.iterdir()) == sorted([whole, other])


def test_the_hashes_of_a_folder_leave_out_what_says_its_own(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("1")
    save_hashed(tmp_path / "step.pt", write("1"))
    assert hash_files(tmp_path) == {"sub/a": compute_file_hash(tmp_path / "sub" / "a")}


@pytest.mark.parametrize("left", ["a folder with a file", "a file", "a link", "nothing"])
def test_an_output_folder_is_empty_whatever_was_left_at_its_place(tmp_path: Path, left: str) -> None:
    place, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("kept")
    if left == "a folder with a file":
        place.mkdir()
        (place / "old").write_text("old")
    elif left == "a file":
        place.write_text("old")
    elif left == "a link":
        place.symlink_to(other)
    assert create_empty_folder(place) == place
    assert place.is_dir()
    assert list(place.iterdir()) == []
    assert (other / "mine").read_text() == "kept"


def test_a_carriage_return_ends_no_row_of_a_csv_file(tmp_path: Path) -> None:
    rows = pd.DataFrame({"model": ["m\r", "a\nb", "m"], "n": ["1", "2", "3"]})
    write_csv(tmp_path / "file.csv", rows)
    with (tmp_path / "file.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == rows.to_dict("records")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "file.csv", dtype=str), rows)
    assert [row for _, row in iter_csv_rows(tmp_path / "file.csv")] == rows.to_dict("records")


@pytest.mark.parametrize(
    ("write", "value", "content"),
    [
        (write_text, "é\n", "é\n"),
        (write_json, {"a": [1]}, '{\n  "a": [\n    1\n  ]\n}\n'),
        (write_csv, pd.DataFrame({"a": [1], "b": ["é"]}), "a,b\n1,é\n"),
    ],
)
def test_a_text_table_or_value_is_written_whole_and_through_no_link(write, value, content, tmp_path) -> None:
    write(tmp_path / "file", value)
    assert (tmp_path / "file").read_text(encoding="utf-8") == content
    (tmp_path / "others").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "others")
    with pytest.raises(ConfigError, match="link' is a link"):
        write(tmp_path / "link", value)
    assert (tmp_path / "others").read_text() == "kept"
