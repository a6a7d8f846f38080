"""Define the blocks of a report section; the template renders each."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from caramel.io.image_codec import decode_image

THUMBNAIL = 192  # pixels of the longer side; smaller images are kept unchanged
MISSING = "–"  # shown for a missing number
Mark = Literal["", "best", "good", "bad", "up", "down", "muted"]


@dataclass(frozen=True)
class Cell:
    """One cell: its text, a smaller second line, its mark, and its link."""

    text: str
    note: str = ""
    mark: Mark = ""
    link: str = ""


@dataclass(frozen=True)
class TableBlock:
    """A table; the first ``labels`` columns are text, the others numbers. ``folded``: initially closed."""

    block_type: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    labels: int = 1
    folded: bool = False


@dataclass(frozen=True)
class ThemedFigure:
    """One figure as PNG files for light and for dark pages, and its width in CSS pixels."""

    light: bytes
    dark: bytes
    width: int


@dataclass(frozen=True)
class FigureBlock:
    """A figure; ``name`` is its file name under ``plots/``."""

    block_type: ClassVar[str] = "figure"
    name: str
    picture: ThemedFigure
    caption: str
    alt: str


@dataclass(frozen=True)
class Thumbnail:
    """An image on a contact sheet: encoded file, a line of text, and its mark."""

    image: bytes
    text: str
    mark: Mark = ""
    name: str = ""


@dataclass(frozen=True)
class SheetRow:
    """Images that belong together, under a heading."""

    heading: str
    detail: str
    thumbs: Sequence[Thumbnail]


@dataclass(frozen=True)
class SheetBlock:
    """A contact sheet. ``layout``: rows under each other, or cards side by side."""

    block_type: ClassVar[str] = "sheet"
    caption: str
    rows: Sequence[SheetRow]
    layout: Literal["rows", "cards"] = "rows"
    note: str = ""


@dataclass(frozen=True)
class NoteBlock:
    """A paragraph; ``good`` marks good news."""

    block_type: ClassVar[str] = "note"
    text: str
    tone: Literal["plain", "good"] = "plain"


Block = TableBlock | FigureBlock | SheetBlock | NoteBlock


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    lead: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def format_percent(value: float, digits: int = 1) -> str:
    """Return a fraction in [0, 1] as a number in per cent, without the % sign; a dash for NaN."""
    return MISSING if math.isnan(value) else f"{100 * value:.{digits}f}"


def format_signed(value: float) -> str:
    """Return a difference of fractions in percentage points, signed unless it is 0.0; a dash for NaN."""
    if math.isnan(value):
        return MISSING
    text = f"{100 * value:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text


def format_interval(low: float, high: float, *, difference: bool = False) -> str:
    """Return "[low, high]" in per cent; nothing if either is NaN."""
    if math.isnan(low) or math.isnan(high):
        return ""
    text = format_signed if difference else format_percent
    return f"[{text(low)}, {text(high)}]"


def format_count(value: float) -> str:
    """Return a whole number with thin spaces between thousands; a dash for NaN."""
    return MISSING if math.isnan(value) else f"{round(value):,}".replace(",", "\u202f")


def encode_data_uri(image: bytes) -> str:
    """Return an encoded image as a data URI."""
    image_type = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{image_type};base64,{base64.b64encode(image).decode()}"


def make_thumbnail(image: bytes, name: str) -> bytes:
    """Return the image as PNG, or as JPEG of at most ``THUMBNAIL`` pixels if it is larger.

    Raises:
        DataError: it cannot be decoded.
    """
    opened = decode_image(image, name)
    small = max(opened.size) <= THUMBNAIL
    opened.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    opened.save(stream, **({"format": "PNG"} if small else {"format": "JPEG", "quality": 85}))
    return stream.getvalue()
