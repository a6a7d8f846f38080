"""The measured models in the table of a paper: their cells, the best of each column, and what stands above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import METRICS, RECALLS, Outcomes
from caramel.errors import DataError, format_items
from caramel.evaluation.results.comparison import compare_models, find_leaders
from caramel.evaluation.results.rank_sets import RANK_COLUMNS, compute_rank_sets
from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.summary import compute_metrics, parse_variant
from caramel.interfaces.benchmark import Benchmark
from caramel.report.table_styles import Column, TableCell, TableLine
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import summarise_seeds

Seeds = Mapping[str, Sequence[str]]  # name of a row -> its models


@dataclass(frozen=True)
class MeasuredModels:
    """The measured models of a table.

    Attributes:
        benchmark: of the table.
        scores: its rows of table ``similarities``.
        figures: rows of table ``metrics`` of the same models, and of those without scores.
        rows: the models of each row.
        columns: of the table.
    """

    benchmark: Benchmark
    scores: pd.DataFrame
    figures: pd.DataFrame
    rows: Seeds
    columns: Sequence[Column]

    def select_values(self, models: Sequence[str], column: Column) -> pd.DataFrame:
        """Return each model's row of ``figures`` in a column, if it was scored."""
        rows = self._select_column(column)
        return rows[rows["model"].isin(models)]

    def compute_means(self) -> dict[str, dict[Column, float]]:
        """Return the share of each row and column in [0, 1], the mean of the row's models; NaN where none was scored."""
        return {
            name: {column: self.select_values(models, column)["value"].mean() for column in self.columns}
            for name, models in self.rows.items()
        }

    def count_instances(self, column: Column) -> set[int]:
        """Return the numbers of instances behind a column's values."""
        return {int(n) for n in self._select_column(column)["n"]}

    def count_all_instances(self, column: Column) -> int:
        """Return the largest number of instances behind a column's values, unscored ones included."""
        rows = self._select_column(column)
        return int((rows["n"] + rows["unscored"]).max()) if len(rows) else 0

    def list_score_types(self) -> list[str]:
        """Return the models' known score types; that of a model that answers in words is its wording."""
        in_words = self.figures[self.figures["metric"].str.startswith("choice_")]
        wordings = in_words["subset"][in_words["subset"].str.startswith("wording:")].unique()
        return [
            *self.scores["score_type"].dropna().unique(),
            *(f"choice_{wording.removeprefix('wording:')}" for wording in wordings),
        ]

    def _select_column(self, column: Column) -> pd.DataFrame:
        subset, metric = column
        rows = self.figures[(self.figures["subset"] == subset) & (self.figures["metric"] == metric)]
        return rows.dropna(subset=["value"])


def select_columns(figures: pd.DataFrame, metrics: Sequence[str], subsets: Sequence[str]) -> list[Column]:
    """Return the columns of a table: subsets and, in each, metrics; all that were scored if none are given.

    Args:
        figures: table ``metrics``.
        metrics, subsets: in the order of the columns.

    Raises:
        DataError: a metric or subset does not occur.
    """
    scored = figures[figures["n"] > 0]
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


def group_seeds(models: Sequence[str], by_variant: bool) -> Seeds:
    """Return the models of each row: the seeds of one variant together, or each model alone."""
    groups: dict[str, list[str]] = {}
    for model in models:
        groups.setdefault(parse_variant(model) if by_variant else model, []).append(model)
    return {(name if len(group) > 1 else group[0]): group for name, group in groups.items()}


def build_measured_lines(
    models: MeasuredModels, digits: int, bootstrap: Bootstrap, *, intervals: bool
) -> list[TableLine]:
    """Return the line of each row.

    Args:
        digits: decimals of per cent.
        bootstrap: of the tests.
        intervals: whether 95 % intervals are shown, of models with one seed.
    """
    bold = _find_best_cells(models, bootstrap)

    def format_cell(name: str, column: Column) -> TableCell:
        values = 100 * models.select_values(models.rows[name], column)[["value", "ci_low", "ci_high"]]
        if values.empty:
            return TableCell("–")
        mean, sd, *_ = summarise_seeds(values["value"].to_numpy(float))
        text = f"{mean:.{digits}f}"
        if not np.isnan(sd):
            text += f" ± {sd:.{digits}f}"
        elif intervals:
            low, high = values.iloc[0][["ci_low", "ci_high"]]
            text += f" [{low:.{digits}f}, {high:.{digits}f}]"
        return TableCell(text, (name, column) in bold)

    return [
        TableLine(
            name if len(seeds) == 1 else f"{name} ({len(seeds)} seeds)",
            tuple(format_cell(name, column) for column in models.columns),
        )
        for name, seeds in models.rows.items()
    ]


