"""COLA, multi-object setting (Ray et al. 2023): two images and two captions whose attributes are swapped.

Its accuracy asks for the image of each caption and never for the caption of an image: it is ``t2i``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from caramel.benchmarks.pairs import build_file_rows, build_pair_task, find_release_folder
from caramel.benchmarks.visual_genome import FOLDERS
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import read_json_rows
from caramel.io.validators import format_value, read_text_field, validate_name

FILE = "COLA_multiobjects_matching_benchmark.json"
LAYOUT = f"""\
  cola/{FILE}    from github.com/arijitray1993/COLA, folder data (also in cola/data)
  cola/images/2414605.jpg …    the images that its links name, which are Visual Genome's (also in IMAGES, or
                                 in IMAGES/VG_100K and IMAGES/VG_100K_2)"""
FIELDS = ("image 1", "caption 1", "image 2", "caption 2")


def read_cola(data: Path, images: Path) -> Comparisons:
    """Return the task of the multi-object file in ``data``.

    Raises:
        DataError: it is missing or broken.
    """
    folder = find_release_folder(data, (FILE,), ("data",), LAYOUT)
    rows = build_file_rows(_iter_rows(folder / FILE), folder, images, ("images", "vg_gqa_images", *FOLDERS))
    return build_pair_task(
        rows, ("caption 1", "caption 2"), lambda n, row: f"cola-{n}", lambda row: [], folder
    )


def _iter_rows(path: Path) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Yield where, fields and image names of each row [link 1, caption 1, link 2, caption 2]."""
    for where, row in read_json_rows(path):
        if not isinstance(row, list) or len(row) != len(FIELDS):
            raise DataError(f"{where} must be a list of {', '.join(FIELDS)}, not {format_value(row)}.")
        fields = dict(zip(FIELDS, row, strict=True))
        links = ((name, read_text_field(fields, name, where)) for name in ("image 1", "image 2"))
        first, second = (validate_name(link.rpartition("/")[2], name, where) for name, link in links)
        yield where, fields, first, second


BENCHMARK = Benchmark(
    name="cola",
    layout=LAYOUT,
    reader=read_cola,
    metrics=("t2i",),
    confirmed=(
        "README.md and scripts/eval.py (ColaMultiObjAcc) of github.com/arijitray1993/COLA, and the released file; tests read "
        "all its 210 rows"
    ),
)
