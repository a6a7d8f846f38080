"""Build the table of a paper: models down, metrics of one benchmark across, with published figures."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from caramel.benchmarks.metrics import RECALLS
from caramel.errors import DataError
from caramel.evaluation.results.errata_effect import compare_metrics
from caramel.evaluation.results.summary import MACRO, summarise_similarities
from caramel.interfaces.benchmark import Benchmark
from caramel.report.measured_lines import (
    MeasuredModels,
    Seeds,
    build_chance_lines,
    build_count_line,
    build_measured_lines,
    compute_row_ranks,
    group_seeds,
    select_columns,
)
from caramel.report.published_rows import (
    build_published_lines,
    list_published_notes,
    read_line_values,
    select_published_rows,
)
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
from caramel.report.table_styles import Grid, TableLine
from caramel.report.whole_sets import read_published_sizes
from caramel.utils.resampling import Bootstrap

ROUNDING = 0.0005  # greatest rounding error of a published share: some tables print one decimal of per cent


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
    models = _gather_models(similarities, further, benchmark, metrics, subsets, bootstrap, seeds=seeds)
    sizes = read_published_sizes()
    complete = [c for c in models.columns if {sizes.get((benchmark.name, c[0]))} == models.count_instances(c)]
    known = select_published_rows(
        benchmark.name, models.columns if published else (), complete, models.list_score_types()
    )
    published_lines = build_published_lines(known.rows, models.columns)
    digits = 2 if published_lines else 1  # papers print two
    above = [build_count_line(models, sizes), *build_chance_lines(models, digits, additions.chance)]
    if additions.ceilings is not None:
        above += build_ceiling_lines(additions.ceilings, models.columns, digits)
    measured_lines = build_measured_lines(models, digits, bootstrap, intervals=intervals)
    below, additional_notes = _build_additional_lines(
        models, published_lines, additions, digits, bootstrap.seed
    )
    return Grid(
        tuple(models.columns),
        (tuple(above), tuple(measured_lines), tuple(published_lines), tuple(below)),
        (
            *_list_measured_notes(models.rows, intervals),
            *list_published_notes(known),
            *additional_notes,
            *notes,
        ),
    )


def _gather_models(
    similarities: pd.DataFrame,
    further: pd.DataFrame | None,
    benchmark: Benchmark,
    metrics: Sequence[str],
    subsets: Sequence[str],
    bootstrap: Bootstrap,
    *,
    seeds: bool,
) -> MeasuredModels:
    """Return the measured models of the benchmark; arguments are those of ``build_paper_table``."""
    scores = similarities[similarities["benchmark"] == benchmark.name]
    parts = [summarise_similarities(scores, {benchmark.name: benchmark}, bootstrap=bootstrap)]
    if further is not None:
        parts.append(further[further["benchmark"] == benchmark.name])
    filled = [part for part in parts if len(part)]
    if not filled:
        names = sorted(
            {name for rows in (similarities, further) if rows is not None for name in rows["benchmark"]}
        )
        raise DataError(
            f"Nothing was measured on benchmark {benchmark.name!r}. The runs hold: {', '.join(names) or 'nothing'}."
        )
    figures = pd.concat(filled, ignore_index=True)
    twice = figures[figures.duplicated(["model", "subset", "metric"])]
    if len(twice):
        raise DataError(
            f"Several runs hold the model {twice['model'].iloc[0]!r}. Give each model once, and give different models different names."
        )
    columns = select_columns(figures, metrics, subsets)
    rows = group_seeds(list(dict.fromkeys(figures["model"].astype(str))), seeds)
    return MeasuredModels(benchmark, scores, figures, rows, columns)


def _build_additional_lines(
    models: MeasuredModels,
    published_lines: Sequence[TableLine],
    additions: Additions,
    digits: int,
    seed: int,
) -> tuple[list[TableLine], list[str]]:
    """Return the lines of errata, skill and ranks below the models, and their notes."""
    lines: list[TableLine] = []
    notes: list[str] = []
    benchmark, columns = models.benchmark, models.columns
    if additions.chance is None and any(metric in RECALLS for _, metric in columns):
        notes.append(ASSUMED_CHANCE_NOTE)
    if additions.uncorrected is not None:
        moves = _compute_moves(additions.uncorrected, models)
        lines += build_errata_lines(moves, models.rows, columns)
        notes.append(ERRATA_NOTE)
    published_values = read_line_values(published_lines, columns)
    if additions.ceilings is not None:
        for shares in (models.compute_means(), published_values):
            lines += build_skill_lines(additions.ceilings, shares, additions.skill, columns, digits)
        notes += format_class_notes(additions.ceilings)
    if additions.ranks:
        ranks = compute_row_ranks(models, seed)
        lines += build_rank_lines(ranks, columns)
        sized = {
            column: n
            for column in columns
            if column[0] not in (MACRO, *benchmark.means)
            for n in models.count_instances(column)
        }
        lines += build_published_rank_lines(published_values, sized, columns, rounding=ROUNDING)
        notes += [RANK_NOTE, *([PUBLISHED_RANK_NOTE] if published_lines else [])]
        notes += format_unranked_notes(ranks, models.rows, columns)
    return lines, notes


def _compute_moves(uncorrected: pd.DataFrame, models: MeasuredModels) -> pd.DataFrame:
    """Return how each measured figure moved by errata: see ``errata_effect.compare_metrics``."""
    benchmark = models.benchmark
    before = uncorrected[uncorrected["benchmark"] == benchmark.name]
    no_intervals = Bootstrap(1, 0)
    return compare_metrics(
        summarise_similarities(before, {benchmark.name: benchmark}, bootstrap=no_intervals), models.figures
    )


def _list_measured_notes(rows: Seeds, intervals: bool) -> list[str]:
    """Return the notes on the cells of the measured models."""
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
    return notes