def _find_best_cells(models: MeasuredModels, bootstrap: Bootstrap) -> set[tuple[str, Column]]:
    """Return the (row, column) in which the row is significantly better than every other row."""
    scores = models.scores
    runs = {
        name: [scores[scores["model"] == seed].reset_index(drop=True) for seed in seeds]
        for name, seeds in models.rows.items()
    }
    means = models.compute_means()
    compared: dict[tuple[str, str], pd.Series] = {}

    def compute_p(best: str, other: str, column: Column) -> float:
        if any(run.empty for run in (*runs[best], *runs[other])):
            return 1.0
        if (best, other) not in compared:
            on = {models.benchmark.name: models.benchmark}
            comparison = compare_models(runs[best], runs[other], on, bootstrap=bootstrap)
            compared[best, other] = comparison.set_index(["subset", "metric"])["p"]
        return float(compared[best, other].get(column, 1.0))

    by_column = {column: {name: means[name][column] for name in means} for column in models.columns}
    return find_leaders(by_column, compute_p)


def build_count_line(models: MeasuredModels, sizes: Mapping[tuple[str, str], int]) -> TableLine:
    """Return the line of counts: the measured instances of each column, and their total.

    The total is the size of the release if it is known, else the number of instances to score if some have no
    score.

    Args:
        sizes: (benchmark, subset) -> instances of the release.
    """
    cells = []
    for column in models.columns:
        counts = models.count_instances(column)
        text = "–".join(f"{n:,}" for n in dict.fromkeys((min(counts), max(counts)))) if counts else "–"
        size = sizes.get((models.benchmark.name, column[0]), models.count_all_instances(column) or None)
        cells.append(TableCell(text if size is None or counts == {size} else f"{text} of {size:,}"))
    return TableLine("Instances", tuple(cells))


def build_chance_lines(models: MeasuredModels, digits: int, chance: pd.DataFrame | None) -> list[TableLine]:
    """Return the line of a guessing model, if chance is known for any column.

    Args:
        chance: see ``table_lines.Additions``.
    """
    columns = models.columns
    values: dict[Column, float] = {c: METRICS[c[1]].chance for c in columns if c[1] in METRICS}
    if chance is not None:
        values |= _map_columns(chance, "chance")
    elif len(models.scores):
        values |= _compute_assumed_chance(models)
    cells = tuple(TableCell(f"{100 * values[c]:.{digits}f}" if c in values else "–") for c in columns)
    return [TableLine("Chance", cells)] if any(c in values for c in columns) else []


def _compute_assumed_chance(models: MeasuredModels) -> dict[Column, float]:
    """Return the chance of recall if each query has one true candidate."""
    recalls = [name for name in models.benchmark.metrics if name in RECALLS]
    if not recalls:
        return {}
    scores = models.scores
    one = scores[scores["model"] == scores["model"].iloc[0]].reset_index(drop=True)
    sizes = one["n_candidates"].to_numpy(float)
    hits = pd.DataFrame(
        {name: np.mean([np.minimum(k / sizes, 1) for k in RECALLS[name].ks], axis=0) for name in recalls}
    )
    outcomes = Outcomes(hits, hits.isna() & False)
    return _map_columns(compute_metrics(one, outcomes, models.benchmark.macro, Bootstrap(1, 0)), "value")


def _map_columns(rows: pd.DataFrame, value: str) -> dict[Column, float]:
    return dict(zip(zip(rows["subset"], rows["metric"], strict=True), rows[value], strict=True))


def compute_row_ranks(models: MeasuredModels, seed: int) -> pd.DataFrame:
    """Return the rank sets of the rows whose models have scores; hits are averaged over the models of a row."""
    benchmark = models.benchmark
    runs = compute_run_hits(models.scores, benchmark.name, benchmark.metrics)
    hits = {
        name: np.mean([runs.hits[model] for model in seeds], axis=0)
        for name, seeds in models.rows.items()
        if all(model in runs.hits for model in seeds)
    }
    return (
        compute_rank_sets(hits, runs.rows, benchmark.metrics, benchmark.macro, seed, benchmark.means)
        if hits
        else pd.DataFrame(columns=list(RANK_COLUMNS))
    )
