"""What differs between two versions: parameters, code, rows of each table, figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from caramel.evaluation.results.comparison import compare_versions
from caramel.io.safe_yaml import flat
from caramel.release.pin_file import Pin
from caramel.release.pinned_tables import rows_of
from caramel.release.rescoring import scoring
from caramel.release.resolve import PicturesOf
from caramel.runtime.git import query_git
from caramel.schemas.catalogue import TABLES
from caramel.schemas.columns import LAYOUT
from caramel.utils.stats import format_p

RESULTS = "data/evaluate/similarities.parquet"
CODE = ("src", "code", "pipelines", "expectations", "dvc.yaml")  # in git
SHOWN = [
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
class TableApart:
    """How the rows of one table differ, by its key."""

    path: str
    added: int
    removed: int
    changed: int
    columns: dict[str, int]  # column -> rows of both that have another value in it
    by_subtype: dict[str, list[int]]  # subtype -> added, removed
    reasons: dict[str, int]  # stage: reason of the new version's rejects -> removed rows


@dataclass(frozen=True)
class Apart:
    """How the new version differs from the old one."""

    old: str
    new: str
    params: dict[str, list[Any]]  # dotted key -> old and new value
    code: list[str] | None  # files that git has otherwise at the two commits; None: git does not know both
    tables: list[TableApart]
    only_old: list[str]  # tables
    only_new: list[str]
    metrics: list[
        dict[str, Any]
    ]  # new (a) against old (b), paired on the instances, where both scored the same
    unpaired: dict[str, str]  # model and benchmark -> why its figures are not compared

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)


def apart(before: Pin, after: Pin, root: Path) -> Apart:
    """Return how version ``after`` differs from ``before``; the rows of both must be on disk or in DVC's cache.

    Raises:
        DataError: rows are nowhere at hand.
    """
    both = [path for path in before.tables if path in after.tables]
    other = [path for path in both if before.tables[path].content != after.tables[path].content]
    rejects = _reasons(after, root)
    found = [_table(path, before, after, root, rejects) for path in other]
    return Apart(
        before.name,
        after.name,
        _params(before.params, after.params),
        _code(before.commit, after.commit, root),
        [table for table in found if table is not None],
        [path for path in before.tables if path not in after.tables],
        [path for path in after.tables if path not in before.tables],
        *(_metrics(before, after, root) if RESULTS in other else ([], {})),
    )


def _params(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[Any]]:
    before, after = flat(old), flat(new)
    keys = [*after, *(key for key in before if key not in after)]
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def _code(old: str, new: str, root: Path) -> list[str] | None:
    """Return the files of code and story that differ between two commits; None where git does not know both.

    Raises:
        ResourceError: git fails.
    """
    commits = [commit.removesuffix("-dirty") for commit in (old, new)]
    for commit in commits:
        if query_git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", folder=root) is None:
            return None
    # Plumbing: neither the repository's settings nor its attributes choose another program for the differences.
    command = ("diff-tree", "-r", "-z", "--name-only", "--relative", "--no-ext-diff", *commits, "--", *CODE)
    names = query_git(*command, folder=root) or b""
    return [name for name in names.decode(errors="replace").split("\0") if name]


def _reasons(pinned: Pin, root: Path) -> dict[str, str]:
    """Return id -> stage and reason of all rejects of a version."""
    found: dict[str, str] = {}
    for path in (path for path in pinned.tables if path.endswith("/rejects.parquet")):
        rows = rows_of(pinned, path, root)
        found |= {i: f"{s}: {r}" for i, s, r in zip(rows["id"], rows["stage"], rows["reason"], strict=True)}
    return found


def _table(path: str, old: Pin, new: Pin, root: Path, rejects: Mapping[str, str]) -> TableApart | None:
    """Return how the rows of a table differ; None where it has no key that is known."""
    before, after = (rows_of(pinned, path, root) for pinned in (old, new))
    of = next((t for t in TABLES.values() if {*t.columns} == {*after.columns}), None)
    if of is None or not {*of.key} <= {*before.columns}:
        return None
    keys = [*of.key]
    one, two = (rows.set_index(keys) for rows in (before, after))
    added, removed, kept = (
        two.index.difference(one.index),
        one.index.difference(two.index),
        one.index.intersection(two.index),
    )
    compared = [name for name in one.columns if name in two.columns and name not in LAYOUT]
    left, right = one.loc[kept, compared], two.loc[kept, compared]
    unlike = pd.DataFrame(
        {name: left[name].map(repr) != right[name].map(repr) for name in compared}, index=kept
    )
    counts = {str(name): int(count) for name, count in unlike.sum().items() if count}
    gone = pd.Series([rejects.get(str(key), "in no rejects") for key in removed], dtype=object)
    return TableApart(
        path,
        len(added),
        len(removed),
        int(unlike.any(axis=1).sum()),
        counts,
        _by_subtype(two.loc[added], one.loc[removed]),
        {str(reason): int(count) for reason, count in gone.value_counts().items()},
    )


def _by_subtype(added: pd.DataFrame, removed: pd.DataFrame) -> dict[str, list[int]]:
    if "subtype" not in added or "subtype" not in removed:
        return {}
    counts = [rows["subtype"].value_counts() for rows in (added, removed)]
    return {str(n): [int(c.get(n, 0)) for c in counts] for n in sorted({*counts[0].index, *counts[1].index})}


def _metrics(old: Pin, new: Pin, root: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the figures of each model that differ, new against old, and why those of others are not compared.

    ``p_holm`` is corrected over all figures that both have, those that do not differ among them: ``tests`` of them.
    """
    resamples, seed = scoring(new)
    before, after = (rows_of(pinned, RESULTS, root) for pinned in (old, new))
    found, unpaired = compare_versions(after, before, resamples=resamples, seed=seed)
    measured = found[found["difference"].notna()].assign(tests=int(found["p_holm"].notna().sum()))
    differing = measured[measured["difference"] != 0]
    records = differing[[*SHOWN, "tests"]].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records], unpaired


