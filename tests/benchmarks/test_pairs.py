"""The images of Parquet files in Winoground's form: what a column of images may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.benchmarks.pairs import list_image_names, read_embedded_rows
from caramel.errors import DataError


def write(path: Path, cells: list[Any], kind: pa.DataType) -> None:
    columns = {"id": pa.array(range(len(cells))), "a": pa.array(cells, kind), "b": pa.array(cells, kind)}
    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (pa.list_(pa.string()), ["x.png"]),
        (pa.int64(), 1),
        (pa.binary(), b"x.png"),
        (pa.struct([("x", pa.string())]), {"x": "y"}),
        (pa.bool_(), True),
    ],
)
def test_a_path_of_an_image_that_is_no_text_is_an_error_that_names_file_and_column(
    kind: pa.DataType, path: Any, tmp_path: Path
) -> None:
    struct = pa.struct([("bytes", pa.binary()), ("path", kind)])
    write(tmp_path / "test-0.parquet", [{"bytes": b"1", "path": path}], struct)
    with pytest.raises(
        DataError, match=r"test-0.parquet': column 'a' has a field 'path' of type .*must be text"
    ):
        read_embedded_rows(tmp_path, ("a", "b"), ("id",), "")


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.binary()),
        pa.string(),
        pa.float32(),
        pa.struct([("bytes", pa.list_(pa.binary()))]),
        pa.struct([("bytes", pa.struct([("bytes", pa.binary())]))]),
        pa.struct([("path", pa.string())]),
        pa.null(),
    ],
)
def test_a_column_that_cannot_hold_images_is_named(kind: pa.DataType, tmp_path: Path) -> None:
    write(tmp_path / "test-0.parquet", [None], kind)
    with pytest.raises(DataError, match="column 'a' must hold encoded images"):
        read_embedded_rows(tmp_path, ("a", "b"), ("id",), "")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.null()])
def test_images_without_paths_are_named_by_their_content(kind: pa.DataType, tmp_path: Path) -> None:
    struct = pa.struct([("bytes", pa.large_binary()), ("path", kind)])
    cells = [
        {"bytes": b"1", "path": None},
        {"bytes": b"1", "path": None},
        {"bytes": None, "path": None},
        None,
    ]
    write(tmp_path / "test-0.parquet", cells, struct)
    first, same, lacking, none = list_image_names([tmp_path / "test-0.parquet"], "a")
    assert first == same
    assert (lacking, none) == ("row-2", "row-3")
    assert len(read_embedded_rows(tmp_path, ("a", "b"), ("id",), "")) == len(cells)
