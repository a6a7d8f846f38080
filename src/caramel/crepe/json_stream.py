"""Stream the items of a JSON list of any length: Visual Genome's files are lists of 700 MB on one line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from caramel.errors import DataError
from caramel.io.validators import format_value

CHUNK = 1 << 20  # bytes per read
LONGEST = 1 << 26  # characters of one item: the longest of Visual Genome has about 2 ** 18
_SPACE = " \t\n\r"


class _TextBuffer:
    """The unread part of a file's text; more is read when it is needed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.at = "", 0

    def read_more(self) -> bool:
        """Read at least as much text as is buffered; return whether there was any."""
        data = self._file.read(max(CHUNK, len(self.text) - self.at))
        self.text = self.text[self.at :] + self._decoder.decode(data, final=not data)
        self.at = 0
        return bool(data)

    def find_next_character(self) -> str:
        """Return the next character that is not white space; "" at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACE:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_more():
                return ""

    def read_value(self) -> Any:
        """Return the next value and advance past it; raise a ValueError if there is none."""
        decoder = json.JSONDecoder()
        while True:
            try:
                item, end = decoder.raw_decode(self.text, self.at)
            except ValueError:
                if len(self.text) - self.at > LONGEST or not self.read_more():
                    raise
                continue
            if end < len(self.text) or not self.read_more():  # a number at the end of the buffer may continue
                self.at = end
                return item


def iter_json_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (where, item) for a file that is one JSON list, lazily; only a few items are in memory.

    Raises:
        DataError: the file cannot be read, is not a list, is invalid or incomplete, or an item is too long.
    """
    number = 0
    try:
        with path.open("rb") as file:
            text = _TextBuffer(file)
            if text.find_next_character() != "[":
                raise DataError(
                    f"{str(path)!r} must be a JSON list, but begins with {format_value(text.text[:20])}."
                )
            text.at += 1
            while not (number == 0 and text.find_next_character() == "]"):
                text.find_next_character()
                yield f"{str(path)!r}, item {number}", text.read_value()
                number += 1
                character = text.find_next_character()
                text.at += 1
                if character == "]":
                    break
                if character != ",":
                    raise ValueError(f"expected a comma or a bracket, not {character!r}")
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise DataError(
            f"{str(path)!r}, item {number}: not valid JSON, or the file is cut off: "
            f"{format_value(str(error))}. Download it again."
        ) from error
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
