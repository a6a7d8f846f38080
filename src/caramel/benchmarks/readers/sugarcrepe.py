"""SugarCrepe (Hsieh et al. 2023): one image, its caption and a hard negative; seven subtypes."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.schemas.columns import SUBTYPES
from caramel.sources.sugarcrepe_files import read_captions

LAYOUT = """\
  sugarcrepe/add_att.json … swap_obj.json   from github.com/RAIVNLab/sugar-crepe, folder data
  IMAGES/000000085329.jpg …                 COCO 2017 validation images (also in IMAGES/val2017)"""
FOLDERS = ("val2017", "coco/val2017", "coco/images/val2017")


def read_sugarcrepe(data: Path, images: Path) -> Comparisons:
    """Return the task of the subtype files in ``data``, which may be fewer than seven.

    Raises:
        DataError: no file exists, or one is broken.
    """
    find_release_files(data, [f"{subtype}.json" for subtype in SUBTYPES], LAYOUT)
    rows = read_captions(data)
    names = list(dict.fromkeys(rows["image_id"]))
    image_indices = {name: i for i, name in enumerate(names)}
    files = locate_images(images, names, FOLDERS)
    return build_comparisons(
        [
            {
                "instance_id": row.pair_id,
                "image_id": row.image_id,
                "subsets": [str(row.subtype).partition("_")[0], row.subtype],
                "image": image_indices[row.image_id],
                "caption": row.caption,
                "negative_caption": row.negative_caption,
            }
            for row in rows.itertuples()
        ],
        [ImageFile(str(path)) for path in files],
    )


BENCHMARK = Benchmark(
    name="sugarcrepe",
    layout=LAYOUT,
    reader=read_sugarcrepe,
    metrics=("accuracy",),
    confirmed="the public files; tests read all 7,511 rows",
    macro=SUBTYPES.__contains__,
)
