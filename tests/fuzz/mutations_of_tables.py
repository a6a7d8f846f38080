"""Mutations of Parquet tables and of pictures."""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

Draw = Callable[[st.SearchStrategy[Any]], Any]
TYPES = (
    pa.string(),
    pa.large_string(),
    pa.int64(),
    pa.int8(),
    pa.float64(),
    pa.float32(),
    pa.bool_(),
    pa.binary(),
    pa.null(),
)
ADDED = "extra"  # a column that no reader knows
NUMBERS = (math.inf, -math.inf, math.nan, -1.0, 0.0, 2.5, 1e308, 2.0**60)
WORDS = (
    "", " ", "\0", "\x1b[2J", "\u202e", "../secret.png", "@ABSOLUTE@", "9" * 5000, "test", "<b>x</b>", "A, B", "é", "\n", "nan",
)  # fmt: skip


def mutate_parquet(draw: Draw, data: bytes) -> bytes:
    """Change columns, types, rows or cells of a table; a broken file only gets other bytes."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return data[::-1]
    out = io.BytesIO()
    try:
        pq.write_table(_changed(draw, table), out)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):  # no such table can be written
        return data[: len(data) // 2]
    return out.getvalue()


def _changed(draw: Draw, table: pa.Table) -> pa.Table:
    names = table.column_names
    if not names:
        return pa.table({"x": [1]})
    at = draw(st.integers(0, len(names) - 1))
    column = table.column(at)
    kind = draw(st.sampled_from((
        "drop", "retype", "retype", "nulls", "null", "cell", "cell", "cell", "rows twice", "no rows", "order", "extra", "name", "name twice",
        "nested", "dictionary", "one row", "no columns",
    )))  # fmt: skip
    if kind == "drop":
        return table.remove_column(at)
    if kind == "retype":
        new = draw(st.sampled_from(TYPES))
        return table.set_column(at, names[at], _cast(column, new))
    if kind == "nulls":
        return table.set_column(at, names[at], pa.nulls(len(table), column.type))
    if kind in ("null", "cell"):
        values = column.to_pylist()
        if values:
            row = draw(st.integers(0, len(values) - 1))
            values[row] = None if kind == "null" else _odd(draw, values[row], column.type)
        return table.set_column(at, names[at], pa.array(values, column.type))
    if kind == "rows twice":
        return pa.concat_tables([table, table.slice(0, draw(st.integers(0, len(table))))])
    if kind == "no rows":
        return table.slice(0, 0)
    if kind == "one row":
        return table.slice(draw(st.integers(0, len(table))), 1)
    if kind == "order":
        return table.select(draw(st.permutations(names)))
    if kind == "extra":
        return table.append_column(ADDED, pa.array(range(len(table))))
    if kind in ("name", "name twice"):
        new = (
            names[draw(st.integers(0, len(names) - 1))]
            if kind == "name twice"
            else draw(st.sampled_from(WORDS))
        )
        return table.rename_columns([*names[:at], new, *names[at + 1 :]])
    if kind == "nested":
        return table.set_column(
            at, names[at], pa.array([[v] for v in column.to_pylist()], pa.list_(column.type))
        )
    if kind == "dictionary":
        return table.set_column(
            at, names[at], column.dictionary_encode() if not pa.types.is_nested(column.type) else column
        )
    return table.select([])


def _cast(column: Any, new: pa.DataType) -> Any:
    if new == pa.null():
        return pa.nulls(len(column))
    try:
        return column.cast(new, safe=False)
    except pa.ArrowException:
        texts = [str(value) for value in column.to_pylist()]
        return (
            pa.array(range(len(column)), pa.int64()).cast(new)
            if new not in (pa.string(), pa.large_string(), pa.binary())
            else pa.array(texts, new)
        )


def _odd(draw: Draw, old: Any, kind: pa.DataType) -> Any:
    """Return an odd value of a column's type."""
    if pa.types.is_floating(kind):
        return draw(st.sampled_from(NUMBERS))
    if pa.types.is_integer(kind):
        return draw(st.sampled_from((-1, 0, 10, 2**62, -(2**62))))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return draw(st.sampled_from((*WORDS, f"{old}, and more")))
    if pa.types.is_boolean(kind):
        return not old
    if pa.types.is_list(kind):
        return draw(st.sampled_from(([], [None], ["x"], (old or []) * 2, [""])))
    if isinstance(old, dict):
        empty = draw(st.sampled_from((None, b"", b"x", b"%!PS-Adobe-3.0 EPSF-3.0\n")))
        return {**old, "bytes": empty} if draw(st.booleans()) else {**old, "path": "../secret.png"}
    return None


def _saved(image: Image.Image, kind: str, **more: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


def _bomb(width: int, height: int) -> bytes:
    """A PNG of black pixels, one bit each, that is small as a file."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compressobj(9)
    line = b"\0" * ((width + 7) // 8 + 1)
    packed = (
        b"".join(rows.compress(line * min(1000, height - n)) for n in range(0, height, 1000)) + rows.flush()
    )
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


def mutate_image(draw: Draw, data: bytes) -> bytes:
    """Save the picture in another mode or format, cut it, or put another kind of file in its place."""
    try:
        with Image.open(io.BytesIO(data)) as opened:
            image = opened.convert("RGB")
        return _redrawn(draw, image, data)
    except Exception:  # noqa: BLE001 Pillow raises many kinds on a broken picture
        return data[: len(data) // 2]  # it is no picture any more


def _redrawn(draw: Draw, image: Image.Image, data: bytes) -> bytes:
    kind = draw(
        st.sampled_from(
            (
                "mode",
                "mode",
                "format",
                "cut",
                "cut",
                "eps",
                "bomb",
                "bomb jpeg",
                "empty",
                "exif",
                "tall",
                "svg",
                "frames",
            )
        )
    )
    if kind == "mode":
        mode = draw(st.sampled_from(("L", "1", "P", "LA", "RGBA", "I;16", "I", "F", "CMYK")))
        image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
        return _saved(image, "TIFF" if mode in ("F", "I", "CMYK") else "PNG")
    if kind == "format":
        return _saved(
            image,
            draw(
                st.sampled_from(("GIF", "BMP", "WEBP", "TIFF", "PPM", "ICO", "PCX", "TGA", "PDF", "JPEG2000"))
            ),
        )
    if kind == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if kind == "exif":
        exif = Image.Exif()
        exif[0x0112] = draw(st.integers(0, 9))
        return _saved(image, "JPEG", exif=exif)
    if kind == "frames":
        return _saved(image, "GIF", save_all=True, append_images=[image.rotate(90)])
    if kind == "bomb jpeg":
        changed = bytearray(_saved(image, "JPEG"))
        at = changed.find(b"\xff\xc0")
        changed[at + 5 : at + 9] = b"\xff\xff\xff\xff"
        return bytes(changed)
    if kind == "bomb":
        return _bomb(*draw(st.sampled_from(((20_000, 20_000), (9000, 9000), (100_000, 10)))))
    if kind == "tall":
        return _saved(image.resize((1, draw(st.sampled_from((1, 3000))))), "PNG")
    return {"eps": EPS, "svg": SVG}.get(kind, b"")
