"""An image comes back as it was added, and others read the shard; equal images give equal bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from stored_images import COLUMNS, noise, sharded

from caramel.io import image_shards
from caramel.io.image_shards import find_value_offsets
from caramel.io.image_store import ImageStore

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def looks_like_values(values: list[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes that hold a value of the list behind its length, or a length alone."""
    whole = st.sampled_from(values).map(lambda v: struct.pack("<I", len(v)) + v)
    lengths = st.integers(0, 70).map(lambda n: struct.pack("<I", n))
    return st.lists(whole | lengths | st.binary(max_size=5), max_size=4).map(b"".join)


VALUES = st.lists(
    st.binary(max_size=80) | st.just(b"") | st.just(b"\0" * 9), min_size=1, max_size=12
).flatmap(lambda some: st.lists(looks_like_values(some) | st.sampled_from(some), min_size=1, max_size=12))


def opened(folder: Path, values: Sequence[bytes]) -> ImageStore:
    return ImageStore(*sharded(folder, values))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of some hundred bytes, in groups of three."""
    monkeypatch.setattr(image_shards, "GROUP", 3)
    monkeypatch.setattr(image_shards, "SHARD_BYTES", 400)


@quick
@given(values=VALUES)
def test_any_bytes_come_back_by_their_name(tmp_path: Path, small: None, values: list[bytes]) -> None:
    pictures = opened(tmp_path, values)
    assert list(pictures) == [f"i{n}" for n in range(len(values))]
    assert [pictures[name] for name in pictures] == values
    assert [pictures.read_verified(name) for name in reversed(list(pictures))] == values[::-1]


@quick
@given(values=VALUES, gaps=st.lists(st.binary(max_size=20), min_size=13, max_size=13))
def test_values_are_found_between_any_page_headers(values: list[bytes], gaps: list[bytes]) -> None:
    """A gap may look like a value: what is found is a length and the value in any case."""
    chunk = b"".join(gap + struct.pack("<I", len(v)) + v for gap, v in zip(gaps, values, strict=False))
    found = find_value_offsets(chunk, values)
    for at, value in zip(found, values, strict=True):
        assert chunk[at - 4 : at + len(value)] == struct.pack("<I", len(value)) + value
    assert found == sorted(found)


def test_values_of_many_pages_are_found(tmp_path: Path) -> None:
    values = [os.urandom(200_000 + n) for n in range(30)]  # a page of Parquet holds a megabyte
    pictures = opened(tmp_path, values)
    assert [pictures[name] for name in pictures] == values


def test_equal_images_give_equal_bytes_and_what_lay_there_is_gone(tmp_path: Path, small: None) -> None:
    kept = []
    for count in (40, 20, 40):
        path, rows = sharded(tmp_path, noise(count))
        files = {p.name: p.read_bytes() for p in sorted((tmp_path / "images").iterdir())}
        kept.append((files, rows))
    assert kept[0][0] == kept[2][0] != kept[1][0]
    assert kept[0][1].equals(kept[2][1])
    assert len(kept[0][0]) > len(kept[1][0]) > 1
    assert sorted(kept[0][0]) == [f"{n:05}.parquet" for n in range(len(kept[0][0]))]
    assert path.parent == tmp_path


def test_the_index_says_where_each_file_stands_and_what_else_is_known(tmp_path: Path, small: None) -> None:
    values = noise(25)
    path, rows = sharded(tmp_path, values)
    assert list(rows.columns) == list(COLUMNS)
    for row, value in zip(rows.itertuples(), values, strict=True):
        whole = (path.parent / row.shard).read_bytes()
        assert whole[row.offset : row.offset + row.length] == value
        assert row.sha256 == hashlib.sha256(value).hexdigest()
    assert rows["split"].tolist() == ["test"] * 25
    assert rows["shard"].nunique() > 3


def test_there_is_a_shard_even_of_no_image(tmp_path: Path) -> None:
    path, rows = sharded(tmp_path, [])
    assert list(rows.columns) == list(COLUMNS)
    assert len(ImageStore(path, rows)) == 0
    assert pq.read_table(tmp_path / "images" / "00000.parquet").num_rows == 0


def test_a_writer_that_fails_leaves_no_half_of_a_shard(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sharded(tmp_path, failing())
    assert list((tmp_path / "images").iterdir()) == []


def test_a_shard_is_parquet_that_others_read(tmp_path: Path) -> None:
    values = noise(700)
    sharded(tmp_path, values)
    file = pq.ParquetFile(tmp_path / "images" / "00000.parquet")
    table = file.read()
    assert table["image_id"].to_pylist() == [f"i{n}" for n in range(700)]
    assert [cell["bytes"] for cell in table["image"].to_pylist()] == values
    assert [cell["path"] for cell in table["image"].to_pylist()][:2] == ["i0.png", "i1.png"]
    assert [file.metadata.row_group(n).num_rows for n in range(3)] == [256, 256, 188]
    schema = file.schema_arrow  # `datasets` takes a column for pictures where both say so
    assert schema.field("image") == pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"image_id": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}}


def test_the_library_datasets_gives_pictures(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    stream = io.BytesIO()
    Image.new("RGB", (5, 3), "red").save(stream, "PNG")
    sharded(tmp_path, [stream.getvalue()])
    files = str(tmp_path / "images" / "*.parquet")
    found = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "c"))
    assert found[0]["image"].size == (5, 3)
