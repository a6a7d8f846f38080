"""Build the sections on the data: versions, counts, rejects, blind accuracy and quality gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    FigureBlock,
    NoteBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import get_number, get_value, read_json
from caramel.report.plots import plot_blind_accuracy
from caramel.report.rendering import format_markup
from caramel.schemas.catalogue import TABLES
from caramel.schemas.columns import SPLITS, SUBTYPES
from caramel.schemas.contracts import Table
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.utils.arrays import Ints, find_indices

STAGES = ("scenes", "negatives", "refine", "synthesize", "filter_images", "assemble", "image_scores")
REJECTING = (*STAGES[:3], "select_negatives", *STAGES[3:])  # stages with a table ``rejects``
PASSED, WARNING, FAILED, UNKNOWN = "passed", "warning", "failed", "unknown"
DATA_DOCS = "../../work/data_docs/{}/index.html"  # link to a suite's page from the report's folder
NOTE_ON_DOCS = "Each suite links to its data docs in work/ of the project that ran the gate."


def build_versions_section(versions: Mapping[str, str]) -> list[Block]:
    """Return DVC's hash by path."""
    if not versions:
        text = "There is no <code>dvc.lock</code> with these outputs: the stages were run by hand, so this report cannot be cited."
        return [NoteBlock(format_markup(text))]
    rows = [[Cell(path), Cell(format_markup("<code>{}</code>", digest))] for path, digest in versions.items()]
    return [TableBlock("", ("Path", "DVC hash"), rows, labels=2)]


def build_counts_section(data: Path) -> list[Block]:
    """Return rows per table and split, and negatives by subtype from generation to benchmark."""
    known = _read_splits(data)
    rows = []
    for stage in STAGES:
        for path in sorted((data / stage).glob("*.parquet")):
            if path.stem == "rejects":
                continue
            table = TABLES.get(path.stem.removesuffix("_source"))
            if table is None:
                raise DataError(f"{path} is not a table of caramel. Known: {', '.join(TABLES)}.")
            split = _read_split_column(table, path, known)
            per_split = split.value_counts()
            numbers = [format_count(per_split.get(s, 0)) if split.notna().any() else "–" for s in SPLITS]
            rows.append([Cell(f"{stage} / {path.stem}"), *map(Cell, numbers), Cell(format_count(len(split)))])
    if not rows:
        raise DataError(f"No tables under {data}. Run `dvc repro`.")
    return [
        TableBlock("Rows per table and split", ("Table", *SPLITS, "total"), rows),
        _build_subtype_table(data),
    ]


class SplitLookup(NamedTuple):
    """The split of each id that tables refer to."""

    names: pd.Series[str]
    splits: Ints  # index in ``SPLITS``

    def look_up_splits(self, names: pd.Series[str]) -> pd.Series:
        """Return the split of each id; null if unknown."""
        codes = np.append(self.splits, -1)[find_indices(names, self.names)]
        return pd.Series(pd.Categorical.from_codes(codes, pd.Index(SPLITS)))


def _read_splits(data: Path) -> dict[str, SplitLookup]:
    """Return the splits by pair_id and by negative_id."""
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet", ["pair_id", "split"])
    of_pair = pd.Categorical(pairs["split"], categories=pd.Index(SPLITS)).codes.astype(np.int64)
    path = data / "negatives/negatives.parquet"
    negatives = read_table(NEGATIVES, path, ["negative_id", "pair_id"])
    of_negative = np.append(of_pair, -1)[find_indices(negatives["pair_id"], pairs["pair_id"])]
    return {
        "pair_id": SplitLookup(pairs["pair_id"], of_pair),
        "negative_id": SplitLookup(negatives["negative_id"], of_negative),
    }


def _read_split_column(table: Table, path: Path, known: Mapping[str, SplitLookup]) -> pd.Series:
    """Return the split of every row of a table, from its own column or through its pair or negative."""
    if "split" in table.columns:
        return read_table(table, path, ["split"])["split"]
    for column, splits in known.items():
        if column in table.columns:
            return splits.look_up_splits(read_table(table, path, [column])[column])
    return pd.Series([None] * len(read_table(table, path, list(table.key))))


