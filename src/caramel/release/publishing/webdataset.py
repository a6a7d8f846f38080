"""Write reproducible tar files: images for the public formats, and WebDataset shards.

The bytes of a file depend only on its members.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from caramel.io.image_codec import open_encoded_image
from caramel.io.image_store import ImageStore
from caramel.io.portable_names import is_portable_start
from caramel.release.publishing.contents import list_names

TAR = 256 << 20  # bytes after which a WebDataset shard is full
_SUFFIXES = {
    "PNG": "png",
    "JPEG": "jpg",
    "WEBP": "webp",
    "GIF": "gif",
    "TIFF": "tif",
    "BMP": "bmp",
    "PPM": "ppm",
}


class TarWriter:
    """A tar file whose members have no owner and no time."""

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self._file = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.bytes = 0

    def add_member(self, name: str, data: bytes) -> None:
        """Add a member."""
        about = tarfile.TarInfo(name)
        about.size = len(data)
        self._file.addfile(about, io.BytesIO(data))
        self.bytes += len(data)

    def add_link(self, name: str, to: str) -> None:
        """Add a link to a member under another name, which takes no space."""
        about = tarfile.TarInfo(name)
        about.type, about.linkname = tarfile.LNKTYPE, to
        self._file.addfile(about)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def open_tar(path: Path) -> Iterator[TarWriter]:
    """Give a tar file and close it at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = TarWriter(path)
    try:
        yield writer
    finally:
        writer.close()


def detect_suffix(data: bytes, name: str) -> str:
    """Return the suffix, without a dot, for the format of an encoded image.

    Raises:
        DataError: it is not an image.
    """
    with open_encoded_image(data, name) as image:
        return _SUFFIXES.get(image.format or "", (image.format or "img").lower())


def build_file_name(image_id: str, ending: str, taken: Container[str] = ()) -> str:
    """Return a file name for an image that is valid on any system and unique for every image.

    A plain id stays. In others, special characters are replaced and a hash is added.

    Args:
        image_id: the image's id.
        ending: suffix of the file, without a dot.
        taken: lower-case names of other files, because some systems ignore case.
    """
    stem = image_id.removesuffix(f".{ending}")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", stem)[:100]
    safe = is_portable_start(plain)
    if plain == stem and safe and f"{plain}.{ending}".lower() not in taken:
        return f"{plain}.{ending}"
    return f"{'' if safe else '_'}{plain}.{hashlib.sha256(image_id.encode()).hexdigest()[:12]}.{ending}"


def write_images(
    names: list[str], pictures: ImageStore, path: Path, also: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Write images to a tar file, each checked against its SHA-256; return image_id -> file name in it.

    ``also``: image_id -> an additional name for some images.
    """
    files: dict[str, str] = {}
    taken: set[str] = set()
    with open_tar(path) as to:
        for name in names:
            data = pictures.read_verified(name)
            files[name] = build_file_name(name, detect_suffix(data, name), taken)
            taken.add(files[name].lower())
            to.add_member(files[name], data)
            if name in also:
                to.add_link(also[name], files[name])
    return files


def write_webdataset(rows: pd.DataFrame, pictures: ImageStore, folder: Path) -> list[Path]:
    """Write training rows as WebDataset, ``train-00000.tar``, for open_clip's training program.

    A sample has:

    - the image;
    - ``txt``: its caption;
    - ``json``: pair_id, caption2, negative_captions, subtypes, negative_image_ids, image_id;
    - ``negative0.png`` …: images of the first negatives.

    Raises:
        DataError: an image is missing, or does not match the index.
    """
    written: list[Path] = []
    for split in dict.fromkeys(rows["split"]):
        samples = rows[rows["split"] == split].to_dict("records")
        number = at = 0
        while at < len(samples):
            written.append(folder / f"{split}-{number:05}.tar")
            with open_tar(written[-1]) as to:
                while at < len(samples) and to.bytes < TAR:
                    _add_sample(to, f"{at:08}", {str(k): v for k, v in samples[at].items()}, pictures)
                    at += 1
            number += 1
    return written


def _add_sample(to: TarWriter, key: str, row: Mapping[str, object], pictures: ImageStore) -> None:
    data = pictures.read_verified(str(row["image_id"]))
    to.add_member(f"{key}.{detect_suffix(data, str(row['image_id']))}", data)
    to.add_member(f"{key}.txt", str(row["caption"]).encode())
    known = {name: _convert_cell(value) for name, value in row.items() if name not in ("caption", "split")}
    to.add_member(f"{key}.json", json.dumps(known, ensure_ascii=False).encode())
    for number, name in enumerate(list_names(row["negative_image_ids"])):  # type: ignore[arg-type]
        data = pictures.read_verified(name)
        to.add_member(f"{key}.negative{number}.{detect_suffix(data, name)}", data)


def _convert_cell(value: object) -> object:
    """Return a cell as JSON-compatible data."""
    if value is None or isinstance(value, str):
        return value
    return None if isinstance(value, float) else list(value)  # type: ignore[call-overload]
