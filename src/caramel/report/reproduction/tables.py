"""Put measured figures beside the published ones: a Markdown page and a CSV file for each paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.evaluation.external.run_files import METRICS_FILES
from caramel.io.files import write_csv, write_text
from caramel.report.reproduction.roster import (
    PublishedTable,
    RosterModel,
    build_slug,
    read_papers,
)
from caramel.report.reproduction.runs import RELEASED, RUNS, ScoredModel
from caramel.report.table_styles import Grid, TableCell, TableLine, render_table
from caramel.report.whole_sets import read_published_sizes
from caramel.schemas.evaluation import METRICS
from caramel.schemas.io import read_table

ORIGINS: Mapping[str, str] = {RUNS: "measured here", RELEASED: "from the authors' result file"}
COLUMNS = (  # of the CSV file: published, measured and difference in per cent
    *("table", "row", "model", "benchmark", "subset", "metric"),
    *("published", "measured", "difference", "n", "n_published", "origin", "spec", "differs", "note"),
)
Cell = tuple[str, str, str]  # benchmark, subset, metric


@dataclass(frozen=True)
class Figure:
    """A measured figure: per cent, and its number of instances (the smallest, for a mean of models)."""

    value: float
    n: int


def compare_cells(table: PublishedTable, models: Mapping[str, RosterModel], out: Path) -> pd.DataFrame:
    """Return a table's cells with what was measured, as ``COLUMNS``.

    A cell with figures of both origins has two rows, one with none has an empty ``measured``. The difference is that
    of the figure, rounded as the paper prints, from the printed one. It is empty if the figure is not over as many
    instances as the release holds, or if that number is not known.
    """
    sizes = read_published_sizes()
    figures = {(m, origin): _read_figures(models, m, out, origin) for m in table.models for origin in ORIGINS}
    rows: list[dict[str, object]] = []
    for cell in table.cells.to_dict("records"):
        key = (cell["benchmark"], cell["subset"], cell["metric"])
        by_origin = {origin: figures[cell["model"], origin].get(key) for origin in ORIGINS}
        known = {origin: figure for origin, figure in by_origin.items() if figure is not None}
        size = sizes.get(key[:2])
        for origin, figure in known.items() or [("", None)]:
            comparable = figure is not None and figure.n == size
            measured, difference = _format_figure(cell["value"], figure, comparable)
            rows.append(
                {
                    **{
                        name: cell[name] for name in ("row", "model", "benchmark", "subset", "metric", "note")
                    },
                    "table": cell["table"],
                    "published": cell["value"],
                    "measured": measured,
                    "difference": difference,
                    "n": "" if figure is None else figure.n,
                    "n_published": "" if size is None else size,
                    "origin": ORIGINS.get(origin, ""),
                    "spec": models[cell["model"]].spec if origin == RUNS else "",
                    "differs": models[cell["model"]].differs if origin == RUNS else "",
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def select_tables(
    tables: Sequence[PublishedTable],
    requested: Sequence[str],
    models: Mapping[str, RosterModel],
    out: Path,
) -> list[PublishedTable]:
    """Return the requested tables, and those with a figure from an earlier call."""
    return [
        table
        for table in tables
        if table.name in requested or (compare_cells(table, models, out)["measured"] != "").any()
    ]


def write_paper(
    tables: Sequence[PublishedTable],
    models: Mapping[str, RosterModel],
    out: Path,
    problems: Mapping[tuple[str, str], str],
) -> list[Path]:
    """Write ``PAPER.md`` and ``PAPER.csv`` of tables of one paper; return their paths.

    Args:
        tables: the tables, all of one paper.
        models: the models of the rosters.
        out: folder of the results, and of both files.
        problems: (model, benchmark) -> why it has no result.
    """
    key = tables[0].key
    paper = read_papers()[key]
    compared = [compare_cells(table, models, out) for table in tables]
    parts = [
        f"# {paper.paper}: measured beside published\n\n{paper.citation}. In per cent; a tie counts as a miss. "
        f"A cell reads: published / measured (difference). A dash stands for what was not measured. The difference "
        f"is left out where the figure is not over the instances of the release.",
        *(_format_table(t, cells, models, problems, out) for t, cells in zip(tables, compared, strict=True)),
    ]
    paths = [out / f"{key}.md", out / f"{key}.csv"]
    write_text(paths[0], "\n\n".join(parts) + "\n")
    write_csv(paths[1], pd.concat(compared, ignore_index=True))
    return paths


def _read_figures(
    models: Mapping[str, RosterModel], model: str, out: Path, origin: str
) -> Mapping[Cell, Figure]:
    """Return the figures of a model's results; for a mean, of the cells that all its members have.

    Results of another spec, or of other weights, than the model has now are not read.
    """
    if members := models[model].mean_of:
        parts = [_read_figures(models, member, out, origin) for member in members]
        shared = set.intersection(*map(set, parts))
        return {
            c: Figure(sum(part[c].value for part in parts) / len(parts), min(part[c].n for part in parts))
            for c in shared
        }
    figures: dict[Cell, Figure] = {}
    for path in sorted((out / origin / build_slug(model)).glob(f"*/{METRICS_FILES[0]}")):
        if origin == RUNS:
            scored = ScoredModel.read(path.parent)
            if scored is None or not scored.is_model_of(models[model].spec):
                continue
        rows = read_table(METRICS, path).dropna(subset=["value"])
        for row in rows.to_dict("records"):
            cell = (str(row["benchmark"]), str(row["subset"]), str(row["metric"]))
            figures[cell] = Figure(100 * row["value"], row["n"])
    return figures


def _format_figure(published: str, figure: Figure | None, comparable: bool) -> tuple[str, str]:
    """Return a figure with the digits of the published one, and the difference; empty where there is none."""
    if figure is None:
        return "", ""
    digits = len(published.partition(".")[2])
    measured = f"{figure.value:.{digits}f}"
    return measured, f"{float(measured) - float(published):+.{digits}f}" if comparable else ""


def _format_table(
    table: PublishedTable,
    cells: pd.DataFrame,
    models: Mapping[str, RosterModel],
    problems: Mapping[tuple[str, str], str],
    out: Path,
) -> str:
    """Return a section of the page: the table, its notes, and why rows were not measured."""
    keys = ["benchmark", "subset", "metric"]
    columns = list(dict.fromkeys(cells[keys].itertuples(index=False, name=None)))
    lines = []
    for row, of_row in cells.groupby("row", sort=False):
        for origin in [*dict.fromkeys(of_row["origin"][of_row["origin"] != ""])] or [""]:
            texts = {
                (c.benchmark, c.subset, c.metric): _format_cell(c)
                for c in of_row[of_row["origin"].isin([origin, ""])].itertuples()
            }
            lines.append(TableLine(str(row), tuple(TableCell(texts.get(c, "")) for c in columns), origin))
    several = len({benchmark for benchmark, *_ in columns}) > 1
    titles = tuple(
        (" ".join([*[benchmark] * several, *[subset] * (subset != "all")]) or "all", metric)
        for benchmark, subset, metric in columns
    )
    notes = [*_list_notes(cells), *_list_unmeasured(table, cells, models, problems, out)]
    grid = render_table(Grid(titles, (tuple(lines),), tuple(notes)), "markdown")
    return f"## {table.table} ({table.name})\n\n{grid}"


def _format_cell(cell: Any) -> str:
    difference = f" ({cell.difference})" if cell.difference else ""
    return f"{cell.published} / {cell.measured or '–'}{difference}"


def _list_notes(cells: pd.DataFrame) -> list[str]:
    """Return the notes on published figures, and on models that differ from the paper's."""
    notes = []
    for note, rows in cells[cells["note"] != ""].groupby("note", sort=False):
        models, subsets = (", ".join(rows[name].unique()) for name in ("row", "subset"))
        of_all = rows["row"].nunique() == cells["row"].nunique()
        notes.append(f"{subsets if of_all else f'{models}: {subsets}'}: {note}.")
    for model, rows in cells[cells["differs"] != ""].groupby("row", sort=False):
        notes.append(f"{model}: {rows['differs'].iloc[0]}.")
    partial = cells[(cells["difference"] == "") & (cells["measured"] != "")]
    for row, rows in partial.groupby("row", sort=False):
        counts = dict.fromkeys(
            f"{cell['subset']} {cell['n']:,} of {_format_size(cell['n_published'])}"
            for cell in rows.to_dict("records")
        )
        notes.append(f"{row}: not all instances of the release: {', '.join(counts)}.")
    return notes


