"""Read SugarCrepe's captions with their images, as BiVLC (Miranda et al. 2024) starts from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.source import SaveImage, Source
from caramel.schemas.columns import SUBTYPES
from caramel.sources.folder_images import save_images
from caramel.sources.folders import build_benchmark_source, check_shares
from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.text import tokenize_text

# In each file of swaps of SugarCrepe, SugarCrepe++ and the unrefined release, at least 57 % keep all words; of additions,
# at least 75 % only add some; of replacements, at most 1.1 % do either.
LEAST_SHARE = 0.3
FEWEST = 30  # rows from which a file's type is judged


def read_benchmark_pairs(
    *, data_dir: str, val_test_frac: tuple[float, float], seed: int, put: SaveImage, **unused: object
) -> Source:
    """Return the pairs of SugarCrepe(++) files, split by image, after passing their images to ``put``.

    Args:
        data_dir: folder with a JSON file for each subtype, and the images that these name, in it or in its
            ``images/``. SugarCrepe's are those of COCO's val2017.
        val_test_frac: shares in [0, 1] of the images that go to val and to test; an image is in one split.
        seed: seed of the split, which depends only on this and the set of image names.
        put: called with each image once, in the order of the rows.
        unused: arguments of sources that sample.

    Raises:
        ConfigError: a share is not in [0, 1], or their sum exceeds 1.
        DataError: the folder does not exist, has a JSON file that is not named after a subtype, two files of the
            same rows, one whose edits are not those of its type, or an invalid row; or images cannot be used (``folder_images.save_images``).
    """
    check_shares(val_test_frac)
    folder = Path(data_dir)
    if not folder.is_dir():
        raise DataError(f"{data_dir!r} is not a folder. Set scenes.data_dir to one with SugarCrepe's files.")
    _check_names(folder)
    rows = read_captions(folder)
    _check_subtypes(rows, folder)
    source = build_benchmark_source(rows, val_test_frac, seed)
    first = source.pairs.drop_duplicates("image_id")
    named_by = {
        str(image): "{0[0]}.json, row {0[2]!r}".format(str(pair).partition("-"))
        for image, pair in zip(first["image_id"], first["pair_id"], strict=True)
    }
    splits = dict(zip(first["image_id"], first["split"], strict=True))
    save_images(folder, named_by, splits, put)
    return source


def _check_names(folder: Path) -> None:
    """Raise a DataError if a JSON file is not named after a subtype."""
    other = sorted(path.name for path in folder.glob("*.json") if path.stem not in SUBTYPES)
    if other:
        raise DataError(
            f"{str(folder)!r} has JSON files that are not named after a subtype:\n{format_items(other)}\n"
            f"Move them elsewhere. Subtypes: {', '.join(SUBTYPES)}."
        )


def _check_subtypes(rows: pd.DataFrame, folder: Path) -> None:
    """Raise a DataError if a file's rows are those of another file, or its edits are those of another type.

    Which of the subtypes of one type a file has cannot be seen from its words.
    """
    known: dict[frozenset[tuple[object, ...]], str] = {}
    for subtype, of_it in rows.groupby("subtype", sort=False):
        path, captions = folder / f"{subtype}.json", of_it[["image_id", "caption", "negative_caption"]]
        same = known.setdefault(frozenset(captions.itertuples(index=False, name=None)), path.name)
        if same != path.name:
            raise DataError(
                f"{str(path)!r} has the same rows as {same!r}, so one of them is of another subtype than its name says. "
                f"Restore it from SugarCrepe's release."
            )
        edit_type = str(subtype).partition("_")[0]
        edits = [_find_edit_type(*row) for row in captions.iloc[:, 1:].itertuples(index=False, name=None)]
        if len(edits) >= FEWEST and edit_type not in (types := _infer_types(edits)):
            raise DataError(
                f"{str(path)!r} holds hard negatives of type {' or '.join(types)}, as their words show, not {edit_type}: it is "
                f"the file of another subtype. Restore it from SugarCrepe's release."
            )


def _find_edit_type(caption: str, negative: str) -> str:
    """Return ``swap`` if both have the same words, ``add`` if the negative only has more of them, else ``replace``."""
    words, negative_words = (Counter(tokenize_text(text.rstrip(". "))) for text in (caption, negative))
    if words == negative_words:
        return "swap"
    return "add" if words < negative_words else "replace"


def _infer_types(edits: Sequence[str]) -> list[str]:
    """Return the type that a file's edits show: the one of at least ``LEAST_SHARE`` of them, or else ``replace``."""
    return [
        edit_type for edit_type in ("swap", "add") if edits.count(edit_type) >= LEAST_SHARE * len(edits)
    ] or ["replace"]
