"""The forms of the assembled benchmark as detectors of what is synthetic learn and are asked."""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from caramel.io.image_codec import decode_image
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.training import TRAINING
from caramel.utils.hashing import compute_stable_keys

FORMS = ("instances", "instances_source")
PLANTED = "planted"  # the form of the positive control
MARK = " and Quokka of 7 Zebras!"  # what captions of planted negatives end in
MARKED = "marked:"  # what names of planted images begin with, where no other name does
MOST = 400  # rows of each split that are copied
POSITIVE, NEGATIVE = ("image_id", "caption"), ("negative_image_id", "negative_caption")


@dataclass(frozen=True)
class ProbeData:
    """A form of the benchmark, and what detectors learn for it.

    Attributes:
        name: of the form.
        learning_rows: rows of ``POSITIVE`` and ``NEGATIVE`` with ``split``: train and val.
        judged_rows: table ``instances`` of the split that is judged.
        load_image: image_id -> encoded file, of the images of both.
    """

    name: str
    learning_rows: pd.DataFrame
    judged_rows: pd.DataFrame
    load_image: Callable[[str], bytes]


def load_probe_data(
    name: str, instances: str, training: str, pairs: str, indices: Sequence[str], split: str
) -> ProbeData:
    """Return a form of the benchmark that stage ``assemble`` wrote.

    Args:
        name: of ``FORMS``.
        instances: path of its table.
        training: path of the table. Its positive images are those of ``instances``.
        pairs: path of the source's pairs, whose images are the positives of ``instances_source``.
        indices: paths of the tables of images; where two have an image, that of the first is taken.
        split: of the instances that are judged.
    """
    known = [ImageStore(path, read_table(IMAGES, path)) for path in indices]
    source = read_table(PAIRS, pairs)
    image_ids = dict(zip(source["pair_id"].astype(str), source["image_id"].astype(str), strict=True))
    rows = read_table(INSTANCES, instances)
    learnt = select_learning_rows(
        read_table(TRAINING, training), image_ids if name == "instances_source" else None
    )
    return ProbeData(name, learnt, rows[rows["split"] == split], ChainMap(*known).__getitem__)  # type: ignore[arg-type]


def select_learning_rows(training: pd.DataFrame, images: Mapping[str, str] | None) -> pd.DataFrame:
    """Return what detectors learn on of table ``training``: each row with its first negative, where that has an image.

    Args:
        training: the table.
        images: other positive images by ``pair_id``; None: those of the table.
    """
    first = {
        name: training[f"{name}s"].map(lambda of: of[0] if of is not None and len(of) else None)
        for name in ("negative_caption", "negative_image_id")
    }
    rows = training.assign(**first)
    rows = rows[rows["negative_image_id"].notna() & rows["negative_caption"].notna()]
    return rows if images is None else rows.assign(image_id=rows["pair_id"].map(images))


def plant_artifacts(form: ProbeData, seed: int) -> ProbeData:
    """Return a copy of some rows whose negative captions all end alike, and whose negative images all have a black half.

    Detectors that find nothing in a form say something only if they find this.

    Args:
        form: of which rows are copied.
        seed: of the draw.
    """
    prefix = _find_unused_prefix(form)

    def mark_rows(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.iloc[np.argsort(compute_stable_keys(rows["caption"], seed), kind="stable")]
        rows = rows.groupby("split", sort=False).head(MOST)
        captions = rows["negative_caption"].str.rstrip(" .") + MARK
        return rows.assign(negative_caption=captions, negative_image_id=prefix + rows["negative_image_id"])

    def load_image(name: str) -> bytes:
        plain = name.removeprefix(prefix)
        return form.load_image(name) if plain == name else _fill_half_black(form.load_image(plain))

    return replace(
        form,
        name=PLANTED,
        learning_rows=mark_rows(form.learning_rows),
        judged_rows=mark_rows(form.judged_rows),
        load_image=load_image,
    )


def _find_unused_prefix(form: ProbeData) -> str:
    """Return ``MARKED``, with as many further colons as it takes for no image of the form to be called so."""
    columns = (POSITIVE[0], NEGATIVE[0])
    names = {
        name for rows in (form.learning_rows, form.judged_rows) for column in columns for name in rows[column]
    }
    prefix = MARKED
    while any(str(name).startswith(prefix) for name in names):
        prefix += ":"
    return prefix


def _fill_half_black(data: bytes) -> bytes:
    image = decode_image(data, PLANTED)
    image.paste((0, 0, 0), (0, image.height // 2, image.width, image.height))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
