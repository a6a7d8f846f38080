"""Convert the task of a registered benchmark to audit rows: a caption and one hard negative each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.audit.files.columns import fill_type_names
from caramel.errors import DataError
from caramel.interfaces.benchmark import ABSENT, Comparisons, ImageFile, Rankings, Task

PAIR = ("pair_id", "image_id", "subsets", "caption", "negative_caption", "image")
MOST_CANDIDATES = 20  # a query with more candidates is retrieval, without hard negatives
# Benchmarks whose subsets are a type and its subtypes. In other benchmarks, the subsets divide all rows once.
NESTED = ("bivlc", "valse", "vl_checklist", "crepe_productivity")
LocatedRows = tuple[pd.DataFrame, dict[str, ImageFile]]  # rows, and the available images by name


def build_task_rows(name: str, task: Task, where: str) -> LocatedRows:
    """Return the rows of a registered benchmark, and its available images.

    Raises:
        DataError: the benchmark has no hard negatives.
    """
    files = find_files(task.images)
    rows = _build_comparison_rows(task) if isinstance(task, Comparisons) else _build_candidate_rows(task)
    if rows is None:
        raise DataError(
            f"{where} is the benchmark {name}. Its captions have no hard negatives, so it cannot be solved without "
            f"images and cannot be audited. Give a data set with hard negatives."
        )
    keys = [str(image) for image in task.images]
    for column in ("image", "negative_image"):
        rows[column] = build_object_series(
            [keys[i] if i != ABSENT and keys[i] in files else None for i in rows[column]]
        )
    types, subtypes = list_types(name, rows)
    return rows.assign(type=types, subtype=subtypes), files


def list_types(name: str, rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return type and subtype of each row of a benchmark, from column ``subsets``."""
    labels = [_parse_subsets(name, subsets) for subsets in rows["subsets"]]
    return fill_type_names([label for label, _ in labels]), fill_type_names([label for _, label in labels])


def _parse_subsets(name: str, subsets: Sequence[str]) -> tuple[str | None, str | None]:
    """Return type and subtype of a row of a benchmark; None if it has none."""
    if not subsets:
        return None, None
    if name == "crepe_systematicity":  # training data, split, type; the first two do not describe the texts
        return (subsets[0].rpartition("/")[2],) * 2
    return (subsets[0], subsets[min(1, len(subsets) - 1)]) if name in NESTED else (None, subsets[0])


def _build_comparison_rows(task: Comparisons) -> pd.DataFrame | None:
    """Return a row per instance; None if there are no negative captions."""
    rows = task.rows[task.rows["negative_caption"].notna()]
    return rows.rename(columns={"instance_id": "pair_id"}).reset_index(drop=True) if len(rows) else None


def _build_candidate_rows(task: Rankings) -> pd.DataFrame | None:
    """Return a row per image and false caption; None if the candidates are not hard negatives.

    Candidates are hard negatives if they are texts, if there are few, and if each pool belongs to one query.
    """
    rows = task.rows[task.rows["direction"] == "i2t"]
    most = max((len(task.pools[index]) for index in rows["pool"]), default=0)
    if most < 2 or most > MOST_CANDIDATES or rows["pool"].duplicated().any():
        return None
    first_subsets: dict[tuple[int, str, str], str] = {}  # question -> the first subset that contains it
    records = []
    columns = (
        rows[name].tolist() for name in ("instance_id", "image_id", "subsets", "query", "pool", "true")
    )
    for name, image_id, subsets, query, pool, true in zip(*columns, strict=True):
        caption, subset = task.texts[true[0]][0], subsets[0] if subsets else ""
        false = [task.texts[index][0] for index in task.pools[pool].tolist() if index not in true]
        for number, negative in enumerate(false):
            if first_subsets.setdefault((query, caption, negative), subset) == subset:
                pair = f"{name}-{number}", image_id, subsets, caption, negative, query
                records.append(dict(zip(PAIR, pair, strict=True)))
    return pd.DataFrame(records).assign(caption2=None, negative_image=ABSENT)


def find_files(images: Any) -> dict[str, ImageFile]:
    """Return the images whose files exist, by name."""
    exists: dict[str, bool] = {}
    files = {}
    for image in images:
        if exists.setdefault(image.path, Path(image.path).is_file()):
            files[str(image)] = image
    return files


def build_object_series(values: Sequence[str | None]) -> pd.Series[Any]:
    """Return the values as a series of dtype object, because dtype str would turn None into NaN."""
    return pd.Series(values, dtype=object)