def _build_subtype_table(data: Path) -> TableBlock:
    """Return how many negatives of each subtype were written, refined, and became instances."""
    written = read_table(NEGATIVES, data / "negatives/negatives.parquet", ["subtype"])
    refined = read_table(NEGATIVES, data / "refine/negatives.parquet", ["subtype"])
    built = read_table(INSTANCES, data / "assemble/instances.parquet", ["subtype", "split"])
    columns = [written["subtype"], refined["subtype"]]
    columns += [built.loc[built["split"] == s, "subtype"] for s in SPLITS]
    counted = [c.value_counts() for c in columns]
    rows = [
        [Cell(s), *(Cell(format_count(c.get(s, 0))) for c in counted)]
        for s in SUBTYPES
        if any(s in c.index for c in counted)
    ]
    rows.append([Cell("all"), *(Cell(format_count(c.sum())) for c in counted)])
    head = ("Subtype", "written", "refined", *(f"instances, {s}" for s in SPLITS))
    return TableBlock("Negatives by subtype, from writing to benchmark", head, rows)


def build_rejects_section(data: Path) -> list[Block]:
    """Return the dropped rows by stage and reason, with one example each."""
    paths = [p for stage in REJECTING if (p := data / stage / "rejects.parquet").exists()]
    rows = []
    for path in paths:  # one at a time: the texts of millions of rejects do not fit into memory together
        rejects = read_table(REJECTS, path)
        numbers = rejects.groupby(["stage", "reason"], sort=False).size()
        for first in rejects.drop_duplicates(["stage", "reason"]).to_dict("records"):
            why = first["stage"], first["reason"]
            rows.append([*map(Cell, why), Cell(_format_example(first)), Cell(format_count(numbers[why]))])
    if not rows:
        return [NoteBlock("No row was rejected by any stage.")]
    head = ("Stage", "Reason", "Example", "rows")
    return [TableBlock("", head, rows, labels=3)]


def _format_example(first: Mapping[Any, Any]) -> str:
    """Return a reject's text, or its id if it has none."""
    return str(first["text"] if isinstance(first["text"], str) else first["id"])


def build_blind_section(data: Path, exempt: Sequence[str]) -> list[Block]:
    """Return each blind scorer's accuracy before and after refinement, as figure and table."""
    before, after = (read_blind_rows(data / stage / "blind.json") for stage in ("scores", "refine"))
    scorers = list(dict.fromkeys(after["scorer"]))
    earlier = before.set_index(["subset", "scorer"])
    rows = []
    for subset, group in after.groupby("subset", sort=False):
        is_exempt = str(subset).partition("_")[0] in exempt
        cells = [Cell(str(subset), "not refined" if is_exempt else "")]
        by_scorer = group.set_index("scorer")
        for scorer in scorers:
            key = (subset, scorer)
            old = float(earlier.loc[key, "accuracy"]) if key in earlier.index else float("nan")
            new = by_scorer.loc[scorer] if scorer in by_scorer.index else None
            cells.append(_build_blind_cell(old, new, is_exempt))
        rows.append(cells)
    control = read_blind_rows(data / "scores/positive_control.json").set_index("scorer")
    cells = [
        _build_control_cell(control.loc[name]) if name in control.index else Cell(MISSING) for name in scorers
    ]
    rows.append([Cell("a planted shortcut", "positive control"), *cells])
    note = (
        "Per cent; chance is 50 and a tie counts half. Small: 95 % interval after refinement. Coloured: "
        "the interval is above chance. Last row: unrefined negatives that all end in the same odd way. If a scorer "
        "misses this shortcut (coloured there), its failure to find one above means nothing."
    )
    if exempt:
        note += f" Refinement does not change {', '.join(exempt)}; “all” and “macro” include it."
    figure = FigureBlock(
        "blind",
        plot_blind_accuracy(before, after),
        "Accuracy of scorers that never see an image. Dotted: chance.",
        "Dots of each blind scorer's accuracy by subset, before and after refinement.",
    )
    head = ("Subset", *scorers)
    return [figure, TableBlock("Blind accuracy, before → after refinement", head, rows, note=note)]


def _build_blind_cell(old: float, new: pd.Series | None, is_exempt: bool) -> Cell:
    if new is None:
        return Cell(f"{format_percent(old)} → {MISSING}")
    low, high = float(new["ci_low"]), float(new["ci_high"])
    text = f"{format_percent(old)} → {format_percent(float(new['accuracy']))}"
    return Cell(text, format_interval(low, high), "muted" if is_exempt else "bad" if low > 0.5 else "")


