"""Build the table of a paper: models down, metrics of one benchmark across, with published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import METRICS, RECALLS, Outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.comparison import compare_models, find_leaders
from caramel.evaluation.results.errata_effect import compare_metrics
from caramel.evaluation.results.rank_sets import RANK_COLUMNS, compute_rank_sets
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.summary import (
    MACRO,
    compute_metrics,
    parse_variant,
    summarise_similarities,
)
from caramel.interfaces.benchmark import Benchmark
from caramel.report.table_lines import (
    ASSUMED_CHANCE_NOTE,
    ERRATA_NOTE,
    NO_ADDITIONS,
    PUBLISHED_RANK_NOTE,
    RANK_NOTE,
    Additions,
    build_ceiling_lines,
    build_errata_lines,
    build_published_rank_lines,
    build_rank_lines,
    build_skill_lines,
    format_class_notes,
    format_unranked_notes,
)
from caramel.report.table_styles import Grid, TableCell, TableLine
from caramel.report.whole_sets import read_published_sizes
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import summarise_seeds

PUBLISHED_COLUMNS = (
    "model",
    "benchmark",
    "subset",
    "metric",
    "value",
    "paper",
    "table",
    "row",
    "score",
    "note",
)
ROUNDING = 0.0005  # greatest rounding error of a published share: some tables print one decimal of per cent
Column = tuple[str, str]  # subset, metric
Seeds = Mapping[str, Sequence[str]]  # name of a row -> its models


def build_paper_table(
    similarities: pd.DataFrame,
    benchmark: Benchmark,
    *,
    metrics: Sequence[str] = (),
    subsets: Sequence[str] = (),
    published: bool,
    bootstrap: Bootstrap,
    further: pd.DataFrame | None = None,
    seeds: bool = False,
    intervals: bool = False,
    notes: Sequence[str] = (),
    additions: Additions = NO_ADDITIONS,
) -> Grid:
    """Return the table, in per cent.

    The best measured model of a column is bold only if it is significantly better than every other measured
    one by ``comparison.compare``, with Holm correction over all these comparisons of the table. That limits
    the chance of any false bold to 5 %. A column's bold is false only if a model beats the truly best one,
    which is at most one comparison per other model.

    Args:
        similarities: table ``similarities`` of the measured models.
        benchmark: of the table; rows of other benchmarks are dropped.
        metrics: columns; if empty, all metrics of the benchmark with a score.
        subsets: columns; if empty, all that occur.
        published: whether to add the figures of ``published.csv``. Only figures with the score type of a
            measured model are used: the same weights have other figures with their matching head than with
            the cosine of their projections. They are shown only in columns where all measured models were
            scored on the whole released set.
        bootstrap: of the intervals; its seed is also that of the tests.
        further: table ``metrics`` of measured models without scores: those that answer in words, and others' files. Where
            they have a value nothing is bold: it cannot be compared.
        seeds: whether models labelled ``name-1``, ``name-2`` … are training seeds of ``name``: one row with mean ±
            standard deviation. A name alone cannot say so: ViT-B-16 and ViT-B-32 are two models.
        intervals: whether 95 % intervals are shown, of models with one seed.
        notes: further ones, below the table.
        additions: lines of ceilings, skill, ranks and errata.

    Raises:
        DataError: nothing was measured, a metric or subset is unknown, or the models scored different
            instances.
    """
    scores = similarities[similarities["benchmark"] == benchmark.name]
    parts = [summarise_similarities(scores, {benchmark.name: benchmark}, bootstrap=bootstrap)]
    if further is not None:
        parts.append(further[further["benchmark"] == benchmark.name])
    measured = (
        pd.concat([part for part in parts if len(part)], ignore_index=True) if any(map(len, parts)) else None
    )
    if measured is None:
        names = sorted(
            {name for rows in (similarities, further) if rows is not None for name in rows["benchmark"]}
        )
        raise DataError(
            f"Nothing was measured on benchmark {benchmark.name!r}. The runs hold: {', '.join(names) or 'nothing'}."
        )
    _check_once(measured)
    columns = _select_columns(measured, metrics, subsets)
    rows = _group_seeds(list(dict.fromkeys(measured["model"].astype(str))), seeds)
    known = (
        _select_published(benchmark.name, columns) if published else pd.DataFrame(columns=PUBLISHED_COLUMNS)
    )
    sizes = read_published_sizes()
    counts = {column: _count_instances(measured, column) for column in columns}
    partial = [c for c in columns if {sizes.get((benchmark.name, c[0]))} != counts[c]]
    cells = zip(known["subset"], known["metric"], strict=True)
    is_part = pd.Series([cell in partial for cell in cells], index=known.index, dtype=bool)
    left_for_size, known = known[is_part], known[~is_part]
    comparable = known["score"].isin(["", *_list_score_types(scores, measured)])
    left_out, known = known[~comparable], known[comparable]
    digits = 2 if len(known) else 1  # papers print two
    bold = _find_best_columns(measured, scores, rows, columns, benchmark, bootstrap=bootstrap)
    lines = [
        TableLine(
            _format_title(name, models),
            _format_measured_cells(measured, models, columns, digits, intervals, bold.get(name, ())),
        )
        for name, models in rows.items()
    ]
    first = [
        _build_count_line(
            benchmark.name,
            counts,
            {column: _count_total_instances(measured, column) for column in columns},
            sizes,
        ),
        *_build_chance_line(scores, benchmark, columns, digits, additions.chance),
    ]
    published_lines = _build_published_lines(known, columns)
    further_lines: list[TableLine] = []
    further_notes: list[str] = []
    if additions.chance is None and any(metric in RECALLS for _, metric in columns):
        further_notes.append(ASSUMED_CHANCE_NOTE)
    if additions.uncorrected is not None:
        further_lines += build_errata_lines(
            _compute_moves(additions.uncorrected, measured, benchmark), rows, columns
        )
        further_notes.append(ERRATA_NOTE)
    ceilings = additions.ceilings
    if ceilings is not None:
        first += build_ceiling_lines(ceilings, columns, digits)
        values = {
            name: {c: _select_values(measured, models, c)["value"].mean() for c in columns}
            for name, models in rows.items()
        }
        for shares in (values, _read_line_values(published_lines, columns)):
            further_lines += build_skill_lines(ceilings, shares, additions.skill, columns, digits)
        further_notes += format_class_notes(ceilings)
    if additions.ranks:
        ranks = _compute_ranks(scores, rows, benchmark, bootstrap.seed)
        further_lines += build_rank_lines(ranks, columns)
        sized = {c: n for c in columns if c[0] not in (MACRO, *benchmark.means) for n in counts[c]}
        further_lines += build_published_rank_lines(
            _read_line_values(published_lines, columns), sized, columns, rounding=ROUNDING
        )
        further_notes += [RANK_NOTE, *([PUBLISHED_RANK_NOTE] if published_lines else [])]
        further_notes += format_unranked_notes(ranks, rows, columns)
    return Grid(
        tuple(columns),
        (tuple(first), tuple(lines), tuple(published_lines), tuple(further_lines)),
        (
            *_list_notes(
                rows,
                known,
                left_out,
                [c[0] for c in columns if c[0] in {*left_for_size["subset"]}],
                intervals,
            ),
            *further_notes,
            *notes,
        ),
    )


def read_published_rows() -> pd.DataFrame:
    """Return the papers' figures as ``PUBLISHED_COLUMNS``; value is per cent as text, as printed.

    Score is the score type behind the figure, named as in table ``similarities``; it is empty for people.
    """
    path = files("caramel.report") / "published.csv"
    with path.open("r", encoding="utf-8") as file:
        rows: pd.DataFrame = pd.read_csv(file, dtype=str, keep_default_na=False)
    return rows


def _read_line_values(
    lines: Sequence[TableLine], columns: Sequence[Column]
) -> dict[str, dict[Column, float]]:
    """Return the shares in [0, 1] of published lines by column; lines of one name are told apart by their source."""
    names = [line.name for line in lines]
    return {
        line.name if names.count(line.name) == 1 else f"{line.name}, {line.source}": {
            column: float(cell.text) / 100
            for column, cell in zip(columns, line.cells, strict=True)
            if cell.text != "–"
        }
        for line in lines
    }


def _compute_ranks(scores: pd.DataFrame, rows: Seeds, benchmark: Benchmark, seed: int) -> pd.DataFrame:
    """Return the rank sets of the rows whose models have scores; hits are averaged over the models of a row."""
    runs = compute_run_hits(scores, benchmark.name, benchmark.metrics)
    hits = {
        name: np.mean([runs.hits[model] for model in models], axis=0)
        for name, models in rows.items()
        if all(model in runs.hits for model in models)
    }
    return (
        compute_rank_sets(hits, runs.rows, benchmark.metrics, benchmark.macro, seed, benchmark.means)
        if hits
        else pd.DataFrame(columns=list(RANK_COLUMNS))
    )


def _compute_moves(uncorrected: pd.DataFrame, measured: pd.DataFrame, benchmark: Benchmark) -> pd.DataFrame:
    """Return how each measured figure moved by errata: see ``errata_effect.compare_metrics``."""
    before = uncorrected[uncorrected["benchmark"] == benchmark.name]
    no_intervals = Bootstrap(1, 0)
    return compare_metrics(
        summarise_similarities(before, {benchmark.name: benchmark}, bootstrap=no_intervals), measured
    )


def _check_once(measured: pd.DataFrame) -> None:
    """Raise a DataError if two runs hold a value of the same model."""
    twice = measured[measured.duplicated(["model", "subset", "metric"])]
    if len(twice):
        raise DataError(
            f"Several runs hold the model {twice['model'].iloc[0]!r}. Give each model once, and give different models different names."
        )


def _select_columns(measured: pd.DataFrame, metrics: Sequence[str], subsets: Sequence[str]) -> list[Column]:
    """Return the columns: subsets and, in each, metrics.

    Raises:
        DataError: a metric or subset does not occur.
    """
    scored = measured[measured["n"] > 0]
    for what, requested in (("metric", metrics), ("subset", subsets)):
        available = list(dict.fromkeys(scored[what].astype(str)))
        unknown = [name for name in requested if name not in available]
        if unknown:
            raise DataError(
                f"No {what} {unknown[0]!r} was scored. There are:\n{format_items(available, limit=50)}"
            )
    metrics = metrics or list(dict.fromkeys(scored["metric"].astype(str)))
    subsets = subsets or list(dict.fromkeys(scored["subset"].astype(str)))
    pairs = set(zip(scored["subset"].astype(str), scored["metric"].astype(str), strict=True))
    return [(subset, metric) for subset in subsets for metric in metrics if (subset, metric) in pairs]


def _group_seeds(models: Sequence[str], by_variant: bool) -> Seeds:
    """Return the models of each row: the seeds of one variant together, or each model alone."""
    groups: dict[str, list[str]] = {}
    for model in models:
        groups.setdefault(parse_variant(model) if by_variant else model, []).append(model)
    return {(name if len(group) > 1 else group[0]): group for name, group in groups.items()}


def _format_title(name: str, models: Sequence[str]) -> str:
    return name if len(models) == 1 else f"{name} ({len(models)} seeds)"


def _select_values(measured: pd.DataFrame, models: Sequence[str], column: Column) -> pd.DataFrame:
    """Return each model's rows of table ``metrics`` that were scored."""
    subset, metric = column
    chosen = (measured["subset"] == subset) & (measured["metric"] == metric) & measured["model"].isin(models)
    return measured[chosen].dropna(subset=["value"])


