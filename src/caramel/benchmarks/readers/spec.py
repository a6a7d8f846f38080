"""SPEC (Peng et al. 2024): size, position, existence and count, in both directions.

A test case is an image and texts that differ in a single concept, or a text and images that do. The true one
must score highest among them all. There are six subsets. The mean is taken over each subset in each
direction, so it equals the mean of the two averages that the authors print.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from caramel.benchmarks.public_files import find_release_files, locate_files
from caramel.benchmarks.tasks import Choice, build_choices
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Direction, ImageFile, Rankings
from caramel.io.readers import read_json_rows
from caramel.io.validators import (
    format_value,
    read_list_field,
    read_name_field,
    read_number_field,
    read_text_field,
)

PARTS = ("absolute_size", "relative_size", "absolute_spatial", "relative_spatial", "existence", "count")
FILES: dict[Direction, str] = {"i2t": "image2text.json", "t2i": "text2image.json"}
NAMES = tuple(f"{part}/{file}" for part in PARTS for file in FILES.values())
LAYOUT = """\
  spec/absolute_size/image2text.json …     from data.zip at huggingface.co/datasets/wjpoom/SPEC, unpacked (also in
  spec/absolute_size/text2image.json …     spec/data); the other folders are relative_size, absolute_spatial,
                                           relative_spatial, existence and count
  spec/absolute_size/…                     the images that these files name (also in IMAGES/absolute_size)"""


def read_spec(data: Path, images: Path) -> Rankings:
    """Return the task of all subsets that exist, in the directions that exist.

    Raises:
        DataError: no file exists, or one is broken.
    """
    release = data / "data" if (data / "data").is_dir() else data
    rows = [row for path in find_release_files(release, NAMES, LAYOUT) for row in _iter_choices(path)]
    names = list(dict.fromkeys(name for row in rows for name in _iter_image_names(row)))
    files = locate_files([images, images / "data", release], names) or [images / name for name in names]
    return build_choices(
        rows, [(name, ImageFile(str(path))) for name, path in zip(names, files, strict=True)]
    )


def _iter_image_names(row: Choice) -> Iterator[str]:
    """Yield the names of a row's images."""
    yield from [row.query] if row.direction == "i2t" else row.options


def _iter_choices(path: Path) -> Iterator[Choice]:
    """Yield the rows of a file. Images are named relative to the folder of all subsets."""
    part, direction = path.parent.name, next(d for d, file in FILES.items() if file == path.name)
    rows = read_json_rows(path)
    if not rows:
        raise DataError(f"{str(path)!r} has no rows. Download it again.")
    for number, (where, row) in enumerate(rows):
        options = [
            _parse_item(text, "keys", where, part, direction == "t2i") for text in _read_options(row, where)
        ]
        query = _parse_item(row.get("query"), "query", where, part, direction == "i2t")
        true = read_number_field(row, "label", where)
        if not 0 <= true < len(options):
            raise DataError(
                f"{where}: field 'label' must be an index into its {len(options)} 'keys', not {true}."
            )
        if direction == "t2i" and len(set(options)) < len(options):
            raise DataError(f"{where}: field 'keys' names an image twice: {format_value(options)}.")
        image = query if direction == "i2t" else options[true]
        yield Choice(
            f"{part}/{direction}-{number}",
            image,
            [f"{direction}/{part}", direction],
            direction,
            query,
            options,
            true,
        )


def _read_options(row: Any, where: str) -> list[Any]:
    """Return the options of a row."""
    keys = read_list_field(row, "keys", where)
    if len(keys) < 2:
        raise DataError(f"{where}: field 'keys' must list the options, not {format_value(keys)}.")
    return keys


def _parse_item(value: Any, field: str, where: str, part: str, image: bool) -> str:
    """Return a text, or the name of an image."""
    row = {field: value}
    return f"{part}/{read_name_field(row, field, where)}" if image else read_text_field(row, field, where)


BENCHMARK = Benchmark(
    name="spec",
    layout=LAYOUT,
    reader=read_spec,
    metrics=("recall@1",),
    confirmed="github.com/wjpoom/SPEC: spec/dataset.py (files and fields), spec/models/clip_wrapper.py and spec/eval.py "
    "(accuracy per subset and direction, and their averages), README.md (download); the files themselves were not available",
    macro=lambda subset: "/" in subset,
)
