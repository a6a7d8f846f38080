"""Tar files whose bytes depend on nothing but their members: the images that public formats name, and WebDataset's shards."""

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

TAR = 256 << 20  # bytes of a shard of WebDataset, from which on it is full
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
    """A tar file to which members are added, as if by nobody at no time."""

    def __init__(self, path: Path) -> None:
        """Begin the file."""
        self._file = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.bytes = 0

    def add_member(self, name: str, data: bytes) -> None:
        """Add a member."""
        about = tarfile.TarInfo(name)
        about.size = len(data)
        self._file.addfile(about, io.BytesIO(data))
        self.bytes += len(data)

    def add_link(self, name: str, to: str) -> None:
        """Add another name of a member, which takes no room."""
        about = tarfile.TarInfo(name)
        about.type, about.linkname = tarfile.LNKTYPE, to
        self._file.addfile(about)

    def close(self) -> None:
        """End the file."""
        self._file.close()


@contextmanager
def open_tar(path: Path) -> Iterator[TarWriter]:
    """Give a tar file that is ended at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = TarWriter(path)
    try:
        yield writer
    finally:
        writer.close()


def detect_suffix(data: bytes, name: str) -> str:
    """Return the suffix of an encoded image by what it is, without a dot.

    Raises:
        DataError: it is no image.
    """
    with open_encoded_image(data, name) as image:
        return _SUFFIXES.get(image.format or "", (image.format or "img").lower())


def build_file_name(image_id: str, ending: str, taken: Container[str] = ()) -> str:
    """Return a name for an image's file that any system takes, another one for every image.

    A name that is plain stays; of others signs are replaced, and a hash tells them apart.

    Args:
        image_id: the image's name.
        ending: of the file, without a dot.
        taken: names of other files in small letters, since some systems do not tell them from large ones.
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
    """Write images to a tar file, each compared with its SHA-256; return image_id -> name of its file there.

    ``also``: image_id -> a further name of some.
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
    """Write training rows as WebDataset: ``train-00000.tar``, which open_clip's own program trains on.

    A sample has the picture, ``txt`` (its caption), ``json`` (pair_id, caption2, negative_captions, subtypes,
    negative_image_ids, image_id) and ``negative0.png`` … (pictures of the first negatives).

    Raises:
        DataError: an image is missing, or is not what the index says.
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
    """Return a cell as JSON has it."""
    if value is None or isinstance(value, str):
        return value
    return None if isinstance(value, float) else list(value)  # type: ignore[call-overload]