def _format_measured_cells(
    measured: pd.DataFrame,
    models: Sequence[str],
    columns: Sequence[Column],
    digits: int,
    intervals: bool,
    bold: Sequence[Column],
) -> tuple[TableCell, ...]:
    cells = []
    for column in columns:
        values = 100 * _select_values(measured, models, column)[["value", "ci_low", "ci_high"]]
        if values.empty:
            cells.append(TableCell("–"))
            continue
        mean, sd, *_ = summarise_seeds(values["value"].to_numpy(float))
        text = f"{mean:.{digits}f}"
        if not np.isnan(sd):
            text += f" ± {sd:.{digits}f}"
        elif intervals:
            low, high = values.iloc[0][["ci_low", "ci_high"]]
            text += f" [{low:.{digits}f}, {high:.{digits}f}]"
        cells.append(TableCell(text, column in bold))
    return tuple(cells)


def _find_best_columns(
    measured: pd.DataFrame,
    scores: pd.DataFrame,
    rows: Seeds,
    columns: Sequence[Column],
    benchmark: Benchmark,
    *,
    bootstrap: Bootstrap,
) -> Mapping[str, list[Column]]:
    """Return, by row name, the columns in which the row is significantly better than every other row."""
    runs = {
        name: [scores[scores["model"] == model].reset_index(drop=True) for model in models]
        for name, models in rows.items()
    }
    means = {
        column: {
            name: _select_values(measured, models, column)["value"].mean() for name, models in rows.items()
        }
        for column in columns
    }
    compared: dict[tuple[str, str], pd.Series] = {}

    def compute_p(best: str, other: str, column: Column) -> float:
        if any(run.empty for run in (*runs[best], *runs[other])):
            return 1.0
        if (best, other) not in compared:
            comparison = compare_models(
                runs[best], runs[other], {benchmark.name: benchmark}, bootstrap=bootstrap
            )
            compared[best, other] = comparison.set_index(["subset", "metric"])["p"]
        return float(compared[best, other].get(column, 1.0))

    bold: dict[str, list[Column]] = {}
    for name, column in find_leaders(means, compute_p):
        bold.setdefault(name, []).append(column)
    return bold


