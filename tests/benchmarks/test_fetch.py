"""Files of a benchmark are fetched once, continued after an interruption, and refused if their content is another."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from file_server import CONTENT, Source, serve

from caramel.benchmarks.fetch import DOWNLOADS, File, fetch_file
from caramel.errors import ConfigError, DataError, ResourceError
from caramel.registry import BENCHMARKS

PUBLIC = os.environ.get("CARAMEL_DATA")


def known(content: bytes = CONTENT) -> File:
    return File("a.json", len(content), hashlib.sha256(content).hexdigest())


def test_an_interrupted_file_continues_where_it_ended(tmp_path: Path) -> None:
    with serve(Source(cut=3000, cuts=2)) as source:
        got = fetch_file(known(), source.url, tmp_path, pause=0)
        assert source.asked == [None, "bytes=3000-", "bytes=6000-"]
        assert got.path.read_bytes() == CONTENT
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
        assert fetch_file(known(), source.url, tmp_path).is_new is False
        assert len(source.asked) == 3, "what is there is not asked for again"
        assert set(source.logins) == {None}


def test_the_next_call_continues_and_a_server_without_ranges_begins_again(tmp_path: Path) -> None:
    with serve(Source(cut=1000, cuts=99)) as source:
        with pytest.raises(ResourceError, match=r"The same command continues"):
            fetch_file(known(), source.url, tmp_path, pause=0)
        source.cuts = 0
        assert fetch_file(known(), source.url, tmp_path, pause=0).path.read_bytes() == CONTENT
        assert source.asked[-1] == "bytes=5000-"
    other = tmp_path / "other"
    with serve(Source(cut=1000, cuts=1, ranges=False)) as source:
        assert fetch_file(known(), source.url, other, pause=0).path.read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"x" * 10**6])
def test_another_content_is_refused_and_removed(content: bytes, tmp_path: Path) -> None:
    with serve(Source(content)) as source, pytest.raises(DataError, match="another content"):
        fetch_file(known(), source.url, tmp_path, pause=0)
    assert not (tmp_path / "a.json").exists()
    assert not [*tmp_path.iterdir()]


def test_a_partial_file_of_a_longer_content_does_not_stay_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".a.json.part").write_bytes(b"x" * 200)
    with serve(Source(b"y" * 100)) as source, pytest.raises(ResourceError, match="416"):
        fetch_file(known(), source.url, tmp_path, pause=0)
    assert not [*tmp_path.iterdir()]


def test_a_file_of_that_name_or_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="Move it away"):
        fetch_file(known(), "http://127.0.0.1:1", tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="is a link"):
        fetch_file(known(), "http://127.0.0.1:1", tmp_path / "link")


def test_a_missing_file_and_an_unreachable_server_are_one_error_each(tmp_path: Path) -> None:
    with serve(Source(status=404)) as source:
        with pytest.raises(ResourceError, match="404"):
            fetch_file(known(), source.url, tmp_path, pause=0)
        assert len(source.asked) == 1, "asking again changes nothing"
    with pytest.raises(ResourceError, match="could not be fetched"):
        fetch_file(known(), "http://127.0.0.1:1", tmp_path, pause=0)


def test_every_download_is_of_a_benchmark() -> None:
    assert set(DOWNLOADS) <= set(BENCHMARKS)


@pytest.mark.skipif(PUBLIC is None, reason="CARAMEL_DATA names no folder with the public files")
@pytest.mark.parametrize("name", DOWNLOADS)
def test_the_known_hashes_are_those_of_the_public_files(name: str) -> None:
    assert PUBLIC is not None
    for file in DOWNLOADS[name].files:
        folder = "released/arijitray1993+COLA/data" if name == "cola" else name
        content = (Path(PUBLIC) / folder / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
