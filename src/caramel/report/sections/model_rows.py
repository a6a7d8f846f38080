"""What stage ``evaluate`` wrote, as sections on models read it, and which metric and subset a column of theirs shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from caramel.errors import DataError
from caramel.evaluation.results.comparison import DIFFERENCE_COLUMNS
from caramel.evaluation.results.forgetting import RETENTION_MEASURES
from caramel.evaluation.results.summary import VARIANT_COLUMNS, parse_variant
from caramel.report.inputs import read_csv, read_json
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import read_table


class Column(NamedTuple):
    """A column of the main table: title, metric, subset."""

    title: str
    metric: str
    subset: str = "all"


MAIN = (
    Column("SugarCrepe", "accuracy"),
    Column("I2T", "i2t"),
    Column("T2I", "t2i"),
    Column("Group", "group"),
    Column("Group without add", "group", "without_add"),
    Column("GroupMatch", "group_match"),
    Column("ITT", "itt"),
    Column("TOT", "tot"),
)
FINER = (
    Column("SugarCrepe, macro", "accuracy", "macro"),
    Column("P2 vs N", "p2_vs_n"),
    Column("GroupMatch without add", "group_match", "without_add"),
    Column("I_pos2T", "i_pos2t"),
    Column("I_neg2T", "i_neg2t"),
    Column("T_pos2I", "t_pos2i"),
    Column("T_neg2I", "t_neg2i"),
)
FORM, SOURCE_FORM = "instances", "instances_source"  # benchmarks of evaluate
BETWEEN_FORMS = f"{FORM} − {SOURCE_FORM}"  # the first less the second, in differences.csv
RETAINED = frozenset(
    measure.benchmark for measure in RETENTION_MEASURES.values()
)  # that say what a variant lost
Row = dict[Any, Any]


class _RowsByKey(dict[tuple[str, ...], Row]):
    """Rows by their key; a key that is not there is a file that is not complete."""

    def __missing__(self, key: tuple[str, ...]) -> Row:
        raise DataError(f"data/evaluate has no row for {', '.join(key)}. Run `dvc repro -f evaluate`.")


def build_row_index(rows: pd.DataFrame, *keys: str) -> Mapping[tuple[str, ...], Row]:
    """Return each row by its key."""
    return _RowsByKey((tuple(str(row[k]) for k in keys), row) for row in rows.to_dict("records"))


def read_variants(data: Path) -> pd.DataFrame:
    """Return ``variants.csv``.

    Raises:
        Skipped: nothing was evaluated.
        DataError: the file is missing, broken or empty.
    """
    variants = read_csv(data / "evaluate/variants.csv", VARIANT_COLUMNS)
    if variants.empty:
        raise DataError(f"{data / 'evaluate/variants.csv'} holds no model. Run `dvc repro -f evaluate`.")
    if (variants["subset"] == "without_add").any():
        return variants
    # Where all instances are *add* there is no such subset: nothing is known of it.
    empty = variants[variants["subset"] == "all"].assign(subset="without_add", seeds=0)
    empty[["mean", "sd", "ci_low", "ci_high"]] = float("nan")
    return pd.concat([variants, empty], ignore_index=True)


def read_metrics(data: Path) -> pd.DataFrame:
    """Return table ``metrics`` of the base and its variants on the assembled instances, with ``variant``.

    Errors as in ``read_variants``.
    """
    metrics = _read_all_metrics(data)
    return metrics[_is_ours(metrics, read_variants(data))]


def read_source_form(data: Path) -> pd.DataFrame:
    """Return the same of the benchmark's other form; no row where there is none."""
    metrics = _read_all_metrics(data)
    return metrics[metrics["benchmark"] == SOURCE_FORM]


def read_further(data: Path) -> pd.DataFrame:
    """Return the same of what `evaluate.models` and `evaluate.benchmarks` add."""
    metrics, variants = _read_all_metrics(data), read_variants(data)
    retained = metrics["benchmark"].isin(RETAINED) & metrics["variant"].isin(variants["variant"])
    known = _is_ours(metrics, variants) | (metrics["benchmark"] == SOURCE_FORM) | retained
    return metrics[~known]


def read_differences(data: Path, benchmark: str) -> pd.DataFrame:
    """Return ``differences.csv`` of one form of the assembled instances; no row where there is none.

    Errors as in ``read_variants``.
    """
    rows = read_csv(data / "evaluate/differences.csv", DIFFERENCE_COLUMNS)
    return rows[rows["benchmark"] == benchmark]


def _read_all_metrics(data: Path) -> pd.DataFrame:
    """Return table ``metrics`` with the variant of each model."""
    read_json(data / "evaluate/metrics.json")  # says why, if the stage was skipped
    metrics = read_table(METRICS, data / "evaluate/metrics.parquet")
    return metrics.assign(variant=metrics["model"].map(parse_variant))


def _is_ours(metrics: pd.DataFrame, variants: pd.DataFrame) -> pd.Series:
    """Return which rows are of the base and its variants on the assembled instances."""
    return (metrics["benchmark"] == FORM) & metrics["variant"].isin(variants["variant"])