def _count_instances(measured: pd.DataFrame, column: Column) -> set[int]:
    """Return the numbers of instances behind a column's measured values."""
    subset, metric = column
    rows = measured[(measured["subset"] == subset) & (measured["metric"] == metric)]
    return {int(n) for n in rows.dropna(subset=["value"])["n"]}


def _count_total_instances(measured: pd.DataFrame, column: Column) -> int:
    """Return the largest number of instances behind a column's measured values, unscored ones included."""
    subset, metric = column
    rows = measured[(measured["subset"] == subset) & (measured["metric"] == metric)].dropna(subset=["value"])
    return int((rows["n"] + rows["unscored"]).max()) if len(rows) else 0


def _build_count_line(
    benchmark: str,
    counts: Mapping[Column, set[int]],
    totals: Mapping[Column, int],
    sizes: Mapping[tuple[str, str], int],
) -> TableLine:
    """Return the row of counts: the measured instances of each column, and their total.

    The total is the size of the release if it is known, else the number of instances to score if some have no
    score.
    """
    cells = []
    for column, ns in counts.items():
        text = "–".join(f"{n:,}" for n in dict.fromkeys((min(ns), max(ns)))) if ns else "–"
        size = sizes.get((benchmark, column[0]), totals[column] or None)
        cells.append(TableCell(text if size is None or ns == {size} else f"{text} of {size:,}"))
    return TableLine("Instances", tuple(cells))


