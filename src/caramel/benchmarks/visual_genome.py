"""Read regions of Visual Genome images as CREPE and ARO crop them, and locate the images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caramel.benchmarks.public_files import locate_files
from caramel.errors import DataError
from caramel.io.validators import format_value

Box = tuple[int, int, int, int]
FARTHEST = 4_000  # pixels; several times the size of the largest images; limits the memory that a crop needs
# Visual Genome's images come in two archives. VL-CheckList expects them in a folder vg.
FOLDERS = ("VG_100K", "VG_100K_2", "vg/VG_100K", "vg/VG_100K_2")


def read_box(row: Mapping[str, Any], fields: Sequence[str], where: str) -> Box:
    """Return (left, top, right, bottom) in pixels of a region that is given by left, top, width and height.

    The edges are rounded as in Pillow's ``crop``, with which the authors crop regions. A box may extend
    beyond its
    image: ``crop`` fills the part outside with black, both for the authors and here.

    Args:
        row: row of the release.
        fields: field names of left, top, width and height.
        where: location of the row, for messages.

    Raises:
        DataError: a field is missing, not a number or larger than any image, or the region is empty.
    """
    left, top, width, height = (_parse_number(row.get(field), field, where) for field in fields)
    box = (round(left), round(top), round(left + width), round(top + height))
    if box[2] <= box[0] or box[3] <= box[1]:
        raise DataError(f"{where}: the region {format_value([row[field] for field in fields])} is empty.")
    return box


def locate_vg_image(images: Path, image_id: str) -> str:
    """Return the path of an image in one of ``FOLDERS`` or in ``images`` itself; it may be missing.

    Raises:
        DataError: two of the folders hold different images of that name.
    """
    name = f"{image_id}.jpg"
    paths = locate_files([images / folder for folder in (*FOLDERS, "")], [name])
    return str(paths[0] if paths else images / FOLDERS[0] / name)


def _parse_number(value: Any, field: str, where: str) -> float:
    plain = isinstance(value, int | float | str) and not isinstance(value, bool) and "_" not in str(value)
    try:
        number = float(value) if plain else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= FARTHEST:
        raise DataError(
            f"{where}: field {field!r} must be a number of pixels, at most {FARTHEST}, not {format_value(value)}."
        )
    return number
