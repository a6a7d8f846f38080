"""CREPE raw retrieval (Ma et al. 2023, appendix B.2): plain retrieval in both directions, within folds.

Splits differ in size, and retrieval from more candidates is harder. Therefore K folds of N pairs are drawn
from each split, where N is the size of the smallest split in its folder and K = min(20, ⌊size / N⌋). No pair is
drawn twice. Within a fold each image is a query among its N captions, and each caption is a query among its N
images. Pairs outside the folds are not scored. The paper does not say how the folds were drawn. Here they are
drawn at random, by name and ``SEED``.

Subsets are direction and split, such as ``i2t/unseen_atoms_in_laion``, whose recall is the mean over its
folds, and each fold, ``i2t/unseen_atoms_in_laion/fold0``…. The spread over the folds is the paper's standard
deviation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.benchmarks.crepe_files import COLUMNS, Region, read_regions
from caramel.benchmarks.visual_genome import locate_vg_image
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, ImageFile, Index, Rankings

LAYOUT = f"""\
  crepe_retrieval/unseen_atoms_in_laion.csv …   a file of image-text pairs per split, with the split's name; N is
                                  the smallest split's size: columns {", ".join(COLUMNS)}
  crepe_retrieval/productivity/n4.csv …  the same for splits with an N of their own, in a folder
  IMAGES/VG_100K/2.jpg …          Visual Genome images (folders VG_100K and VG_100K_2)"""
MOST_FOLDS = 20
SEED = 0


def read_crepe_retrieval(data: Path, images: Path, seed: int = SEED) -> Rankings:
    """Return the task of all CSV files in ``data``.

    Args:
        data: folder of the splits.
        images: folder of the Visual Genome images.
        seed: seed of the folds.

    Raises:
        DataError: no file exists, or one is broken or empty.
    """
    paths = sorted([*data.glob("*.csv"), *data.glob("*/*.csv")], key=lambda path: (path.stem, str(path)))
    splits = {path: read_regions(path, {}).regions for path in paths}
    if not splits:
        raise DataError(f"{str(data)!r} holds no *.csv. Expected layout:\n{LAYOUT}")
    times = Counter(path.stem for path in paths)
    if double := [str(path) for path in paths if times[path.stem] > 1]:
        raise DataError(
            f"{str(data)!r} has files of one name, whose splits could not be told apart. Keep one of each name:\n"
            f"{format_items(double)}"
        )
    sizes = {
        folder: min(len(pairs) for path, pairs in splits.items() if path.parent == folder)
        for folder in {path.parent for path in paths}
    }
    rows: list[tuple[object, ...]] = []
    pairs: list[Region] = []  # image and caption of a pair have the same index
    pools: list[Index] = []
    for path, members in splits.items():
        split, size = path.stem, sizes[path.parent]
        for fold, chosen in enumerate(draw_folds(split, members, size, seed)):
            for direction in ("i2t", "t2i"):
                name = f"{direction}/{split}"
                for number in range(size):
                    index = len(pairs) + number
                    row = (
                        f"{name}/fold{fold}-{number}",
                        chosen[number].image_id,
                        [name, f"{name}/fold{fold}"],
                    )
                    rows.append((*row, direction, index, len(pools), [index]))
            pools.append(np.arange(len(pairs), len(pairs) + size))
            pairs += chosen
    files = {pair.image_id: locate_vg_image(images, pair.image_id) for pair in pairs}
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        [ImageFile(files[pair.image_id], box=pair.box) for pair in pairs],
        [(pair.caption,) for pair in pairs],
        pools,
    )


def draw_folds(split: str, members: list[Region], size: int, seed: int) -> list[list[Region]]:
    """Return the folds of a split: disjoint draws of ``size`` members.

    The order of the members has no effect.
    """

    def hash_pair(pair: Region) -> bytes:
        name = f"{seed} {split} {pair.image_id} {pair.box} {pair.caption}"
        return hashlib.blake2b(name.encode()).digest()

    order = sorted(members, key=hash_pair)
    return [order[k * size : (k + 1) * size] for k in range(min(MOST_FOLDS, len(members) // size))]


BENCHMARK = Benchmark(
    name="crepe_retrieval",
    layout=LAYOUT,
    reader=read_crepe_retrieval,
    metrics=("recall@1", "recall@3", "recall@5", "recall@10"),
    confirmed="the paper's appendix B.2 and tables 6, 15 and 16, and RAIVNLab/CREPE: crepe_eval_utils.py (columns "
    "and metrics). It has no raw files and no code for the folds, so the file names are free",
)
