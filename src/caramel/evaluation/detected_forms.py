"""The forms of the assembled benchmark as detectors of what is synthetic learn and are asked."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from caramel import tables
from caramel.storage.image_store import Pictures

FORMS = ("instances", "instances_source")
POSITIVE, NEGATIVE = ("image_id", "caption"), ("negative_image_id", "negative_caption")


@dataclass(frozen=True)
class Form:
    """A form of the benchmark, and what detectors learn for it.

    Attributes:
        name: of the form.
        learnt: rows of ``POSITIVE`` and ``NEGATIVE`` with ``split``: train and val.
        asked: table ``instances`` of the split that is judged.
        pictures: image_id -> encoded file, of the images of both.
    """

    name: str
    learnt: pd.DataFrame
    asked: pd.DataFrame
    pictures: Callable[[str], bytes]


def form_of(name: str, instances: str, training: str, pairs: str, indices: Sequence[str], split: str) -> Form:
    """Return a form of the benchmark that stage ``assemble`` wrote.

    Args:
        name: of ``FORMS``.
        instances: path of its table.
        training: path of the table. Its positive images are those of ``instances``.
        pairs: path of the source's pairs, whose images are the positives of ``instances_source``.
        indices: paths of the tables of images; where two have an image, that of the first is taken.
        split: of the instances that are judged.
    """
    known = [Pictures(path, tables.read(tables.IMAGES, path)) for path in indices]
    source = tables.read(tables.PAIRS, pairs)
    own = dict(zip(source["pair_id"].astype(str), source["image_id"].astype(str), strict=True))
    rows = tables.read(tables.INSTANCES, instances)
    learnt = learnt_rows(tables.read(tables.TRAINING, training), own if name == "instances_source" else None)
    return Form(name, learnt, rows[rows["split"] == split], ChainMap(*known).__getitem__)  # type: ignore[arg-type]


def learnt_rows(training: pd.DataFrame, images: Mapping[str, str] | None) -> pd.DataFrame:
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