def _build_chance_line(
    scores: pd.DataFrame,
    benchmark: Benchmark,
    columns: Sequence[Column],
    digits: int,
    chance: pd.DataFrame | None,
) -> list[TableLine]:
    """Return the row of a guessing model, if chance is known for any column."""
    values: dict[Column, float] = {c: METRICS[c[1]].chance for c in columns if c[1] in METRICS}
    recalls = [name for name in benchmark.metrics if name in RECALLS]
    if chance is not None:
        values |= dict(
            zip(zip(chance["subset"], chance["metric"], strict=True), chance["chance"], strict=True)
        )
    elif recalls and len(scores):
        one = scores[scores["model"] == scores["model"].iloc[0]].reset_index(drop=True)
        sizes = one["n_candidates"].to_numpy(float)
        hits = pd.DataFrame(
            {name: np.mean([np.minimum(k / sizes, 1) for k in RECALLS[name].ks], axis=0) for name in recalls}
        )
        summary = compute_metrics(one, Outcomes(hits, hits.isna() & False), benchmark.macro, Bootstrap(1, 0))
        values |= dict(
            zip(zip(summary["subset"], summary["metric"], strict=True), summary["value"], strict=True)
        )
    cells = tuple(TableCell(f"{100 * values[c]:.{digits}f}" if c in values else "–") for c in columns)
    return [TableLine("Chance", cells)] if any(c in values for c in columns) else []


