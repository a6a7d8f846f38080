"""Read captions alone, without images, from a user's folder: a text file, CSV, JSONL, or a file of Karpathy's splits.

The name of the one file in the folder says its format:

- ``captions.txt``: one caption a line;
- ``captions.csv``, ``captions.jsonl``: column or field ``caption``, and ``filename`` where several captions
  describe one image, in all rows or in none;
- ``dataset_coco.json``, ``dataset_flickr30k.json`` or ``dataset_flickr8k.json``: the splits of Karpathy and Fei-Fei
  (2015), ``{"images": [{"filename", "split", "sentences": [{"raw"}]}]}``. Its own splits are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.source import Source
from caramel.io.readers import iter_csv_rows, iter_json_lines, iter_lines, read_json
from caramel.io.validators import format_value, read_name_field, read_text_field
from caramel.schemas.io import build_frame
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.folders import STAGE, assign_splits, check_shares, split_duplicates

NAME = "captions"
EMPTY = "the caption is empty"
# "restval" are the images that the authors added to the training set later.
KARPATHY_SPLITS = {"train": "train", "restval": "train", "val": "val", "test": "test"}


class Row(NamedTuple):
    """A caption; its image, which names the group of its captions; its split, if the file gives one."""

    pair_id: str
    image_id: str
    caption: str
    split: str | None = None


def read_captions_alone(
    *, data_dir: str, val_test_frac: tuple[float, float], seed: int, **unused: object
) -> Source:
    """Return the captions of a folder as pairs whose images are not available.

    Args:
        data_dir: folder with one file of a known name.
        val_test_frac: shares in [0, 1] of the images that go to val and to test, unless the file has splits. A
            caption without a file name counts as the only one of its image.
        seed: seed of the split, which depends only on this and the set of image names.
        unused: arguments of sources that sample or have images.

    An empty caption is a reject, and so is a duplicate: the same caption of the same image, or the same caption
    where no image is named.

    Raises:
        ConfigError: a share is not in [0, 1], or their sum exceeds 1.
        DataError: the folder does not exist, has no file or several files of a known name, or the file is not
            UTF-8, lacks a column or field, has an unknown split, or has no caption.
    """
    check_shares(val_test_frac)
    path = _find_file(Path(data_dir))
    read = list(READERS[path.name](path))
    empty: list[dict[str, object]] = [
        {"id": row.pair_id, "stage": STAGE, "reason": EMPTY, "text": None}
        for row in read
        if not row.caption.strip()
    ]
    rows = pd.DataFrame([row for row in read if row.caption.strip()], columns=list(Row._fields))
    if rows.empty:
        raise DataError(f"{str(path)!r} contains no caption.")
    # A caption whose image has no name is a duplicate of any equal one of that kind.
    rows = rows.assign(group=rows["image_id"].where(rows["pair_id"] != rows["image_id"]))
    rows, duplicates = split_duplicates(rows, ["group", "caption"])
    if rows["split"].isna().any():
        rows = rows.assign(
            split=rows["image_id"].map(assign_splits(rows["image_id"].tolist(), val_test_frac, seed))
        )
    pairs = build_frame(PAIRS, rows.assign(scene=None, source=NAME))
    return Source(pairs, build_frame(REJECTS, empty + duplicates))


def list_caption_files(folder: Path) -> list[str]:
    """Return the names of a folder's files that this source can read."""
    return [name for name in READERS if (folder / name).is_file()]


def _find_file(folder: Path) -> Path:
    """Return the only file of the folder with a known name."""
    if not folder.is_dir():
        raise DataError(
            f"{str(folder)!r} is not a folder. Set scenes.data_dir in params.yaml to a folder of your own."
        )
    names = list_caption_files(folder)
    if len(names) > 1:
        raise DataError(f"{str(folder)!r} has more than one file of captions: {', '.join(names)}. Keep one.")
    if not names:
        raise DataError(
            f"{str(folder)!r} has no file of captions. Expected one of:\n{format_items(list(READERS), len(READERS))}"
        )
    return folder / names[0]


def _iter_text(path: Path) -> Iterator[Row]:
    """Yield the captions of a text file; a caption's id is its line, from 1."""
    for number, line in enumerate(iter_lines(path), 1):
        name = f"line-{number}"
        yield Row(name, name, line.strip())


def _iter_table(rows: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[Row]:
    """Yield the captions of rows; without a file name a caption's id is its row, from 1.

    Either all rows have a file name or none has: otherwise ids of both forms could be equal.
    """
    counts: dict[str, int] = {}
    for number, (where, row) in enumerate(rows, 1):
        caption = _read_caption(row, "caption", where)
        if number > 1 and ("filename" in row) != bool(counts):
            has, others = ("lacks", "have") if counts else ("has", "lack")
            raise DataError(
                f"{where} {has} field 'filename', which the rows before {others}. Give it in all rows or in none."
            )
        if "filename" not in row:
            yield Row(f"row-{number}", f"row-{number}", caption)
            continue
        image = _read_file_name(row, where)
        counts[image] = counts.get(image, -1) + 1
        yield Row(f"{image}-{counts[image]}", image, caption)


def _read_file_name(row: Any, where: str) -> str:
    """Return the name of an image, in one form for all that name the same file: "a.jpg" for "./a.jpg"."""
    return str(PurePosixPath(read_name_field(row, "filename", where)))


def _read_caption(row: Any, field: str, where: str) -> str:
    """Return a caption, which may be empty."""
    value = row.get(field) if isinstance(row, dict) else None
    return "" if isinstance(value, str) and not value.strip() else read_text_field(row, field, where).strip()


def _iter_karpathy(path: Path) -> Iterator[Row]:
    """Yield the captions of a file of Karpathy's splits."""
    data = read_json(path)
    images = data.get("images") if isinstance(data, dict) else None
    if not isinstance(images, list):
        raise DataError(f"{str(path)!r} must be an object with a list in field 'images' (Karpathy's splits).")
    names: set[str] = set()
    for number, image in enumerate(images):
        where = f"{str(path)!r}, images[{number}]"
        name = _read_file_name(image, where)
        if name in names:
            raise DataError(f"{where}: duplicate filename {format_value(name)}. Keep one entry an image.")
        names.add(name)
        split = read_text_field(image, "split", where)
        if split not in KARPATHY_SPLITS:
            raise DataError(
                f"{where}: split {format_value(split)} is unknown. Expected one of: {', '.join(KARPATHY_SPLITS)}."
            )
        sentences = image.get("sentences")
        if not isinstance(sentences, list):
            raise DataError(f"{where}: field 'sentences' must be a list, not {format_value(sentences)}.")
        for index, sentence in enumerate(sentences):
            caption = _read_caption(sentence, "raw", f"{where}, sentences[{index}]")
            yield Row(f"{name}-{index}", name, caption, KARPATHY_SPLITS[split])


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    "captions.txt": _iter_text,
    "captions.csv": lambda path: _iter_table(iter_csv_rows(path, ("caption",))),
    "captions.jsonl": lambda path: _iter_table(iter_json_lines(path)),
    **dict.fromkeys(("dataset_coco.json", "dataset_flickr30k.json", "dataset_flickr8k.json"), _iter_karpathy),
}
