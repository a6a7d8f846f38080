"""SugarCrepe++ (Dumpala et al. 2024): one image, two true captions in different words, a hard negative."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files
from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.schemas.columns import SUBTYPES
from caramel.sources.sugarcrepe_files import read_captions

LAYOUT = """\
  sugarcrepe_pp/replace_att.json … swap_obj.json   from github.com/Sri-Harsha/scpp, folder data
  IMAGES/000000085329.jpg …                        COCO 2017 validation images (also in IMAGES/val2017)"""
FIVE = tuple(name for name in SUBTYPES if not name.startswith("add_"))


def read_sugarcrepe_pp(data: Path, images: Path) -> Comparisons:
    """Return the task of the subtype files in ``data``, which may be fewer than five.

    Raises:
        DataError: no file exists, one is broken, or a row has no second caption.
    """
    find_release_files(data, [f"{subtype}.json" for subtype in FIVE], LAYOUT)
    rows = read_captions(data)
    lacking = rows[rows["caption2"].isna()]
    if len(lacking):
        raise DataError(
            f"{str(data)!r}: {len(lacking)} rows have no field 'caption2', the first in "
            f"{lacking['subtype'].iloc[0]}.json: these are rows of SugarCrepe, not SugarCrepe++. "
            f"Expected layout:\n{LAYOUT}"
        )
    task = read_sugarcrepe(data, images)  # the same files in the same order, without the second caption
    return Comparisons(task.rows.assign(caption2=rows["caption2"].tolist()), task.images)


BENCHMARK = Benchmark(
    name="sugarcrepe_pp",
    layout=LAYOUT,
    reader=read_sugarcrepe_pp,
    metrics=("itt", "tot", "p2_vs_n", "accuracy"),
    confirmed=(
        "the public files (tests read all 4,757 rows); metrics: VLMs/test_Variants_CLIP.py of "
        "github.com/Sri-Harsha/scpp"
    ),
    macro=SUBTYPES.__contains__,
)
