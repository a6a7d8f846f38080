"""Read pairs from a user's folder: public benchmark files, or images with captions.

The files of the folder determine its format. SugarCrepe(++) JSON gives captions without images.
``captions.csv``, ``captions.jsonl`` or ``captions.json`` (COCO) gives captions of images beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import ConfigError, DataError, format_items
from caramel.interfaces.source import SaveImage, Source
from caramel.io.readers import iter_csv_rows, iter_json_lines, read_json
from caramel.io.validators import format_value, read_text_field
from caramel.schemas.io import build_frame
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.folder_images import save_images
from caramel.sources.sugarcrepe_files import list_subtype_files, read_captions

STAGE = "scenes"


def read_pairs(
    *, data_dir: str, val_test_frac: tuple[float, float], seed: int, put: SaveImage, **unused: object
) -> Source:
    """Return the pairs of a folder, split by image, after passing their images to ``put``.

    Args:
        data_dir: folder with SugarCrepe(++) files, or with images (in it or in its ``images/``) and one
            captions table with the columns ``filename`` and ``caption``.
        val_test_frac: shares in [0, 1] of the images that go to val and to test; an image is in one split.
        seed: seed of the split, which depends only on this and the set of image names.
        put: called with each valid image, in the order of the captions.
        unused: arguments of sources that sample.

    A duplicate row is a reject, and so is an image without a caption in a COCO file.

    Raises:
        ConfigError: a share is not in [0, 1], or their sum exceeds 1.
        DataError: the folder does not exist, has no known format or an invalid row, or images cannot be used
            (``folder_images.save_images``).
    """
    check_shares(val_test_frac)
    folder = Path(data_dir)
    if not folder.is_dir():
        raise DataError(
            f"{data_dir!r} is not a folder. Set scenes.data_dir in params.yaml to a folder of your own."
        )
    sources = [name for name in READERS if (folder / name).is_file()]
    if list_subtype_files(folder):
        sources.append("SugarCrepe files")
    if len(sources) != 1:
        raise DataError(_format_source_error(data_dir, sources))
    if sources[0] == "SugarCrepe files":
        return build_benchmark_source(read_captions(folder), val_test_frac, seed)
    return _read_captioned_images(folder, sources[0], val_test_frac, seed, put)


def check_shares(val_test_frac: tuple[float, float]) -> None:
    """Raise ConfigError unless the shares of val and test are in [0, 1] and sum to at most 1."""
    if min(val_test_frac) < 0 or sum(val_test_frac) > 1:
        raise ConfigError(
            f"scenes.val_test_frac = {val_test_frac!r} must be shares in [0, 1] whose sum is at most 1."
        )


def assign_splits(names: Sequence[str], val_test_frac: tuple[float, float], seed: int) -> dict[str, str]:
    """Return the split of each distinct image name, in shares rounded to whole images.

    Images are ranked by a hash of seed and name, so the order of the rows does not matter.
    """
    ranked = sorted(set(names), key=lambda n: (hashlib.sha256(f"{seed}:{n}".encode()).digest(), n))
    val, test = (round(share * len(ranked)) for share in val_test_frac)
    return {
        name: "val" if rank < val else "test" if rank < val + test else "train"
        for rank, name in enumerate(ranked)
    }


def _format_source_error(data_dir: str, sources: list[str]) -> str:
    looked = ["SugarCrepe(++) files, such as replace_obj.json", *(f"{n}, with images" for n in READERS)]
    if sources:
        return f"{data_dir!r} contains more than one source: {', '.join(sources)}. Keep one in the folder."
    return f"{data_dir!r} contains no source of a known format. Expected one of:\n{format_items(looked)}"


def build_benchmark_source(rows: pd.DataFrame, val_test_frac: tuple[float, float], seed: int) -> Source:
    """Return the pairs of ``read_captions``, split by image, without their images. Duplicate rows are rejects."""
    rows, rejects = split_duplicates(rows, ["subtype", "image_id", "caption", "caption2", "negative_caption"])
    source = "sugarcrepe" if rows["caption2"].isna().all() else "sugarcrepe_pp"
    pairs = _build_pairs(rows, assign_splits(rows["image_id"].tolist(), val_test_frac, seed), source)
    return Source(pairs, build_frame(REJECTS, rejects))


def _read_captioned_images(
    folder: Path, name: str, val_test_frac: tuple[float, float], seed: int, put: SaveImage
) -> Source:
    """Return the pairs of a captions table, after passing its images to ``put``."""
    table = READERS[name](folder / name)
    # "./a.png" is "a.png": an image under two names could be in two splits.
    rows = pd.DataFrame(
        [(str(PurePosixPath(file)), caption) for file, caption in table.rows], columns=["image_id", "caption"]
    )
    if rows.empty:
        raise DataError(f"{str(folder / name)!r} contains no caption.")
    number = rows.groupby("image_id").cumcount().astype(str)
    rows = rows.assign(pair_id=rows["image_id"] + "-" + number)
    rows, rejects = split_duplicates(rows, ["image_id", "caption"])
    rejects += [
        {"id": n, "stage": STAGE, "reason": "image without a caption", "text": None} for n in table.unused
    ]
    splits = assign_splits(rows["image_id"].tolist(), val_test_frac, seed)
    save_images(folder, dict.fromkeys(rows["image_id"], ""), splits, put, sizes=table.sizes)
    return Source(_build_pairs(rows, splits, "files"), build_frame(REJECTS, rejects))


def split_duplicates(rows: pd.DataFrame, columns: list[str]) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Return the first of equal rows, and the duplicates as rejects."""
    twice = rows.duplicated(columns)
    rejects: list[dict[str, object]] = [
        {"id": name, "stage": STAGE, "reason": "the row stands twice", "text": text}
        for name, text in zip(rows.loc[twice, "pair_id"], rows.loc[twice, "caption"], strict=True)
    ]
    return rows.loc[~twice].reset_index(drop=True), rejects