def _build_control_cell(figures: pd.Series) -> Cell:
    """Return a scorer's accuracy on the planted shortcut, marked if it is not significantly above chance."""
    low, high = float(figures["ci_low"]), float(figures["ci_high"])
    return Cell(
        format_percent(float(figures["accuracy"])), format_interval(low, high), "" if low > 0.5 else "bad"
    )


def read_blind_rows(path: Path) -> pd.DataFrame:
    """Return a ``blind.json`` as rows: scorer, subset, accuracy, ci_low, ci_high, n, ties.

    Raises:
        StageSkipped: the stage did not apply.
        DataError: the file is missing, broken or empty, or a key is missing.
    """
    raw = read_json(path)
    keys = ("accuracy", "ci_low", "ci_high", "n", "ties")
    rows = [
        {"scorer": scorer, "subset": subset}
        | {key: get_number(raw, scorer, subset, key, where=path) for key in keys}
        for scorer in raw
        for subset in get_value(raw, scorer, where=path)
    ]
    if not rows:
        raise DataError(f"{path} has no scorer. Run `dvc repro` to rebuild it.")
    return pd.DataFrame(rows)


def build_gates_section(data: Path, stage: str) -> list[Block]:
    """Return the results of a stage's Great Expectations suites."""
    path = data / stage / "summary.json"
    suites = read_json(path)
    if not suites:
        raise DataError(f"{path} has no suite: the gate has checked nothing.")
    rows, checks = [], []
    for name, suite in suites.items():
        findings = get_value(suite, "findings", where=path)
        if not isinstance(findings, list) or not all(isinstance(f, dict) for f in findings):
            raise DataError(f"{path}: 'findings' of suite {name!r} must be a list of objects.")
        verdicts = [_get_verdict(finding) for finding in findings]
        result = next(
            (v for v in (FAILED, UNKNOWN, WARNING) if v in verdicts), PASSED if verdicts else UNKNOWN
        )
        failed = len(findings) - verdicts.count(PASSED)
        linked = Cell(str(name), link=DATA_DOCS.format(quote(str(name), safe="")))
        cells = [
            linked,
            Cell(format_count(get_number(suite, "rows", where=path))),
            Cell(format_count(len(findings))),
        ]
        rows.append([*cells, Cell(format_count(failed)), _build_verdict_cell(result)])
        checks += [_build_finding_row(str(name), f, v) for f, v in zip(findings, verdicts, strict=True)]
    head = ("Suite", "rows", "expectations", "not passed", "result")
    labels = ("Suite", "Expectation", "On", "failing rows", "result")
    return [
        TableBlock("", head, rows, note=NOTE_ON_DOCS),
        TableBlock("All expectations", labels, checks, labels=3, folded=True),
    ]


def _get_verdict(finding: Mapping[str, Any]) -> str:
    """Return the state of one finding; a finding without a verdict is unknown, not passed."""
    success = finding.get("success")
    if not isinstance(success, bool):
        return UNKNOWN
    if success:
        return PASSED
    return FAILED if finding.get("severity", "critical") == "critical" else WARNING


def _build_verdict_cell(verdict: str) -> Cell:
    return Cell(verdict, mark="good" if verdict == PASSED else "bad")


def _build_finding_row(suite: str, finding: Mapping[str, Any], verdict: str) -> list[Cell]:
    """Return suite, expectation with its reason or examples, columns, failing rows and verdict."""
    title = str(finding.get("expectation", "unnamed")).removeprefix("expect_").replace("_", " ")
    examples = "; ".join(str(e) for e in finding.get("examples") or ())
    detail = examples if verdict != PASSED and examples else str(finding.get("notes") or "")
    failing, observed = finding.get("failing_rows"), finding.get("observed")
    failing_text = format_count(float(failing)) if isinstance(failing, int) else MISSING
    if verdict != PASSED and observed is not None:
        detail = f"{detail} Observed: {observed}".strip()
    on = ", ".join(str(c) for c in finding.get("columns") or ()) or "table"
    return [Cell(suite), Cell(title, detail), Cell(on), Cell(failing_text), _build_verdict_cell(verdict)]
