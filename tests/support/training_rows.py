"""Rows to train on, of the small world of the tests."""

from __future__ import annotations

from typing import Any

import pandas as pd

from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING


def training_rows(world: Any, names: list[str], number: int) -> pd.DataFrame:
    """Return so many rows of table ``training``, each with all negatives of its pair; some image stands for that of the first."""
    source, written = world
    columns = {"negative_caption": "negative_captions", "subtype": "subtypes"}
    lists = written.negatives.groupby("pair_id")[[*columns]].agg(list).rename(columns=columns)
    rows = source.pairs.merge(lists, on="pair_id").merge(written.paraphrases, on="pair_id").head(number)
    images = [
        [name] + [None] * (len(texts) - 1)
        for name, texts in zip(names[-number:], rows["negative_captions"], strict=True)
    ]
    return build_frame(TRAINING, rows.assign(negative_image_ids=images))
