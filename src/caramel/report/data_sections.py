"""Sections on the data: versions, counts, rejects, blind accuracy and quality gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from caramel import tables
from caramel.errors import DataError
from caramel.report.blocks import Block, Cell, FigureBlock, NoteBlock, TableBlock, count, interval, percent
from caramel.report.figures import blind_figure
from caramel.report.inputs import number, read_json, value

STAGES = ("scenes", "negatives", "refine", "synthesize", "filter_images", "assemble")


def counts_section(data: Path) -> list[Block]:
    """Return rows per table and split, and negatives by subtype from writing to benchmark."""
    split_of_pair, split_of_negative = _splits(data)
    rows = []
    for stage in STAGES:
        for path in sorted((data / stage).glob("*.parquet")):
            if path.stem == "rejects":
                continue
            table = tables.TABLES.get(path.stem)
            if table is None:
                raise DataError(f"{path} is no table of caramel. Known: {', '.join(tables.TABLES)}.")
            split = _split_column(table, path, split_of_pair, split_of_negative)
            per_split = split.value_counts()
            numbers = [count(per_split.get(s, 0)) if split.notna().any() else "–" for s in tables.SPLITS]
            rows.append([Cell(f"{stage} / {path.stem}"), *map(Cell, numbers), Cell(count(len(split)))])
    if not rows:
        raise DataError(f"No tables under {data}. Run `dvc repro`.")
    return [
        TableBlock("Rows per table and split", ("Table", *tables.SPLITS, "total"), rows),
        _by_subtype(data, split_of_negative),
    ]


def _splits(data: Path) -> tuple[pd.Series, pd.Series]:
    """Return the split by pair_id and by negative_id."""
    pairs = tables.read(tables.PAIRS, data / "scenes/pairs.parquet", ["pair_id", "split"])
    by_pair = pairs.set_index("pair_id")["split"]
    negatives = tables.read(
        tables.NEGATIVES, data / "negatives/negatives.parquet", ["negative_id", "pair_id"]
    )
    return by_pair, negatives.set_index("negative_id")["pair_id"].map(by_pair)


def _split_column(
    table: tables.Table, path: Path, split_of_pair: pd.Series, split_of_negative: pd.Series
) -> pd.Series:
    """Return the split of every row of a table, by its own column or through its pair or negative."""
    for column, known in (("split", None), ("pair_id", split_of_pair), ("negative_id", split_of_negative)):
        if column in table.columns:
            found = tables.read(table, path, [column])[column]
            return found if known is None else found.map(known)
    return pd.Series([None] * len(tables.read(table, path, list(table.key))))


def _by_subtype(data: Path, split_of_negative: pd.Series) -> TableBlock:
    """Return how many negatives of each subtype were written, refined and became instances."""
    written = tables.read(tables.NEGATIVES, data / "negatives/negatives.parquet", ["subtype"])
    kept = tables.read(tables.NEGATIVES, data / "refine/negatives.parquet", ["subtype"])
    built = tables.read(tables.INSTANCES, data / "assemble/instances.parquet", ["subtype", "split"])
    columns = [written["subtype"], kept["subtype"]]
    columns += [built.loc[built["split"] == s, "subtype"] for s in tables.SPLITS]
    counted = [c.value_counts() for c in columns]
    rows = [
        [Cell(s), *(Cell(count(c.get(s, 0))) for c in counted)]
        for s in tables.SUBTYPES
        if any(s in c.index for c in counted)
    ]
    rows.append([Cell("all"), *(Cell(count(c.sum())) for c in counted)])
    head = ("Subtype", "written", "refined", *(f"instances, {s}" for s in tables.SPLITS))
    return TableBlock("Negatives by subtype, from writing to benchmark", head, rows)


def rejects_section(data: Path) -> list[Block]:
    """Return what was dropped, by stage and reason, with one example each."""
    paths = [p for stage in STAGES if (p := data / stage / "rejects.parquet").exists()]
    frames = [tables.read(tables.REJECTS, path) for path in paths]
    rejects = pd.concat(frames, ignore_index=True) if frames else tables.frame(tables.REJECTS, [])
    if rejects.empty:
        return [NoteBlock("No row was rejected by any stage.")]
    rows = [
        [Cell(str(stage)), Cell(str(reason)), Cell(_example(group)), Cell(count(len(group)))]
        for (stage, reason), group in rejects.groupby(["stage", "reason"], sort=False)
    ]
    head = ("Stage", "Reason", "Example", "rows")
    return [TableBlock("Rejected rows by stage and reason", head, rows, labels=3)]


def _example(rejects: pd.DataFrame) -> str:
    """Return the first reject's text, or its id where it has none."""
    first = rejects.iloc[0]
    return str(first["text"] if isinstance(first["text"], str) else first["id"])


