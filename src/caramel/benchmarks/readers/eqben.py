"""EqBen (Wang et al. 2023): Winoground's form with similar images, from video frames and rendered scenes."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.pairs import METRICS, Row, build_file_rows, build_pair_task, list_image_folders
from caramel.benchmarks.public_files import find_release_files
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons
from caramel.io.readers import read_json_rows
from caramel.io.validators import read_name_field

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
Frames of eqbenyoucook2 come as arrays in .npy files. Write them once as .png beside the arrays:
  python -c "{TO_PNG}" FOLDER"""


def read_eqben(data: Path, images: Path) -> Comparisons:
    """Return the task of the one annotation file in ``data``.

    Raises:
        DataError: no file or more than one exists, the file is broken, or frames are still arrays.
    """
    files = find_release_files(data, FILES, LAYOUT)
    if len(files) > 1:
        raise DataError(f"{str(data)!r} holds {' and '.join(FILES)}, two data sets. Keep only one of them.")
    listed = [
        (where, row, *(read_name_field(row, name, where) for name in ("image0", "image1")))
        for where, row in read_json_rows(files[0])
    ]
    _check_frames([first for *_, first, _ in listed], list_image_folders(data, images, FOLDERS))
    rows = build_file_rows(
        (
            (where, row, _replace_npy_suffix(first), _replace_npy_suffix(second))
            for where, row, first, second in listed
        ),
        data,
        images,
        FOLDERS,
    )
    return build_pair_task(rows, ("caption0", "caption1"), lambda n, row: f"eqben-{n}", _list_subsets, data)


def _replace_npy_suffix(name: str) -> str:
    """Return the name of the image. Arrays are saved as images beside them."""
    return f"{name.removesuffix('.npy')}.png" if name.endswith(".npy") else name


def _check_frames(names: list[str], folders: list[Path]) -> None:
    """Raise DataError if the first frame that is named as an array exists only as an array."""
    name = next((name for name in names if name.endswith(".npy")), None)
    for folder in folders if name else ():
        if (folder / str(name)).is_file() and not (folder / _replace_npy_suffix(str(name))).is_file():
            raise DataError(
                f"{str(folder / str(name))!r} is an array, not an image. Write all arrays once as .png beside "
                f"them:\n  python -c \"{TO_PNG}\" '{folder}'"
            )


def _list_subsets(row: Row) -> list[str]:
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
        "the other two files were not available"
    ),
)
