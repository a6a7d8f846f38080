"""Compare two versions: parameters, code, rows of each table, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.evaluation.results.comparison import compare_versions
from caramel.io.safe_yaml import flatten_mapping
from caramel.release.pin_file import Pin
from caramel.release.pinned_tables import read_version_table
from caramel.release.rescoring import get_scoring_settings
from caramel.release.resolve import VersionImages
from caramel.runtime.git import query_git
from caramel.schemas.catalogue import TABLES
from caramel.schemas.columns import LAYOUT
from caramel.utils.stats import format_p

RESULTS = "data/evaluate/similarities.parquet"
CODE = ("src", "code", "pipelines", "expectations", "dvc.yaml")  # in git
IMAGES_SHOWN = 24  # of an index and a side, at most
METRIC_COLUMNS = [
    "model",
    "benchmark",
    "subset",
    "metric",
    "value_b",
    "value_a",
    "difference",
    "ci_low",
    "ci_high",
    "p",
    "p_least",
    "p_holm",
]


@dataclass(frozen=True)
class TableDiff:
    """Differences between the rows of one table, matched by its key."""

    path: str
    added: int
    removed: int
    changed: int
    columns: dict[str, int]  # column -> number of common rows with another value in it
    by_subtype: dict[str, list[int]]  # subtype -> [added, removed]
    reasons: dict[str, int]  # "stage: reason" in the new version's rejects -> number of removed rows


@dataclass(frozen=True)
class VersionDiff:
    """Differences of the new version from the old one."""

    old: str
    new: str
    params: dict[str, list[Any]]  # dotted key -> [old value, new value]
    code: list[str] | None  # files that differ between the two commits; None: git does not know both
    tables: list[TableDiff]
    only_old: list[str]  # tables
    only_new: list[str]
    metrics: list[
        dict[str, Any]
    ]  # new (a) against old (b), paired by instance, where both scored the same instances
    unpaired: dict[str, str]  # "model and benchmark" -> why its metrics are not compared

    def to_dict(self) -> dict[str, Any]:
        """Return the differences as plain data for JSON; a number that was not measured is None."""
        metrics = [
            {
                name: None if isinstance(value, float) and np.isnan(value) else value
                for name, value in row.items()
            }
            for row in self.metrics
        ]
        return asdict(self) | {"metrics": metrics}


def diff_versions(before: Pin, after: Pin, root: Path) -> VersionDiff:
    """Return how version ``after`` differs from version ``before``.

    The rows of both versions must be on disk or in DVC's cache.

    Raises:
        DataError: rows are neither on disk nor in the cache.
    """
    both = [path for path in before.tables if path in after.tables]
    other = [path for path in both if before.tables[path].content != after.tables[path].content]
    rejects = _load_reject_reasons(after, root)
    table_diffs = [_diff_table(path, before, after, root, rejects) for path in other]
    return VersionDiff(
        before.name,
        after.name,
        _diff_params(before.params, after.params),
        _diff_code(before.commit, after.commit, root),
        [table for table in table_diffs if table is not None],
        [path for path in before.tables if path not in after.tables],
        [path for path in after.tables if path not in before.tables],
        *(_diff_metrics(before, after, root) if RESULTS in other else ([], {})),
    )


def _diff_params(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[Any]]:
    before, after = flatten_mapping(old), flatten_mapping(new)
    keys = [*after, *(key for key in before if key not in after)]
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def _diff_code(old: str, new: str, root: Path) -> list[str] | None:
    """Return the files of code and stages that differ between two commits; None if git does not know both.

    Raises:
        ResourceError: git fails.
    """
    commits = [commit.removesuffix("-dirty") for commit in (old, new)]
    for commit in commits:
        if query_git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", folder=root) is None:
            return None
    # A plumbing command: neither the repository's settings nor its attributes can run another diff program.
    command = ("diff-tree", "-r", "-z", "--name-only", "--relative", "--no-ext-diff", *commits, "--", *CODE)
    names = query_git(*command, folder=root) or b""
    return [name for name in names.decode(errors="replace").split("\0") if name]


def _load_reject_reasons(pinned: Pin, root: Path) -> dict[str, str]:
    """Return id -> "stage: reason" for all rejects of a version."""
    reasons: dict[str, str] = {}
    for path in (path for path in pinned.tables if path.endswith("/rejects.parquet")):
        rows = read_version_table(pinned, path, root)
        reasons |= {i: f"{s}: {r}" for i, s, r in zip(rows["id"], rows["stage"], rows["reason"], strict=True)}
    return reasons


def _diff_table(path: str, old: Pin, new: Pin, root: Path, rejects: Mapping[str, str]) -> TableDiff | None:
    """Return how the rows of a table differ; None if no known contract gives it a key."""
    before, after = (read_version_table(pinned, path, root) for pinned in (old, new))
    of = next((t for t in TABLES.values() if {*t.columns} == {*after.columns}), None)
    if of is None or not {*of.key} <= {*before.columns}:
        return None
    keys = [*of.key]
    one, two = (rows.set_index(keys) for rows in (before, after))
    added, removed, common = (
        two.index.difference(one.index),
        one.index.difference(two.index),
        one.index.intersection(two.index),
    )
    compared = [name for name in one.columns if name in two.columns and name not in LAYOUT]
    left, right = one.loc[common, compared], two.loc[common, compared]
    unlike = pd.DataFrame(
        {name: left[name].map(repr) != right[name].map(repr) for name in compared}, index=common
    )
    counts = {str(name): int(count) for name, count in unlike.sum().items() if count}
    gone = pd.Series([rejects.get(str(key), "in no rejects") for key in removed], dtype=object)
    return TableDiff(
        path,
        len(added),
        len(removed),
        int(unlike.any(axis=1).sum()),
        counts,
        _count_by_subtype(two.loc[added], one.loc[removed]),
        {str(reason): int(count) for reason, count in gone.value_counts().items()},
    )


def _count_by_subtype(added: pd.DataFrame, removed: pd.DataFrame) -> dict[str, list[int]]:
    if "subtype" not in added or "subtype" not in removed:
        return {}
    counts = [rows["subtype"].value_counts() for rows in (added, removed)]
    return {str(n): [int(c.get(n, 0)) for c in counts] for n in sorted({*counts[0].index, *counts[1].index})}


def _diff_metrics(old: Pin, new: Pin, root: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the metrics that differ, new against old, and the reasons why others are not compared.

    ``p_holm`` is corrected over all ``tests`` metrics that both versions have, the unchanged ones included.
    """
    before, after = (read_version_table(pinned, RESULTS, root) for pinned in (old, new))
    compared, unpaired = compare_versions(after, before, bootstrap=get_scoring_settings(new))
    measured = compared[compared["difference"].notna()].assign(tests=int(compared["p_holm"].notna().sum()))
    differing = measured[measured["difference"] != 0]
    records = differing[[*METRIC_COLUMNS, "tests"]].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records], unpaired


