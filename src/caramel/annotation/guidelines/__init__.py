"""Instructions for annotators: one text per kind of task, and the hash that names its version."""

from __future__ import annotations

import hashlib
from pathlib import Path

from caramel.errors import DataError
from caramel.io.readers import read_text

HASH_DIGITS = 16


def read_guideline(task: str, path: Path | None = None) -> str:
    """Return the instructions of a kind of task, or those of a file.

    The first paragraph is their title.

    Raises:
        DataError: the file cannot be read, or is empty.
    """
    text = read_text(path or Path(__file__).with_name(f"{task}.txt")).strip()
    if not text:
        raise DataError(f"The instructions in {str(path)!r} are empty. Write what annotators shall do.")
    return text


def hash_guideline(text: str) -> str:
    """Return the version of the instructions: the first 16 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
