"""Check fields of data rows before use: texts, numbers, lists and file names.

``where`` is the file and row for messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from caramel.errors import DataError

LONGEST_NAME = 240  # bytes of one part of a file name: file systems allow 255, and a suffix may be added
LONGEST_PATH = 1000  # bytes of the whole path


def read_text_field(row: Any, field: str, where: str) -> str:
    """Return a field of a row that must be text and not only white space.

    Raises:
        DataError: the row is not an object, or the field is missing, not text, empty, or not Unicode.
    """
    value = _read_field(row, field, where)
    if not isinstance(value, str) or not value.strip():
        raise DataError(
            f"{where}: field {field!r} must be text that is not empty, not {format_value(value)}."
        )
    return validate_text(value, field, where)


def read_optional_text(row: Any, field: str, where: str) -> str | None:
    """Return a field of a row that must be text or None.

    It may be empty; errors as in ``read_text_field``.
    """
    value = _read_field(row, field, where)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: field {field!r} must be text, not {format_value(value)}.")
    return value if value is None else validate_text(value, field, where)


def validate_text(value: str, field: str, where: str) -> str:
    """Return a text, which may be empty.

    Raises:
        DataError: the text contains half a surrogate pair, which is not Unicode, or a NUL.
    """
    if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise DataError(
            f"{where}: field {field!r} contains half a surrogate pair, which is not Unicode text: {format_value(value)}."
        )
    if "\0" in value:
        raise DataError(f"{where}: field {field!r} contains a NUL: {format_value(value)}.")
    return value


def read_number_field(row: Any, field: str, where: str) -> int:
    """Return a field of a row that must be a whole number.

    Raises:
        DataError: the row is not an object, or the field is missing or not a whole number.
    """
    value = _read_field(row, field, where)
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(f"{where}: field {field!r} must be a whole number, not {format_value(value)}.")
    return value


def read_list_field(row: Any, field: str, where: str) -> list[Any]:
    """Return a field of a row that must be a list.

    Raises:
        DataError: the row is not an object, or the field is missing or not a list.
    """
    value = _read_field(row, field, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: field {field!r} must be a list, not {format_value(value)}.")
    return value


def _read_field(row: Any, field: str, where: str) -> Any:
    if not isinstance(row, Mapping):
        raise DataError(f"{where} must be an object with fields, not {format_value(row)}.")
    if field not in row:
        raise DataError(f"{where} has no field {field!r}; it has {format_value(sorted(map(str, row)))}.")
    return row[field]


def read_name_field(row: Any, field: str, where: str) -> str:
    """Return a field of a row that must name a file inside a folder; see ``is_inside_folder``.

    Raises:
        DataError: the field is not such a name; errors as in ``read_text_field``.
    """
    return validate_name(read_text_field(row, field, where), field, where)


def validate_name(name: str, field: str, where: str) -> str:
    """Return the name of a file inside a folder.

    Raises:
        DataError: the name leads outside the folder or is too long.
    """
    if not is_inside_folder(name):
        raise DataError(
            f"{where}: field {field!r} must name a file inside its folder, without an absolute path or "
            f"'..', of at most {LONGEST_NAME} bytes, not {format_value(name)}. Nothing outside the folder is read."
        )
    return name


def is_inside_folder(name: str) -> bool:
    """Return whether a name, joined to a folder, is a file inside it: on this system and on Windows.

    A name may contain a colon, as in ``n:1``: listed folders have such names. Links are not checked, because
    the folder's owner put them there.
    """
    try:
        parts = [part.encode() for part in PurePosixPath(name).parts]
        long = len(name.encode()) > LONGEST_PATH or any(len(part) > LONGEST_NAME for part in parts)
    except UnicodeEncodeError:
        return False
    windows = PureWindowsPath(name)
    outside = bool(windows.root) or ".." in windows.parts or "\0" in name
    return bool(parts) and not outside and not long


def is_plain_path(path: str) -> bool:
    """Return whether a path is a file inside a folder, as in ``is_inside_folder``, and in its canonical form.

    ``a//b``, ``./a``, ``a/.`` and ``a/`` are other forms of a path. In such a form a
    path would not be recognised in a comparison with known paths.
    """
    return (
        path.isprintable()
        and "\\" not in path
        and is_inside_folder(path)
        and str(PurePosixPath(path)) == path
    )


def format_value(value: object) -> str:
    """Return a value for a message: ASCII, cut at 80 characters."""
    try:
        text = ascii(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of more than 4,300 digits
        return f"<a {type(value).__name__} that is too large to show>"
    return text if len(text) <= 80 else text[:77] + "..."
