"""Prepare what an editing pipeline needs of each negative caption: its source image, its mask, or an instruction."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.io.files import write_atomically
from caramel.io.image_codec import decode_center_crop, decode_image
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import read_name_field, read_text_field
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.sources.images.photo_edits.drawing import ImageArray

MASKS = "masks.csv"
NO_MASK = "no mask of its image is given, so it cannot be edited"
NO_IMAGE = "its source has no image to edit"


def read_masks(folder: str | Path) -> dict[str, Path]:
    """Return negative_id -> mask file, from the folder's ``masks.csv`` with the columns negative_id and filename.

    Raises:
        DataError: the table or a file that it names is missing, a row is invalid, or a negative has two masks.
    """
    folder, masks = Path(folder), dict[str, Path]()
    if not (folder / MASKS).is_file():
        raise DataError(
            f"{str(folder)!r} has no {MASKS}, which names the mask of each negative caption (columns negative_id and "
            f"filename). Write it, or set synthesize.method to 'instruct', which needs no masks."
        )
    for where, row in iter_csv_rows(folder / MASKS, ("negative_id", "filename")):
        name = read_text_field(row, "negative_id", where)
        path = folder / read_name_field(row, "filename", where)
        if name in masks:
            raise DataError(f"{where}: negative {name!r} has a mask in an earlier row. Remove one of them.")
        masks[name] = path
    lacking = sorted({str(path) for path in masks.values() if not path.is_file()})
    if lacking:
        raise DataError(f"{MASKS} names {len(lacking)} files that are missing:\n{format_items(lacking)}")
    return masks


def split_editable(
    negatives: pd.DataFrame,
    pairs: pd.DataFrame,
    images: Mapping[str, bytes],
    masks: Mapping[str, Path] | None,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the negatives whose source image can be edited, and negative_id -> reason for the others.

    Args:
        negatives, pairs: tables of those names.
        images: encoded files of the source, by image_id.
        masks: result of ``read_masks``; None: no masks are needed.

    Raises:
        DataError: no negative can be edited.
    """
    image_of = pairs.set_index("pair_id")["image_id"]
    reasons: dict[str, str] = {}
    for name, pair in zip(negatives["negative_id"], negatives["pair_id"], strict=True):
        if image_of[pair] not in images:
            reasons[name] = NO_IMAGE
        elif masks is not None and name not in masks:
            reasons[name] = NO_MASK
    if len(reasons) == len(negatives):
        raise DataError(
            f"None of {len(negatives)} negative captions can be edited: {next(iter(reasons.values()), 'there are none')}. "
            f"Give images with scenes.source, and masks with synthesize.masks if synthesize.method is 'inpaint'."
        )
    return negatives[~negatives["negative_id"].isin(list(reasons))], reasons


def add_edit_inputs(
    prompt_rows: Sequence[Mapping[str, str]],
    images: Mapping[str, bytes],
    masks: Mapping[str, Path] | None,
    *,
    method: str,
    image_size: int,
    folder: str | Path,
) -> list[dict[str, Any]]:
    """Return the rows of ``build_prompts`` with ``source_file``, and with ``mask_file`` or ``instruction``.

    Images and masks are cropped to their centre square, scaled, and written as PNG below ``folder``, where workers on
    any machine get them from. ``prompt`` stays the caption, which people and judges compare with the image.

    Args:
        prompt_rows: rows with negative_id, caption, positive, prompt and image_id.
        images: encoded files of the source, by image_id.
        masks: result of ``read_masks``; white is drawn again. None: no masks.
        method: ``inpaint`` or ``instruct``.
        image_size: side in pixels.
        folder: folder of the files.

    Raises:
        DataError: an image or mask does not decode, or a mask has another size than its image, or is black.
    """
    rows = []
    for row in prompt_rows:
        image_id, added = row["image_id"], dict[str, Any]()
        source = decode_center_crop(images[image_id], image_id, image_size)
        added["source_file"] = _store_png(source, Path(folder))
        if masks is not None:
            mask = _crop_mask(masks[row["negative_id"]], images[image_id], image_id, image_size)
            added["mask_file"] = _store_png(mask, Path(folder))
        if method == "instruct":
            added["instruction"] = build_instruction(row["positive"], row["caption"])
        rows.append({**row, **added})
    return rows


def _crop_mask(path: Path, image: bytes, image_id: str, size: int) -> ImageArray:
    """Return the mask as an image of black and white pixels, (size, size, 3)."""
    data = path.read_bytes()
    ours, theirs = decode_image(data, str(path)).size, decode_image(image, image_id).size
    if ours != theirs:
        raise DataError(
            f"Mask {str(path)!r} has {ours[0]} × {ours[1]} pixels, but its image {image_id!r} has {theirs[0]} × "
            f"{theirs[1]}. Draw the mask on the image as it is stored."
        )
    mask = np.where(decode_center_crop(data, str(path), size) < 128, 0, 255).astype(np.uint8)
    if not mask.any():
        raise DataError(
            f"Mask {str(path)!r} is black in the centre square of image {image_id!r}, so nothing would be drawn. White "
            f"pixels are drawn again."
        )
    return mask


def _store_png(pixels: ImageArray, folder: Path) -> LocalFile:
    """Write pixels as a PNG that is named by its content, and return it."""
    from PIL import Image

    shape = "x".join(map(str, pixels.shape))
    path = folder / f"{hashlib.sha256(shape.encode() + pixels.tobytes()).hexdigest()[:32]}.png"
    if not path.is_file():
        write_atomically(path, lambda temporary: Image.fromarray(pixels).save(temporary, "PNG"))
    return LocalFile(str(path))


def build_instruction(positive: str, negative: str) -> str:
    """Return an instruction that changes an image of one caption into an image of the other.

    It states the words that change, if they are at one place, and the caption that the image must show.
    """
    before, after = positive.rstrip(" .").split(), negative.rstrip(" .").split()
    matcher = difflib.SequenceMatcher(
        None, [w.lower() for w in before], [w.lower() for w in after], autojunk=False
    )
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    goal = " ".join(after)
    if len(changes) != 1:
        return f"Change the image so that it shows: {goal}"
    _, start, end, other_start, other_end = changes[0]
    old, new = " ".join(before[start:end]), " ".join(after[other_start:other_end])
    change = f'Replace "{old}" with "{new}"' if old and new else f'Add "{new}"' if new else f'Remove "{old}"'
    return f"{change}, so that the image shows: {goal}"
