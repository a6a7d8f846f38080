from typing import Any

import pytest

from caramel.errors import DataError
from caramel.io.validators import (
    format_value,
    is_inside_folder,
    read_list_field,
    read_name_field,
    read_number_field,
    read_optional_text,
    read_text_field,
)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "here must be an object with fields, not []"),
        ({}, "here has no field 'a'; it has []"),
        ({"a": None}, "field 'a' must be text that is not empty, not None"),
        ({"a": " \n"}, "field 'a' must be text that is not empty"),
        ({"a": 5}, "field 'a' must be text that is not empty, not 5"),
        ({"a": "x\ud800"}, "half a surrogate pair"),
        ({"a": "x\0y"}, "contains a NUL"),
    ],
)
def test_a_field_that_is_no_text_is_an_error(row: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_text_field(row, "a", "here")
    assert message in str(error.value)


def test_a_text_may_be_missing_where_that_is_allowed_and_nothing_else() -> None:
    assert [read_optional_text({"a": value}, "a", "here") for value in (None, "", "x")] == [None, "", "x"]
    for value in (5, ["x"], "\ud800", "\0"):
        with pytest.raises(DataError, match="here: field 'a'"):
            read_optional_text({"a": value}, "a", "here")


def test_whole_numbers_and_lists_are_nothing_else() -> None:
    assert read_number_field({"a": 5}, "a", "here") == 5
    assert read_list_field({"a": [5]}, "a", "here") == [5]
    for value in (True, 1.0, "5", None):
        with pytest.raises(DataError, match="field 'a' must be a whole number"):
            read_number_field({"a": value}, "a", "here")
        with pytest.raises(DataError, match="field 'a' must be a list"):
            read_list_field({"a": value}, "a", "here")


OUTSIDE = (
    "/etc/passwd",
    "../secret.png",
    "a/../../secret.png",
    "a/..",
    "..",
    ".",
    "",
    "/",
    "//host/x.png",
    "a\0.png",
    "..\\secret.png",
    "a\\..\\..\\secret.png",
    "C:\\secret.png",
    "C:/secret.png",
    "\\secret.png",
    "\\\\host\\share\\x.png",
    "\ud800.png",
    "x" * 241,
    "é" * 121,
    "x/" * 600,
)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leaves_its_folder_is_an_error(name: str) -> None:
    assert not is_inside_folder(name)
    with pytest.raises(DataError, match="here: field 'a'"):
        read_name_field({"a": name}, "a", "here")


@pytest.mark.parametrize(
    "name",
    ["1.jpg", "a/b c/1.jpg", "./1.jpg", "..1.jpg", "a..b", "é.png", "ab:c.png", "n:1/1.jpg", "x" * 240],
)
def test_a_name_inside_of_a_folder_is_taken_as_it_is(name: str) -> None:
    assert read_name_field({"a": name}, "a", "here") == name


def test_any_value_can_be_shown_in_a_message() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert format_value(deep) == "<a list that is too large to show>"
    assert format_value(10**5000) == "<a int that is too large to show>"
    assert format_value("é") == "'\\xe9'"
    assert len(format_value("x" * 500)) == 80
    while deep:  # taken apart level by level: freed at once, it would exhaust the stack of some versions
        deep = deep.pop()
