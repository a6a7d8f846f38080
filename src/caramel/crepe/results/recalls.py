"""Read recalls of CREPE's sets from a folder of results, and tabulate those of plain retrieval (tables 15 and 16)."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from caramel.errors import DataError
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import read_table

SYSTEMATICITY, PRODUCTIVITY, RETRIEVAL = "crepe_systematicity", "crepe_productivity", "crepe_retrieval"
SPLITS = {"sc": "seen compounds", "uc": "unseen compounds", "ua": "unseen atoms"}
_SYSTEMATICITY = r"(?P<corpus>[\w-]+)/(?P<split>sc|uc|ua)/(?P<type>atom|comp|both)"
_PRODUCTIVITY = r"(?P<type>atom|swap|negate|all_types)/n(?P<n>\d+)"
_FOLD = re.compile(r"(?P<direction>i2t|t2i)/(?P<split>.+)/fold\d+")


def read_recalls(results: Path) -> pd.DataFrame:
    """Return the rows of recall at 1 on CREPE's sets and of zero-shot classification: table ``metrics`` in part.

    Args:
        results: folder that `caramel eval` wrote.

    Raises:
        DataError: the folder has no results, or none of CREPE.
    """
    path = results / "metrics.parquet"
    if not path.is_file():
        raise DataError(
            f"{str(results)!r} has no metrics.parquet: give the folder that `caramel eval` wrote to --out."
        )
    rows = read_table(METRICS, path)
    rows = rows[(rows["metric"] == "recall@1") & rows["value"].notna()]
    if not rows["benchmark"].isin([SYSTEMATICITY, PRODUCTIVITY, RETRIEVAL]).any():
        raise DataError(
            f"{str(path)!r} has no recall at 1 on {SYSTEMATICITY}, {PRODUCTIVITY} or {RETRIEVAL}. Score models on them: "
            f"`caramel eval --benchmark {SYSTEMATICITY},{PRODUCTIVITY}`."
        )
    return rows.reset_index(drop=True)


def select_systematicity(recalls: pd.DataFrame) -> pd.DataFrame:
    """Return (model, corpus, split, type, value) of the systematicity set, in per cent."""
    return _select_subsets(recalls, SYSTEMATICITY, _SYSTEMATICITY)


def select_productivity(recalls: pd.DataFrame) -> pd.DataFrame:
    """Return (model, type, n, value) of the productivity set, in per cent; n is the number of atoms."""
    rows = _select_subsets(recalls, PRODUCTIVITY, _PRODUCTIVITY)
    return rows.assign(n=rows["n"].astype(int))


def select_imagenet(recalls: pd.DataFrame) -> dict[str, float]:
    """Return model -> accuracy of zero-shot classification in per cent: recall at 1 on benchmark ``zero_shot``."""
    rows = recalls[(recalls["benchmark"] == "zero_shot") & (recalls["subset"] == "all")]
    return {str(model): 100 * float(value) for model, value in zip(rows["model"], rows["value"], strict=True)}


def summarise_retrieval(recalls: pd.DataFrame) -> pd.DataFrame:
    """Return the mean and the standard deviation of recall at 1 over folds, in per cent: tables 15 and 16.

    Columns: model, direction, split, mean, sd (0 divided by the number of folds, as of a population), folds.
    """
    rows = recalls[recalls["benchmark"] == RETRIEVAL]
    parts = rows["subset"].str.extract(_FOLD).dropna()
    folds = rows.join(parts, how="inner")
    grouped = (100 * folds["value"]).groupby(
        [folds["model"], folds["direction"], folds["split"]], sort=False, observed=True
    )
    table = grouped.agg(mean="mean", sd=lambda values: values.std(ddof=0), folds="size")
    return table.reset_index()


def _select_subsets(recalls: pd.DataFrame, benchmark: str, pattern: str) -> pd.DataFrame:
    rows = recalls[recalls["benchmark"] == benchmark]
    parts = rows["subset"].str.extract(f"^{pattern}$").dropna()
    named = parts.join(rows[["model", "value"]])
    return named.assign(value=100 * named["value"].astype(float)).reset_index(drop=True)
