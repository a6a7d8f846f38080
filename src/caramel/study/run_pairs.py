"""Pair the runs of two variants by cell and seed."""

from __future__ import annotations

import pandas as pd

from caramel.evaluation.results.summary import BASE
from caramel.study.cells import Cell


def pair_runs(rows: pd.DataFrame, variant: str, against: str) -> pd.DataFrame:
    """Return the rows of ``variant`` with ``value_against`` of the same scenes, generator, base, metric, subset and seed.

    The base has no fine-tuning seed and is paired with all seeds of its cell. NaN: the other was not measured.

    Args:
        rows: of table ``study``.
        variant, against: names of models.
    """
    shared = [*Cell._fields, "metric", "subset", *([] if against == BASE else ["finetune"])]
    ours, other = (rows[rows["variant"] == name] for name in (variant, against))
    return ours.merge(other[[*shared, "value"]], "left", shared, suffixes=("", "_against"))