def _format_size(size: object) -> str:
    return f"{size:,}" if isinstance(size, int) else "an unknown number"


def _list_unmeasured(
    table: PublishedTable,
    cells: pd.DataFrame,
    models: Mapping[str, RosterModel],
    problems: Mapping[tuple[str, str], str],
    out: Path,
) -> list[str]:
    """Return a line for each model without any figure, with the reason."""
    lines = []
    for model in table.models:
        if (cells["measured"][cells["model"] == model] != "").any():
            continue
        members = models[model].mean_of or (model,)
        reasons = [
            problems[member, benchmark]
            for member in members
            for benchmark in table.list_benchmarks(model)
            if (member, benchmark) in problems
        ]
        reasons += [
            text for member in members for text in _list_results_of_others(models[member], member, out)
        ]
        reason = models[model].unavailable or (reasons[0] if reasons else "not scored yet")
        lines.append(f"{model} was not measured: {reason}.")
    return lines


def _list_results_of_others(wanted: RosterModel, model: str, out: Path) -> list[str]:
    """Return which results of a model's folder are not used, because they are of another spec or other weights."""
    texts = []
    for path in sorted((out / RUNS / build_slug(model)).glob(f"*/{METRICS_FILES[0]}")):
        scored = ScoredModel.read(path.parent)
        if scored is None or not scored.is_model_of(wanted.spec):
            of = "an unknown model" if scored is None else f"{scored.spec!r} as its weights were"
            texts.append(
                f"{str(path.parent)!r} holds figures of {of}, and {wanted.spec!r} is asked for; score it again"
            )
    return texts
