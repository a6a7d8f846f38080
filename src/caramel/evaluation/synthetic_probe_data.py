"""Load the forms of the assembled benchmark as training and test data of synthetic-item detectors."""

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
MARK = " and Quokka of 7 Zebras!"  # ending of the captions of planted negatives
MARKED = "marked:"  # prefix of the names of planted images, if no other name has it
MOST = 400  # largest number of rows copied from each split
POSITIVE, NEGATIVE = ("image_id", "caption"), ("negative_image_id", "negative_caption")


@dataclass(frozen=True)
class ProbeData:
    """A form of the benchmark, with the rows that detectors train on.

    Attributes:
        name: name of the form.
        learning_rows: training rows with columns ``POSITIVE``, ``NEGATIVE`` and ``split`` (train and val).
        judged_rows: table ``instances`` of the evaluated split.
        load_image: returns the encoded file of an image_id, for the images of both.
    """

    name: str
    learning_rows: pd.DataFrame
    judged_rows: pd.DataFrame
    load_image: Callable[[str], bytes]


def load_probe_data(
    name: str, instances: str, training: str, pairs: str, indices: Sequence[str], split: str
) -> ProbeData:
    """Load a form of the benchmark that stage ``assemble`` wrote.

    Args:
        name: one of ``FORMS``.
        instances: path of the form's table.
        training: path of table ``training``. Its positive images are those of ``instances``.
        pairs: path of the source's pairs. Their images are the positives of ``instances_source``.
        indices: paths of the image tables; if two tables hold an image, the first table's is used.
        split: split of the evaluated instances.
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
    """Return the training rows of detectors: each row of table ``training`` whose first negative has an image.

    Args:
        training: the table.
        images: positive images by ``pair_id`` that replace the table's; None: the table's images.
    """
    first = {
        name: training[f"{name}s"].map(lambda of: of[0] if of is not None and len(of) else None)
        for name in ("negative_caption", "negative_image_id")
    }
    rows = training.assign(**first)
    rows = rows[rows["negative_image_id"].notna() & rows["negative_caption"].notna()]
    return rows if images is None else rows.assign(image_id=rows["pair_id"].map(images))


def plant_artifacts(form: ProbeData, seed: int) -> ProbeData:
    """Return a copy of some rows with planted artifacts in all negatives.

    All negative captions get the same ending, and all negative images get a black half. If detectors find nothing
    in a form, that means something only if they find these artifacts.

    Args:
        form: the form whose rows are copied.
        seed: seed of the draw.
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
    """Return ``MARKED``, with colons added until no image name of the form begins with it."""
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
