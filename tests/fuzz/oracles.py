"""What must hold of an input that was taken: each function yields what is silently wrong."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import pyarrow.parquet as pq
from harness import Oracle, Seen
from independent import (
    DATA,
    Unreadable,
    inputs,
    leaves,
    names_in,
    rows_of,
    strings_in,
)
from PIL import Image

FORMATS = {"JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "PPM"}


def refused_what_is_broken(seen: Seen) -> Iterator[str]:
    """A file that breaks the rules of its format is not taken."""
    if seen.code == 0:
        for name, data in inputs(seen, DATA):
            try:
                rows_of(name, data)
            except Unreadable as error:
                yield f"took a file although {error} (.{name.rpartition('.')[2]})"


def whole_captions(prefix: str = "", factor: int | None = None, out: str = "out/rows.parquet") -> Oracle:
    """Return an oracle: each caption that was taken stands in the input, whole, and no row is lost or added.

    Args:
        prefix: that the reader puts before captions.
        factor: rows taken for each row of the input; None: not looked at.
        out: table of what was taken.
    """

    def captions(seen: Seen) -> Iterator[str]:
        if seen.code or not (seen.box / out).is_file():
            return
        taken = pq.read_table(seen.box / out).to_pylist()
        try:
            rows = [row for name, data in inputs(seen, DATA) for row in rows_of(name, data)]
        except Unreadable:
            return  # another oracle's
        known = set(strings_in(rows))
        for row in taken:
            for column in ("caption", "caption2", "negative_caption"):
                text = row.get(column)
                if text and str(text).removeprefix(prefix) not in known and text not in known:
                    yield f"{column} is not in the file, whole"
                    return
        if factor is not None and len(taken) != factor * len(rows):
            yield f"took {len(taken)} of {len(rows)} rows"

    return captions


def same_pairs(columns: tuple[str, str] = ("caption", "negative_caption")) -> Oracle:
    """Return an oracle: the couples of caption and negative are those of the rows, each as often."""

    def couples(seen: Seen) -> Iterator[str]:
        out = seen.box / "out/rows.parquet"
        if seen.code or not out.is_file():
            return
        try:
            rows = [row for name, data in inputs(seen, DATA) for row in rows_of(name, data)]
        except Unreadable:
            return
        wanted = Counter(tuple(row.get(c) or "" for c in columns) for row in rows if isinstance(row, dict))
        taken = Counter(
            (row["caption"] or "", row["negative_caption"] or "") for row in pq.read_table(out).to_pylist()
        )
        if wanted != taken:
            yield "other couples than the file's"

    return couples


def stays_inside(*fields: str, first: bool = False) -> Oracle:
    """Return an oracle: a file name that leaves its folder is refused.

    Args:
        fields: that hold names.
        first: the name is the first entry of a row that is a list.
    """

    def inside(seen: Seen) -> Iterator[str]:
        if seen.code:
            return
        for name, data in inputs(seen, DATA):
            try:
                rows = rows_of(name, data)
            except Unreadable:
                return
            found = list(names_in(rows, fields))
            if first:
                found += [row[0] for row in rows if isinstance(row, list) and row and isinstance(row[0], str)]
            for text in found:
                if leaves(text):
                    yield f"took a name that leaves its folder ({'absolute' if text.startswith('/') else 'by ..'})"
                    return

    return inside


def pictures_decode(seen: Seen) -> Iterator[str]:
    """Every picture of an accepted input decodes, and is of a kind that data sets have.

    Where a table changed, or is gone, rows need no longer name all pictures, and one that none names is not opened.
    """
    if seen.code or any(seen.files.get(n) != seen.valid[n] for n in seen.valid if not _is_picture(n)):
        return
    for name, data in seen.files.items():
        if not _is_picture(name) or data == seen.valid.get(name):
            continue
        try:
            with Image.open(io.BytesIO(data)) as image:
                kind = str(image.format)
                image.load()
        except Exception:  # noqa: BLE001 Pillow raises many kinds on a broken picture
            yield "took a picture that does not decode"
        else:
            if kind not in FORMATS:
                yield f"took a picture of format {kind}"


def _is_picture(name: str) -> bool:
    return name.startswith("data/") and PurePosixPath(name).suffix in (".jpg", ".jpeg", ".png")
