"""A benchmark in one CSV file: an image, its caption and a hard negative."""

from __future__ import annotations

from pathlib import Path

from caramel.benchmarks.public_files import find_release_files, locate_images
from caramel.benchmarks.tasks import build_comparisons
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import iter_csv_rows
from caramel.io.validators import read_name_field, read_text_field

LAYOUT = """\
  my_pairs/pairs.csv   columns image, subset, caption, negative_caption
  my_pairs/images/…    the images (also in IMAGES)"""
COLUMNS = ("image", "subset", "caption", "negative_caption")


def read_pairs(data: Path, images: Path) -> Comparisons:
    """Return the task of the file in ``data``.

    Raises:
        DataError: the file is missing or broken.
    """
    (path,) = find_release_files(data, ["pairs.csv"], LAYOUT)
    rows: list[dict[str, object]] = []
    image_indices: dict[str, int] = {}
    for number, (where, row) in enumerate(iter_csv_rows(path, COLUMNS)):
        name = read_name_field(row, "image", where)
        rows.append(
            {
                "instance_id": str(number),
                "image_id": name,
                "subsets": [read_text_field(row, "subset", where)],
                "image": image_indices.setdefault(name, len(image_indices)),
                "caption": read_text_field(row, "caption", where),
                "negative_caption": read_text_field(row, "negative_caption", where),
            }
        )
    files = locate_images(images, list(image_indices), ["images"])
    return build_comparisons(rows, [ImageFile(str(path)) for path in files])


BENCHMARK = Benchmark(
    name="my_pairs",
    layout=LAYOUT,
    reader=read_pairs,
    metrics=("accuracy",),
    confirmed="its own files",
)