def _build_pairs(rows: pd.DataFrame, splits: dict[str, str], source: str) -> pd.DataFrame:
    split = rows["image_id"].map(splits)
    return build_frame(PAIRS, rows.assign(scene=None, split=split, source=source))


class Captions(NamedTuple):
    """A captions table: (file name, caption) rows, names of images without a caption, and sizes that it states."""

    rows: list[tuple[str, str]]
    unused: Sequence[str] = ()
    sizes: Mapping[str, tuple[int, int]] = {}  # width and height in pixels by file name


def _parse_row(row: Any, where: str) -> tuple[str, str]:
    return read_text_field(row, "filename", where), read_text_field(row, "caption", where)


def _read_csv(path: Path) -> Captions:
    return Captions([_parse_row(row, where) for where, row in iter_csv_rows(path, ("filename", "caption"))])


def _read_jsonl(path: Path) -> Captions:
    return Captions([_parse_row(row, where) for where, row in iter_json_lines(path)])


def _read_coco(path: Path) -> Captions:
    """Read COCO's format: images with ``id`` and ``file_name``, annotations with ``image_id``.

    An image's ``width`` and ``height`` are optional.
    """
    data, names = read_json(path), dict[int | str, str]()
    sizes: dict[str, tuple[int, int]] = {}
    for number, image in enumerate(_parse_list(data, "images", path)):
        where = f"{str(path)!r}, images[{number}]"
        name = read_text_field(image, "file_name", where)
        if names.setdefault(_parse_id(image, "id", where), name) != name:
            raise DataError(f"{where}: duplicate id {format_value(image['id'])} for different files.")
        size = image.get("width"), image.get("height")
        if all(type(side) is int for side in size):
            sizes[str(PurePosixPath(name))] = size
    rows = []
    for number, note in enumerate(_parse_list(data, "annotations", path)):
        where = f"{str(path)!r}, annotations[{number}]"
        caption, image_id = read_text_field(note, "caption", where), _parse_id(note, "image_id", where)
        if image_id not in names:
            raise DataError(
                f"{where}: field 'image_id' = {format_value(image_id)} does not match "
                f"the id of any image in the file."
            )
        rows.append((names[image_id], caption))
    used = {name for name, _ in rows}
    return Captions(rows, [name for name in dict.fromkeys(names.values()) if name not in used], sizes)


def _parse_list(data: Any, field: str, path: Path) -> list[Any]:
    values = data.get(field) if isinstance(data, dict) else None
    if not isinstance(values, list):
        raise DataError(f"{str(path)!r} must be an object with a list in field {field!r} (COCO format).")
    return values


def _parse_id(row: Any, field: str, where: str) -> int | str:
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DataError(f"{where}: field {field!r} must be a number or text, not {format_value(value)}.")
    return value


READERS: dict[str, Callable[[Path], Captions]] = {
    "captions.csv": _read_csv,
    "captions.jsonl": _read_jsonl,
    "captions.json": _read_coco,
}
