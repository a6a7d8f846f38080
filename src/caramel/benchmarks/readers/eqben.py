"""EqBen (Wang et al. 2023): Winoground's form; the images differ little. Frames of videos and drawn scenes."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.pairs import METRICS, Row, file_rows, image_places, pair_task
from caramel.benchmarks.public_files import found
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import json_rows
from caramel.io.validators import name_field

TO_PNG = (
    "import sys, pathlib, numpy, PIL.Image; [PIL.Image.fromarray(numpy.load(p)[:, :, ::-1].copy())"
    ".save(p.with_suffix('.png')) for p in pathlib.Path(sys.argv[1]).rglob('*.npy')]"
)
FILES = ("all_select.json", "eqben_subset_10percent_final.json")
FOLDERS = ("images", "image_subset")
LAYOUT = f"""\
  eqben/eqben_subset_10percent_final.json   the subset of 10 %, from github.com/Wangt-CN/EqBen
or
  eqben/all_select.json                     EqBen-Mini (eqben_vllm.zip), from the same
  eqben/images/eqbenag/… eqbensd/…          the images that it names (also in eqben/image_subset, and in IMAGES)
Frames of eqbenyoucook2 come as arrays in .npy files; write them as .png beside them, once:
  python -c "{TO_PNG}" FOLDER"""


def read_eqben(data: Path, images: Path) -> Comparisons:
    """Return the task of the one annotation file in ``data``.

    Raises:
        DataError: there is none or more than one, it is broken, or frames are still arrays.
    """
    files = found(data, FILES, LAYOUT)
    if len(files) > 1:
        raise DataError(f"{str(data)!r} holds {' and '.join(FILES)}, two data sets. Keep one of them there.")
    listed = [
        (where, row, *(name_field(row, name, where) for name in ("image0", "image1")))
        for where, row in json_rows(files[0])
    ]
    _check_frames([first for *_, first, _ in listed], image_places(data, images, FOLDERS))
    rows = file_rows(
        ((where, row, _picture(first), _picture(second)) for where, row, first, second in listed),
        data,
        images,
        FOLDERS,
    )
    return pair_task(rows, ("caption0", "caption1"), lambda n, row: f"eqben-{n}", _subsets, data)


def _picture(name: str) -> str:
    """Return the name of the picture; arrays are written as pictures beside them."""
    return f"{name.removesuffix('.npy')}.png" if name.endswith(".npy") else name


def _check_frames(names: list[str], places: list[Path]) -> None:
    """Raise DataError where the first frame that is named as an array is there as an array alone."""
    name = next((name for name in names if name.endswith(".npy")), None)
    for place in places if name else ():
        if (place / str(name)).is_file() and not (place / _picture(str(name))).is_file():
            raise DataError(
                f"{str(place / str(name))!r} is an array, not a picture. Write all of them as .png beside them, "
                f"once:\n  python -c \"{TO_PNG}\" '{place}'"
            )


def _subsets(row: Row) -> list[str]:
    """Return the sub-dataset: the first folder of the image's name, such as ``eqbenkubric_cnt``."""
    return list(Path(row.image_id).parts[:-1][:1])


BENCHMARK = Benchmark(
    name="eqben",
    layout=LAYOUT,
    reader=read_eqben,
    metrics=METRICS,
    confirmed=(
        "fields, sub-datasets and arrays: EqBen_Mini in dataset.py of github.com/linzhiqiu/t2v_metrics, and "
        "public code that reads the subset of 10 %; metrics: src/eqben/eqben_acc.py of github.com/Wangt-CN/EqBen. "
        "The annotation of the full set (private_info_global.json) could not be confirmed and is not read; "
        "the other two files were not at hand"
    ),
)