def blind_section(data: Path, exempt: Sequence[str]) -> list[Block]:
    """Return each blind scorer's accuracy before and after refinement, as figure and table."""
    before, after = (blind_frame(data / stage / "blind.json") for stage in ("scores", "refine"))
    scorers = list(dict.fromkeys(after["scorer"]))
    earlier = before.set_index(["subset", "scorer"])
    rows = []
    for subset, group in after.groupby("subset", sort=False):
        cells = [Cell(str(subset))]
        found = group.set_index("scorer")
        for scorer in scorers:
            key = (subset, scorer)
            old = float(earlier.loc[key, "accuracy"]) if key in earlier.index else float("nan")
            cells.append(_blind_cell(old, found.loc[scorer] if scorer in found.index else None))
        rows.append(cells)
    note = "Per cent; chance is 50. Small: 95 % interval after refinement."
    if exempt:
        note += f" Refinement leaves {', '.join(exempt)} as it is."
    figure = FigureBlock(
        "blind",
        blind_figure(before, after),
        "Accuracy of scorers that never see an image. Dotted: chance.",
        "Dots of each blind scorer's accuracy by subset, before and after refinement.",
    )
    head = ("Subset", *scorers)
    return [figure, TableBlock("Blind accuracy, before → after refinement", head, rows, note=note)]


def _blind_cell(old: float, new: pd.Series | None) -> Cell:
    if new is None:
        return Cell(f"{percent(old)} → –")
    low, high = float(new["ci_low"]), float(new["ci_high"])
    return Cell(
        f"{percent(old)} → {percent(float(new['accuracy']))}", interval(low, high), "bad" if low > 0.5 else ""
    )


def blind_frame(path: Path) -> pd.DataFrame:
    """Return a ``blind.json`` as rows: scorer, subset, accuracy, ci_low, ci_high, n, ties.

    Raises:
        Skipped: the stage did not apply.
        DataError: the file is missing, broken or empty, or a key is.
    """
    raw = read_json(path)
    keys = ("accuracy", "ci_low", "ci_high", "n", "ties")
    rows = [
        {"scorer": scorer, "subset": subset}
        | {key: number(raw, scorer, subset, key, where=path) for key in keys}
        for scorer in raw
        for subset in value(raw, scorer, where=path)
    ]
    if not rows:
        raise DataError(f"{path} holds no scorer. Run `dvc repro` to make it again.")
    return pd.DataFrame(rows)


def gates_section(data: Path, stage: str) -> list[Block]:
    """Return what the Great Expectations suites of a stage found."""
    path = data / stage / "summary.json"
    suites = read_json(path)
    if not suites:
        raise DataError(f"{path} holds no suite: the gate has checked nothing.")
    rows, checks = [], []
    for name, suite in suites.items():
        expectations = value(suite, "expectations", where=path)
        if not isinstance(expectations, list):
            raise DataError(f"{path}: 'expectations' of suite {name!r} must be a list.")
        failed = [e for e in expectations if _verdict(e) != "passed"]
        result = _verdict(suite)
        rows.append(
            [
                Cell(str(name)),
                Cell(result, mark="good" if result == "passed" else "bad"),
                Cell(count(len(expectations))),
                Cell(count(len(failed))),
            ]
        )
        checks += [_check_row(str(name), e) for e in expectations]
    return [
        TableBlock("Suites", ("Suite", "result", "expectations", "not passed"), rows),
        TableBlock(
            "All expectations", ("Suite", "Expectation", "Details", "result"), checks, labels=3, folded=True
        ),
    ]


def _verdict(entry: Any) -> str:
    """Return passed, failed or, where the summary does not say, unknown."""
    success = entry.get("success") if isinstance(entry, Mapping) else None
    return (
        {True: "passed", False: "failed"}.get(success, "unknown") if isinstance(success, bool) else "unknown"
    )


def _check_row(suite: str, entry: Any) -> list[Cell]:
    """Return suite, expectation, everything else that the summary says of it, and the verdict."""
    verdict = _verdict(entry)
    mark: Any = "good" if verdict == "passed" else "bad"
    if not isinstance(entry, Mapping):
        return [Cell(suite), Cell(str(entry)), Cell(""), Cell(verdict, mark=mark)]
    names = ("expectation", "expectation_type", "type")
    title = next((str(entry[n]) for n in names if n in entry), "unnamed")
    flat: dict[str, Any] = {}
    for key, found in entry.items():
        if key not in (*names, "success"):
            flat |= found if isinstance(found, dict) else {key: found}
    details = ", ".join(f"{key} {found}" for key, found in flat.items() if found not in (None, "", [], {}))
    readable = title.replace("_", " ")
    return [Cell(suite), Cell(readable), Cell(details), Cell(verdict, mark=mark)]
