"""Data sets in the format of the table ``instances``, which the pipeline assembles.

One table serves SugarCrepe (C0, C1 against I0), SugarCrepe++ (C2 as well) and BiVLC (I1 as well).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from caramel.benchmarks.metrics import METRICS
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import ABSENT, Benchmark, Comparisons, ImageFile
from caramel.io.validators import format_value
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table


def read_instances(data: Path, images: Path, split: str | None = None) -> Comparisons:
    """Return the task of ``instances.parquet`` and ``images.parquet`` in the folder ``data``.

    Args:
        data: folder of both tables.
        images: not used: the images are in their table.
        split: split of the instances to score; None: all.

    Raises:
        DataError: a table is missing or broken, the split has no instance, or an image is not in the
            images table.
    """
    return _read_task(data / "instances.parquet", split)


def read_source_form(data: Path, images: Path, split: str | None = None) -> Comparisons:
    """Return the task of ``instances_source.parquet``, whose positive images are those of the source.

    See ``read_instances``. The stage ``assemble`` writes it if the positive images of ``instances.parquet``
    are drawn.
    """
    return _read_task(data / "instances_source.parquet", split)


def _read_task(path: Path, split: str | None) -> Comparisons:
    """Return the task of a table ``instances`` and ``images.parquet`` beside it; see ``read_instances``."""
    rows = read_table(INSTANCES, path)
    chosen = rows if split is None else rows[rows["split"] == split]
    if chosen.empty:
        raise DataError(
            f"{path} has no instance of split {split!r} ({len(rows)} of other splits): nothing can be "
            f"scored. Set evaluate.split, or draw more negatives (synthesize.per_subtype)."
        )
    store = path.parent / "images.parquet"
    known = {*read_table(IMAGES, store, ["image_id"])["image_id"]}
    used = dict.fromkeys([*chosen["image_id"], *chosen["negative_image_id"].dropna()])
    lacking = sorted(name for name in used if name not in known)
    if lacking:
        raise DataError(
            f"{len(lacking)} images of {path} are not in {store}:\n{format_items([format_value(i) for i in lacking])}\n"
            f"Run `dvc repro assemble`."
        )
    at = {name: i for i, name in enumerate(used)}
    return build_comparisons(
        [
            {
                "instance_id": row.instance_id,
                "image_id": row.image_id,
                "subsets": list_subsets(str(row.type), str(row.subtype), str(row.compounds or "")),
                "image": at[row.image_id],
                "negative_image": at.get(row.negative_image_id, ABSENT),
                "caption": row.caption,
                "negative_caption": row.negative_caption,
                "caption2": row.caption2,
            }
            for row in chosen.replace({np.nan: None}).itertuples()
        ],
        [ImageFile(str(store), name=name) for name in used],
    )


def list_subsets(negative_type: str, subtype: str, compounds: str) -> list[str]:
    """Return the instance's subsets: ``without_add`` and its ``seen`` or ``unseen`` part, type, subtype.

    An *add* negative is longer by construction, and its positive caption may stay true of the negative image.
    Metrics are therefore also given without these. That part is also split by whether train shows everything
    that the captions compose. ``compounds`` is empty if that is not known.
    """
    headline = [] if negative_type == "add" else ["without_add", *([compounds] if compounds else [])]
    return [*headline, negative_type, subtype]


BENCHMARK = Benchmark(
    name="instances",
    layout="instances.parquet and images.parquet as `dvc repro` writes them into data/assemble",
    reader=read_instances,
    metrics=tuple(name for name in METRICS if name != "image_accuracy"),  # t_pos2i if both images exist
    confirmed="the contract in src/caramel/schemas",
    macro=SUBTYPES.__contains__,
)
SOURCE_FORM = replace(
    BENCHMARK,
    name="instances_source",
    layout="instances_source.parquet and images.parquet as `dvc repro` writes them into data/assemble",
    reader=read_source_form,
)