def pictures_apart(
    before: Pin, after: Pin, found: Apart, root: Path, most: int = 24
) -> dict[str, dict[str, list[tuple[str, bytes]]]]:
    """Return of each index of images that differs some pictures that ``came`` and ``went``, with what is said of them.

    One that has another content under its name did both. At most ``most`` each, evenly spread over those that there are.

    Raises:
        DataError: a shard is nowhere at hand, or damaged.
    """
    indices = [table.path for table in found.tables if table.path.endswith("/images.parquet")]
    if not indices:
        return {}
    then, now = (_captions(pinned, root) for pinned in (before, after))
    shown = {}
    for path in indices:
        one, two = (PicturesOf(pinned, path, root) for pinned in (before, after))
        shown[path] = {
            side: [(said.get(name, name), mine[name]) for name in _some(mine, other, most)]
            for side, mine, other, said in (("came", two, one, now), ("went", one, two, then))
        }
    return shown


def _some(mine: PicturesOf, other: PicturesOf, most: int) -> list[str]:
    """Return the names of some pictures that the other version does not have so."""
    theirs = other.rows["sha256"].reindex(mine.rows.index)
    names = mine.rows.index[mine.rows["sha256"] != theirs]
    picked = names[np.unique(np.linspace(0, len(names) - 1, min(most, len(names))).astype(int))]
    return [str(name) for name in picked]


def _captions(pinned: Pin, root: Path) -> dict[str, str]:
    """Return image -> a caption that is true of it, as far as pairs and instances say."""
    found: dict[str, str] = {}
    for path in (path for path in pinned.tables if path.endswith(("/pairs.parquet", "/instances.parquet"))):
        rows = rows_of(pinned, path, root)
        for image, caption in (("image_id", "caption"), ("negative_image_id", "negative_caption")):
            if {image, caption} <= {*rows.columns}:
                known = rows.dropna(subset=[image, caption])
                found |= dict(zip(known[image].astype(str), known[caption].astype(str), strict=True))
    return found


def told(found: Apart) -> str:
    """Return the differences as text; of figures those over all instances."""
    lines = [f"{found.new} against {found.old}:"]
    lines += [f"  {key}: {before!r} -> {after!r}" for key, (before, after) in found.params.items()]
    if found.code is None:
        lines.append("  code: git does not know both commits")
    else:
        lines += [f"  code: {path}" for path in found.code]
    lines += [f"  {path}: only in {found.old}" for path in found.only_old]
    lines += [f"  {path}: only in {found.new}" for path in found.only_new]
    for table in found.tables:
        lines.append(f"  {table.path}: {table.added} added, {table.removed} removed, {table.changed} changed")
        lines += [f"    changed in {count}: {name}" for name, count in table.columns.items()]
        lines += [f"    {name}: +{more} -{less}" for name, (more, less) in table.by_subtype.items()]
        lines += [f"    removed, {reason}: {count}" for reason, count in table.reasons.items()]
    lines += [
        f"  {row['metric']} of {row['model']} on {row['benchmark']}: {row['value_b']:.4f} -> {row['value_a']:.4f} "
        f"({row['difference']:+.4f}, {row['ci_low']:+.4f} to {row['ci_high']:+.4f}, "
        f"p by Holm over {row['tests']} figures "
        f"{format_p(row['p_holm'], '.3g', least=row['p_least'], uncorrected=row['p'])})"
        for row in found.metrics
        if row["subset"] == "all"
    ]
    lines += [f"  figures of {name} are not compared: {reason}" for name, reason in found.unpaired.items()]
    return "\n".join(lines if len(lines) > 1 else [f"{found.new} and {found.old} are the same."])
