import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.errors import DataError, ResourceError
from caramel.io.readers import (
    insert_commas,
    iter_csv_rows,
    iter_parquet_rows,
    load_json,
    open_parquet,
    parse_literal,
    read_json_rows,
    read_text,
)
from caramel.io.zip_archive import ZippedFile

HEADER = "filename,caption\n"


def put(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_csv_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    text = '\ufefffilename,caption\r\n1.png,"A dog, brown\r\nand ""big"""\r\n\r\n2.png,\r\n'
    found = list(iter_csv_rows(put(tmp_path, "a.csv", text), ["caption"]))
    assert [row for _, row in found] == [
        {"filename": "1.png", "caption": 'A dog, brown\r\nand "big"'},
        {"filename": "2.png", "caption": ""},
    ]
    assert [where.partition(".csv', ")[2] for where, _ in found] == ["row 1 (line 3)", "row 2 (line 5)"]


@pytest.mark.parametrize("row_end", ["\n", "\r", "\r\n"])
def test_line_ends_in_a_field_stay_whatever_ends_the_rows(tmp_path: Path, row_end: str) -> None:
    fields = ["x\ry", "p\r\nq", "m\nn", "last\r"]
    text = row_end.join(["caption", *(f'"{field}"' for field in fields)])
    path = put(tmp_path, "a.csv", text)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.csv")
    for file in (path, ZippedFile(tmp_path / "a.zip", "a.csv")):
        assert [row["caption"] for _, row in iter_csv_rows(file)] == fields


def test_the_index_that_pandas_writes_is_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", ",caption\n0,A dog\n")
    assert [row for _, row in iter_csv_rows(path)] == [{"caption": "A dog"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEADER + "1.png,A dog\n2.png,A dog, brown and big\n",
            "row 2 (line 3) has 3 fields, but the header has 2",
        ),
        (HEADER + "1.png\n", "row 1 (line 2) has 1 fields, but the header has 2"),
        (HEADER + "   \n", "row 1 (line 2) has 1 fields"),
        ("caption,caption\na,b\n", "has duplicate columns ['caption']"),
        ("filename,caption,\n1.png,a,\n", "column 3 of the header has no name"),
        ("filename,caption, \n1.png,a,b\n", "column 3 of the header has no name"),
        ("filename,text\n1.png,a\n", "lacks the columns ['caption']; it has ['filename', 'text']"),
        ("", "is empty: its first line must name the columns"),
        ("\n\n", "is empty"),
        (HEADER + '1.png,"a\n', "is not valid CSV: unexpected end of data"),
        (HEADER + '1.png,"a" b\n', "is not valid CSV"),
        (HEADER + "1.png," + "a" * 200_000, "Look there for a quote that is not closed"),
        (HEADER + "1.png,a\0b\n", "contains a NUL"),
        (HEADER.encode("utf-16"), "Save it as UTF-8"),
        (HEADER.encode() + b"1.png,caf\xe9\n", "cannot be read as UTF-8 text"),
    ],
)
def test_csv_that_could_be_misread_is_an_error_that_names_the_row(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    path = put(tmp_path, "a.csv", text)
    with pytest.raises(DataError) as error:
        list(iter_csv_rows(path, ["caption"]))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_csv_rows_come_as_they_are_asked_for(tmp_path: Path) -> None:
    rows = iter_csv_rows(put(tmp_path, "a.csv", HEADER + "1.png,a\n1.png\n"))
    assert next(rows)[1] == {"filename": "1.png", "caption": "a"}
    with pytest.raises(DataError, match="row 2"):
        next(rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[1,", "Expecting value"),
        ('{"a": 1, "b": 2, "a": 3}', "duplicate keys ['a']"),
        ('[{"0": {"a": 1, "a": 3}}]', "duplicate keys ['a']"),
        ("[Infinity]", "Infinity is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("[1e999]", "the number '1e999' is too large"),
        ("1" * 5000, "4300"),
        ("[" * 100_000, "recursion"),
        ('{"a":' * 100_000, "recursion"),
        ('"a\nb"', "control character"),
    ],
)
def test_what_is_no_strict_json_is_an_error(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        load_json(text, "the file")
    assert message in str(error.value)
    assert str(error.value).startswith("the file is not valid JSON")


def test_a_json_file_of_many_equal_keys_is_refused_at_once(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", "{" + ",".join(f'"{n % 50_000}": 0' for n in range(100_000)) + "}")
    with pytest.raises(DataError, match="duplicate keys"):
        read_json_rows(path)


def test_rows_of_json_and_json_lines_are_named_by_file_and_place(tmp_path: Path) -> None:
    lines = put(tmp_path, "a.jsonl", '\ufeff{"a": 1}\r\n\n"\u2028"\n')
    whole = put(tmp_path, "a.json", json.dumps({"k": 1}))
    assert read_json_rows(lines) == [
        (f"{str(lines)!r}, line 1", {"a": 1}),
        (f"{str(lines)!r}, line 3", "\u2028"),
    ]
    assert read_json_rows(whole) == [(f"{str(whole)!r}, row 'k'", 1)]


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    for read in (
        read_text,
        read_json_rows,
        lambda path: list(iter_csv_rows(path)),
        lambda p: list(iter_parquet_rows(p, [])),
    ):
        with pytest.raises(DataError, match=str(tmp_path)):
            read(tmp_path)


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    for read in (read_text, lambda path: list(iter_parquet_rows(path, []))):
        with pytest.raises(DataError, match=r"gone' cannot be read: No such file or directory\.$"):
            read(tmp_path / "gone")


def test_a_parquet_file_that_does_not_fit_into_memory_is_not_called_damaged(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ResourceError, match="does not fit into memory"), open_parquet(tmp_path / "a.parquet"):
        raise pa.ArrowMemoryError("malloc of size 64 failed")


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "[" * 5000,
        "-" * 100_000 + "1",
        "{[]: 1}",
        "{[]}",
        "'\0'",
        "1" * 5000,
        "1+" * 100_000 + "1",
        "['a'",
        "",
    ],
)
def test_what_is_no_literal_is_an_error(text: str) -> None:
    with pytest.raises(DataError, match=r"the row: .* is not a Python literal"):
        parse_literal(text, "the row")


@pytest.mark.parametrize(
    "items", [["a", "b"], ["it's", 'say "a"'], ["a b", "c\nd", "both ' and \""], ["x" * 80] * 3]
)
def test_texts_that_numpy_printed_are_not_joined_into_one(items: list[str]) -> None:
    text = str(np.array(items))
    assert parse_literal(insert_commas(text), "the row") == items
    with pytest.raises(DataError, match=r"the row: the items of .* are not separated by commas"):
        parse_literal(text, "the row")


@pytest.mark.parametrize(
    "text", ["['a', 'b']", "['a' 'b', 'c']", "['a']", "[]", "['a' ['b']]", r"['a\' 'b']"]
)
def test_other_lists_are_not_taken_for_numpys(text: str) -> None:
    assert insert_commas(text) == text


def test_a_literal_is_read_without_a_warning() -> None:
    assert parse_literal(r"['a \d', 'b']", "the row") == ["a \\d", "b"]


def test_rows_of_a_parquet_file_have_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(3), "b": ["x", None, "z"]}), path)
    found = list(iter_parquet_rows(path, ["b"]))
    assert found == [(f"{str(path)!r}, row {n}", {"b": value}) for n, value in enumerate(["x", None, "z"])]
    with pytest.raises(DataError, match=r"lacks the columns \['c'\]"):
        list(iter_parquet_rows(path, ["c"]))