def _select_published(name: str, columns: Sequence[Column]) -> pd.DataFrame:
    """Return the published figures of the columns."""
    rows = read_published_rows()
    wanted = {(name, *column) for column in columns}
    cells = zip(rows["benchmark"], rows["subset"], rows["metric"], strict=True)
    return rows[[cell in wanted for cell in cells]]


def _list_score_types(scores: pd.DataFrame, measured: pd.DataFrame) -> list[str]:
    """Return the models' known score types; that of a model that answers in words is its wording."""
    in_words = measured[measured["metric"].str.startswith("choice_")]
    wordings = in_words["subset"][in_words["subset"].str.startswith("wording:")].unique()
    return [
        *scores["score_type"].dropna().unique(),
        *(f"choice_{w.removeprefix('wording:')}" for w in wordings),
    ]


def _build_published_lines(known: pd.DataFrame, columns: Sequence[Column]) -> list[TableLine]:
    """Return a row for each model, paper and score type; of a cell's figures in several tables, the most exact."""
    lines = []
    for (model, paper, score), rows in known.groupby(["model", "paper", "score"], sort=False):
        by_digits = sorted(rows.itertuples(), key=lambda row: len(str(row.value)))
        cells = {(row.subset, row.metric): row.value for row in by_digits}
        locations = dict.fromkeys(f"{row.table}, row {row.row}" for row in rows.itertuples())
        source = f"{paper}: {'; '.join(locations)}{f' (by {score})' if score else ''}"
        lines.append(TableLine(str(model), tuple(TableCell(str(cells.get(c, "–"))) for c in columns), source))
    return lines


def _list_notes(
    rows: Seeds, known: pd.DataFrame, left_out: pd.DataFrame, partial: Sequence[str], intervals: bool
) -> list[str]:
    notes = ["In per cent; a tie counts as a miss."]
    if len(rows) > 1:
        notes.append(
            "Bold: significantly better than every other measured model (paired test clustered on the image, "
            "Holm-corrected over the table, 5 %)."
        )
    for name, models in rows.items():
        if len(models) > 1:
            notes.append(f"{name}: mean ± standard deviation of {', '.join(models)}.")
    if intervals:
        notes.append("In brackets: 95 % intervals, clustered on the image.")
    if len(known):
        notes.append("Rows with a source are copied from there and were not measured here.")
    if len(left_out):
        names = ", ".join(sorted(left_out["score"].unique()))
        notes.append(f"Omitted: published rows with score types that no measured model has: {names}.")
    if partial:
        subsets = ", ".join(dict.fromkeys(partial))
        notes.append(f"Omitted: published figures of sets that were not measured completely: {subsets}.")
    for (paper, note), group in known[known["note"] != ""].groupby(["paper", "note"], sort=False):
        locations = [*dict.fromkeys(group["table"]), *dict.fromkeys(group["subset"])]
        notes.append(f"{paper}, {', '.join(locations)}: {note}.")
    return notes
