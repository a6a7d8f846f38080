"""Read the images of a benchmark and check that all of them can be decoded."""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import ImageFile
from caramel.io.image_codec import check_image, decode_image, get_max_pixels
from caramel.io.image_store import ImageStore
from caramel.io.keys import compute_image_key
from caramel.io.suggestions import NearNames
from caramel.runtime.last_result import stamp_files
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table

MISSING = "missing"
_MAX_LISTED = 1000  # bad images that a message lists
_BATCH_SIZE = 64  # images that are checked together
_reading = threading.Lock()  # without it, threads that need the same row group would each read it


def read_encoded_images(images: Sequence[ImageFile]) -> list[bytes]:
    """Return the encoded file of each image. A crop is returned as PPM, which is cheap to decode.

    Raises:
        DataError: a file cannot be read, or a crop cannot be cut out.
    """
    stamps = _stamp_tables(images)
    return map_in_threads(lambda image: crop_image(_read_image(image, stamps), image.box, str(image)), images)


def read_encoded_image(image: ImageFile) -> bytes:
    """Return the encoded file of one image; see ``read_encoded_images``."""
    return crop_image(_read_image(image, _stamp_tables([image])), image.box, str(image))


def read_whole_files(images: Sequence[ImageFile]) -> list[bytes]:
    """Return the encoded file of each image. For a crop this is the file of the whole image.

    Raises:
        DataError: a file cannot be read.
    """
    stamps = _stamp_tables(images)
    return map_in_threads(lambda image: _read_image(image, stamps), images)


def crop_image(data: bytes, box: tuple[int, int, int, int] | None, name: str) -> bytes:
    """Return the crop of an encoded image as PPM, or the file itself if there is no box.

    Raises:
        DataError: the crop cannot be cut out.
    """
    if box is None:
        return data
    part = io.BytesIO()
    decode_image(data, name).crop(box).save(part, "PPM")
    return part.getvalue()


def check_images(images: Sequence[ImageFile], where: str) -> list[bytes]:
    """Decode every image and return the content key of each.

    Raises:
        DataError: images are missing or cannot be decoded; the message lists all of them.
    """
    keys: list[bytes] = []
    bad: list[tuple[ImageFile, str]] = []
    bar = tqdm(total=len(images), desc=f"check images of {where}", unit="image", disable=None)
    with bar:
        for start in range(0, len(images), _BATCH_SIZE):
            some = images[start : start + _BATCH_SIZE]
            look = functools.partial(_check_image, stamps=_stamp_tables(some))
            for image, result in zip(some, map_in_threads(look, some), strict=True):
                if isinstance(result, str):
                    bad.append((image, result))
                else:
                    keys.append(result)
                bar.update()
    if bad:
        raise DataError(
            f"{where}: {len(bad)} of {len(images)} images are missing or corrupt; nothing was scored.\n"
            f"{format_items(_explain_problems(bad), _MAX_LISTED)}\nDownload them again, or give the right folder with --images. "
            f"With --missing skip, instances with a missing image get no score and all others are scored."
        )
    return keys


def _explain_problems(problems: Sequence[tuple[ImageFile, str]]) -> list[str]:
    """Return a line for each image and its problem.

    For a missing image the line suggests a file of a similar name.
    """
    names = NearNames()
    return [
        f"{image}: {names.explain_missing(Path(image.path)) if problem == MISSING else problem}"
        for image, problem in problems
    ]


def compute_content_keys(images: Sequence[ImageFile]) -> list[bytes]:
    """Return the content key of each image without decoding it. The images have been checked before.

    Raises:
        DataError: a file cannot be read.
    """
    stamps = _stamp_tables(images)
    return map_in_threads(lambda image: compute_image_key(_read_image(image, stamps), image.box), images)


def _stamp_tables(images: Sequence[ImageFile]) -> dict[str, str]:
    """Return the stamp of each table that holds some of the images. Each table is read only once."""
    paths = {image.path for image in images if image.name is not None or image.row is not None}
    return {path: stamp_files(path) for path in paths}


def _check_image(image: ImageFile, stamps: Mapping[str, str]) -> bytes | str:
    """Return the image's content key, or a description of its problem."""
    try:
        data = _read_file_or_cell(image, stamps)
        size = check_image(data, image.path)
    except FileNotFoundError:
        return MISSING
    except (DataError, OSError, pa.ArrowInvalid) as error:
        return f"corrupt ({error})"
    if image.box and not _has_overlap(image.box, size):
        return f"the box lies outside the image, which has {size[0]} × {size[1]} pixels"
    if image.box and (image.box[2] - image.box[0]) * (image.box[3] - image.box[1]) > get_max_pixels():
        return f"the box is too large; the image has {size[0]} × {size[1]} pixels"
    return compute_image_key(data, image.box)


def _has_overlap(box: tuple[int, int, int, int], size: tuple[int, int]) -> bool:
    """Return whether the box overlaps the image. Pillow fills the part outside with black."""
    left, top, right, bottom = box
    return max(left, 0) < min(right, size[0]) and max(top, 0) < min(bottom, size[1])


def _read_image(image: ImageFile, stamps: Mapping[str, str]) -> bytes:
    """Return the bytes of the image's file or cell, or raise a DataError that names the image."""
    try:
        return _read_file_or_cell(image, stamps)
    except (DataError, OSError, pa.ArrowInvalid) as error:
        raise DataError(f"Image {image} cannot be read: {error}.") from error


def _read_file_or_cell(image: ImageFile, stamps: Mapping[str, str]) -> bytes:
    """Return the bytes of the image's file or cell."""
    if image.name is not None:
        Path(image.path).stat()  # so that a missing file is not reported as a broken table
        pictures = _load_image_store(image.path, stamps[image.path])
        if image.name not in pictures:
            raise DataError("the table has no such image")
        return pictures[image.name]
    if image.row is None:
        return Path(image.path).read_bytes()
    stamp = stamps[image.path]
    group, offset = _locate_row(image.path, stamp, image.row)
    with _reading:
        cells = _read_group_column(image.path, stamp, group, image.column)
    cell = cells[offset].as_py()
    data = cell.get("bytes") if isinstance(cell, dict) else cell
    if not data:
        raise DataError("the cell holds no image")
    return bytes(data)


@functools.lru_cache(8)
def _load_image_store(path: str, stamp: str) -> ImageStore:
    """Return the images of a table ``images`` in the version that a stamp of ``stamp_files`` identifies."""
    return ImageStore(path, read_table(IMAGES, path))


def _locate_row(path: str, stamp: str, row: int) -> tuple[int, int]:
    """Return the row group of a row and the row's index in it."""
    for group, size in enumerate(_count_group_rows(path, stamp)):
        if row < size:
            return group, row
        row -= size
    raise DataError("the table has no such row")


@functools.lru_cache(64)
def _count_group_rows(path: str, stamp: str) -> tuple[int, ...]:
    """Return the number of rows of each row group."""
    try:
        metadata = pq.read_metadata(Path(path).absolute())  # a:b/c would be read as a URL
    except pa.ArrowInvalid as error:
        raise DataError(f"it is not a Parquet file: {error}") from error
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


@functools.lru_cache(4)  # images are read in row order
def _read_group_column(path: str, stamp: str, group: int, column: str) -> pa.ChunkedArray:
    """Return one column of one row group."""
    with pq.ParquetFile(Path(path).absolute()) as file:
        if column not in file.schema_arrow.names:
            raise DataError("the table has no such column")
        return file.read_row_group(group, columns=[column]).column(column)
