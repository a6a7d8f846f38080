"""Read SugarCrepe's captions with their images, as BiVLC (Miranda et al. 2024) starts from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.source import SaveImage, Source
from caramel.schemas.columns import SUBTYPES
from caramel.sources.folder_images import save_images
from caramel.sources.folders import check_shares, read_benchmark_files
from caramel.sources.sugarcrepe_files import list_subtype_files, read_captions


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
            same rows, or an invalid row; or images cannot be used (``folder_images.save_images``).
    """
    check_shares(val_test_frac)
    folder = Path(data_dir)
    if not folder.is_dir():
        raise DataError(f"{data_dir!r} is not a folder. Set scenes.data_dir to one with SugarCrepe's files.")
    _check_subtypes(folder)
    source = read_benchmark_files(folder, val_test_frac, seed)
    first = source.pairs.drop_duplicates("image_id")
    named_by = {
        str(image): "{0[0]}.json, row {0[2]!r}".format(str(pair).partition("-"))
        for image, pair in zip(first["image_id"], first["pair_id"], strict=True)
    }
    splits = dict(zip(first["image_id"], first["split"], strict=True))
    save_images(folder, named_by, splits, put)
    return source


def _check_subtypes(folder: Path) -> None:
    """Raise a DataError if a file's name or its rows show that it is not of a subtype of its own."""
    other = sorted(path.name for path in folder.glob("*.json") if path.stem not in SUBTYPES)
    if other:
        raise DataError(
            f"{str(folder)!r} has JSON files that are not named after a subtype:\n{format_items(other)}\n"
            f"Move them elsewhere. Subtypes: {', '.join(SUBTYPES)}."
        )
    known: dict[frozenset[tuple[object, ...]], str] = {}
    for path in list_subtype_files(folder):
        rows: pd.DataFrame = read_captions(path)[["image_id", "caption", "negative_caption"]]
        same = known.setdefault(frozenset(rows.itertuples(index=False, name=None)), path.name)
        if same != path.name:
            raise DataError(
                f"{str(path)!r} has the same rows as {same!r}, so one of them is of another subtype than its name says. "
                f"Restore it from SugarCrepe's release."
            )