def damaged(path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    start = int(place * len(data))
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path: Path, place: float) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"b": [f"text {n}" for n in range(500)]}), path, compression="snappy")
    damaged(path, place)
    rows, message = [], ""
    try:
        rows = list(iter_parquet_rows(path, ["b"]))
    except DataError as error:
        message = str(error)
    assert str(path) in message if message else len(rows) == 500


def test_a_parquet_text_that_is_no_unicode_is_an_error(tmp_path: Path) -> None:
    ends = pa.array([0, 2], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(1, ends, pa.py_buffer(b"\xff\xfe"))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"b": text}), path)
    with pytest.raises(DataError, match=r"is not a Parquet file: .*utf-8"):
        list(iter_parquet_rows(path, ["b"]))


def test_a_parquet_column_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(DataError, match=r"duplicate columns \['a'\]"):
        list(iter_parquet_rows(path, ["a"]))


def test_nan_in_json_is_a_missing_value(tmp_path: Path) -> None:
    path = put(tmp_path, "a.json", json.dumps([{"caption": "a", "caption2": math.nan, "s": [1.0, math.nan]}]))
    assert [row for _, row in read_json_rows(path)] == [{"caption": "a", "caption2": None, "s": [1.0, None]}]


def test_numbers_stay_as_they_are() -> None:
    found: Any = load_json("[1, 2.5, 1e3, -0.0, 123456789012345678901234567890]", "x")
    assert found == [1, 2.5, 1000.0, -0.0, 123456789012345678901234567890]
    assert math.copysign(1, found[3]) == -1