def diff_images(
    before: Pin, after: Pin, difference: VersionDiff, root: Path
) -> dict[str, dict[str, list[tuple[str, bytes]]]]:
    """Return images that were added and removed, with captions, for each image index that differs.

    ``came`` lists added images, ``went`` removed ones. An image whose content changed under the same name is in
    both. Each list has at most ``IMAGES_SHOWN`` images, spread evenly over all of them.

    Raises:
        DataError: a shard is neither on disk nor in the cache, or is damaged.
    """
    indices = [table.path for table in difference.tables if table.path.endswith("/images.parquet")]
    if not indices:
        return {}
    then, now = (_load_captions(pinned, root) for pinned in (before, after))
    images_by_index = {}
    for path in indices:
        one, two = (VersionImages(pinned, path, root) for pinned in (before, after))
        images_by_index[path] = {
            side: [(captions.get(name, name), current[name]) for name in _sample_changed(current, other)]
            for side, current, other, captions in (("came", two, one, now), ("went", one, two, then))
        }
    return images_by_index


def _sample_changed(current: VersionImages, other: VersionImages) -> list[str]:
    """Return a sample of the names of images that the other version lacks or has with other content."""
    theirs = other.rows["sha256"].reindex(current.rows.index)
    names = current.rows.index[current.rows["sha256"] != theirs]
    picked = names[np.unique(np.linspace(0, len(names) - 1, min(IMAGES_SHOWN, len(names))).astype(int))]
    return [str(name) for name in picked]


def _load_captions(pinned: Pin, root: Path) -> dict[str, str]:
    """Return image -> a caption that is true of it, where pairs or instances have one."""
    captions: dict[str, str] = {}
    for path in (path for path in pinned.tables if path.endswith(("/pairs.parquet", "/instances.parquet"))):
        rows = read_version_table(pinned, path, root)
        for image, caption in (("image_id", "caption"), ("negative_image_id", "negative_caption")):
            if {image, caption} <= {*rows.columns}:
                known = rows.dropna(subset=[image, caption])
                captions |= dict(zip(known[image].astype(str), known[caption].astype(str), strict=True))
    return captions


def format_diff(difference: VersionDiff) -> str:
    """Return the differences as text; only metrics over all instances are listed."""
    lines = [f"{difference.new} against {difference.old}:"]
    lines += [f"  {key}: {before!r} -> {after!r}" for key, (before, after) in difference.params.items()]
    if difference.code is None:
        lines.append("  code: git does not know both commits")
    else:
        lines += [f"  code: {path}" for path in difference.code]
    lines += [f"  {path}: only in {difference.old}" for path in difference.only_old]
    lines += [f"  {path}: only in {difference.new}" for path in difference.only_new]
    for table in difference.tables:
        lines.append(f"  {table.path}: {table.added} added, {table.removed} removed, {table.changed} changed")
        lines += [f"    changed in {count}: {name}" for name, count in table.columns.items()]
        lines += [f"    {name}: +{more} -{less}" for name, (more, less) in table.by_subtype.items()]
        lines += [f"    removed, {reason}: {count}" for reason, count in table.reasons.items()]
    lines += [
        f"  {row['metric']} of {row['model']} on {row['benchmark']}: {row['value_b']:.4f} -> {row['value_a']:.4f} "
        f"({row['difference']:+.4f}, {row['ci_low']:+.4f} to {row['ci_high']:+.4f}, "
        f"p by Holm over {row['tests']} figures "
        f"{format_p(row['p_holm'], '.3g', least=row['p_least'], uncorrected=row['p'])})"
        for row in difference.metrics
        if row["subset"] == "all"
    ]
    lines += [
        f"  figures of {name} are not compared: {reason}" for name, reason in difference.unpaired.items()
    ]
    return "\n".join(lines if len(lines) > 1 else [f"{difference.new} and {difference.old} are the same."])
