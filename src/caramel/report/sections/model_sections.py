"""Build the sections on models: the main table, subtypes and learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from caramel.benchmarks.metrics import METRICS
from caramel.evaluation.results.comparison import find_leaders
from caramel.evaluation.results.summary import BASE, parse_variant, summarise_variants
from caramel.report.blocks import (
    MISSING,
    Block,
    Cell,
    FigureBlock,
    TableBlock,
    format_count,
    format_interval,
    format_percent,
)
from caramel.report.inputs import StageSkipped, read_csv
from caramel.report.plots import plot_bars, plot_learning_curves
from caramel.report.sections.attacker_sections import build_joint_tables
from caramel.report.sections.claim_parts import build_compounds_blocks
from caramel.report.sections.model_rows import (
    FINER,
    FORM,
    MAIN,
    SOURCE_FORM,
    Column,
    Row,
    build_row_index,
    read_differences,
    read_further,
    read_metrics,
    read_source_form,
    read_variants,
)
from caramel.report.sections.retained_sections import NOTE, build_retained_columns
from caramel.schemas.columns import SUBTYPES

BY_SUBTYPE = {"Accuracy": "accuracy", "I2T": "i2t", "T2I": "t2i", "Group": "group"}
Tests = Mapping[tuple[str, ...], float]  # two models in order of their names, subset, metric -> p


def build_models_section(data: Path) -> list[Block]:
    """Return base and variants on every metric with the best marked, and each run separately."""
    variants, metrics = read_variants(data), read_metrics(data)
    note = (
        "Per cent of instances. ± standard deviation over training seeds; brackets: 95 % interval, a t "
        "interval over seeds or, for a single model, a bootstrap over images. Bold: better than every other model in its "
        "column, p < 0.05 by the paired tests of Differences after Holm correction over the table. "
        "Without add: for an added detail, the positive caption is also true of the negative image, so "
        "those instances cannot be separated in both directions. GroupMatch: the right assignment of both "
        "captions to both images beats the swapped one; its chance is 50, so it cannot be compared with Group."
    )
    tests = _read_p_values(data, FORM)
    return [
        _build_models_table(
            "", MAIN, variants, metrics, tests, f"{note} {NOTE}", beside=build_retained_columns(data)
        ),
        *build_compounds_blocks(data),
        *_build_source_form_table(data),
        *build_joint_tables(data),
        _build_models_table("Finer metrics", FINER, variants, metrics, tests, "", folded=True),
        _build_runs_table(metrics),
        *_build_further_tables(data),
    ]


def _read_p_values(data: Path, benchmark: str) -> Tests:
    """Return the uncorrected p-value of two models, in order of their names, in a column."""
    rows = read_differences(data, benchmark)
    keys = zip(rows["a"], rows["b"], rows["subset"], rows["metric"], strict=True)
    return {
        (*sorted((str(a), str(b))), str(subset), str(metric)): float(p)
        for (a, b, subset, metric), p in zip(keys, rows["p"], strict=True)
    }


def _build_source_form_table(data: Path) -> list[Block]:
    """Return the main table for the benchmark's other form, if there is one."""
    metrics = read_source_form(data)
    if metrics.empty:
        return []
    note = (
        "The same instances with the positive images of the source; the negative images are "
        "drawn. So images alone separate the two.  Bold as above, by the tests of this form."
    )
    variants, tests = summarise_variants(metrics), _read_p_values(data, SOURCE_FORM)
    return [
        _build_models_table("With the positive images of the source", MAIN, variants, metrics, tests, note)
    ]


def _build_models_table(
    caption: str,
    columns: Sequence[Column],
    variants: pd.DataFrame,
    metrics: pd.DataFrame,
    tests: Tests,
    note: str,
    *,
    folded: bool = False,
    beside: tuple[Sequence[str], Mapping[str, Sequence[Cell]]] = ((), {}),
) -> TableBlock:
    """Return chance, base and variants in rows.

    ``beside``: titles of additional columns, and their cells by variant.
    """
    rows_by_key = build_row_index(variants, "variant", "subset", "metric")
    single = metrics[metrics.groupby("variant")["model"].transform("nunique") == 1]
    alone = build_row_index(single, "variant", "subset", "metric")
    names = list(dict.fromkeys(variants["variant"].astype(str)))
    means = {
        (c.subset, c.metric): {n: float(rows_by_key[n, c.subset, c.metric]["mean"]) for n in names}
        for c in columns
    }
    bold = find_leaders(means, lambda a, b, cell_key: tests.get((*sorted((a, b)), *cell_key), 1.0))
    chance = [Cell(format_percent(METRICS[c.metric].chance), mark="muted") for c in columns]
    titles, further = beside
    rows = [[Cell("chance", mark="muted"), *chance, *(Cell(MISSING, mark="muted") for _ in titles)]]
    for name in names:
        seeds = max(rows_by_key[name, c.subset, c.metric]["seeds"] for c in columns)
        cells = [Cell(name, f"{seeds} seeds" if seeds > 1 else "")]
        for column in columns:
            key = (name, column.subset, column.metric)
            leads = (name, (column.subset, column.metric)) in bold
            cells.append(_build_model_cell(rows_by_key[key], alone.get(key, rows_by_key[key]), leads))
        rows.append([*cells, *further.get(name, [Cell(MISSING)] * len(titles))])
    head = ("Model", *(c.title for c in columns), *titles)
    return TableBlock(caption, head, rows, note=note, folded=folded)


def _build_model_cell(row: Row, bounds: Row, leads: bool) -> Cell:
    """Return the mean with its spread; ``bounds`` has the interval to show."""
    spread = "" if math.isnan(row["sd"]) else f" ± {format_percent(row['sd'])}"
    text = f"{format_percent(row['mean'])}{spread}"
    return Cell(text, format_interval(bounds["ci_low"], bounds["ci_high"]), "best" if leads else "")


def _build_runs_table(metrics: pd.DataFrame) -> TableBlock:
    """Return every run with bootstrap intervals, instances and ties."""
    rows_by_key = build_row_index(metrics[metrics["subset"] == "all"], "model", "metric")
    columns = [c for c in MAIN if c.subset == "all"]
    rows = []
    for model in dict.fromkeys(metrics["model"].astype(str)):
        of = [rows_by_key[model, c.metric] for c in columns]
        cells = [
            Cell(format_percent(row["value"]), format_interval(row["ci_low"], row["ci_high"])) for row in of
        ]
        accuracy, group = rows_by_key[model, "accuracy"], rows_by_key[model, "group"]
        counts = (accuracy["n"], group["n"], accuracy["ties"], group["ties"])
        rows.append([Cell(model), *cells, *(Cell(format_count(n)) for n in counts)])
    counted = ("instances", "with both images", "ties, SugarCrepe", "ties, Group")
    head = ("Run", *(c.title for c in columns), *counted)
    note = "Brackets: 95 % bootstrap interval over images. A tie counts as a miss."
    return TableBlock("Each run", head, rows, note=note, folded=True)


def build_subtypes_section(data: Path) -> list[Block]:
    """Return bars by subtype for the base and each variant."""
    variants = read_variants(data)
    order = list(dict.fromkeys(variants["variant"]))
    subsets = [s for s in SUBTYPES if s in set(variants["subset"])]

    def build_wide_table(metric: str, column: str) -> pd.DataFrame:
        rows = variants[variants["metric"] == metric]
        return rows.pivot(index="subset", columns="variant", values=column).loc[subsets, order]

    figure = plot_bars(
        {title: build_wide_table(metric, "mean") for title, metric in BY_SUBTYPE.items()},
        {title: build_wide_table(metric, "sd") for title, metric in BY_SUBTYPE.items()},
        {title: METRICS[metric].chance for title, metric in BY_SUBTYPE.items()},
    )
    spread = " Lines: standard deviation over seeds." if variants["sd"].notna().any() else ""
    caption = f"Share of instances by subtype.{spread} Dotted: chance."
    return [FigureBlock("subtypes", figure, caption, "Bars of four metrics by subtype and model.")]


def build_curves_section(path: Path, name: str) -> list[Block]:
    """Return the learning curves of one stage."""
    curves = read_csv(path, ("model", "step", "metric", "value", "kept"))
    if curves.empty:
        raise StageSkipped("no step was recorded: the model was adopted, not trained")
    curves = curves.assign(group=curves["model"].astype(str).map(parse_variant))
    # The base comes first even without a curve, so that variants have the same colours as their bars.
    figure = plot_learning_curves(curves, list(dict.fromkeys([BASE, *curves["group"]])))
    caption = "Learning curves; each line is one run. A dot is at the step whose weights were kept."
    return [FigureBlock(f"curves_{name}", figure, caption, f"Learning curves of stage {name}.")]


def _build_further_tables(data: Path) -> list[Block]:
    """Return the results of `evaluate.models` and `evaluate.benchmarks`: all instances and the macro mean."""
    further = read_further(data)
    further = further[further["subset"].isin(["all", "macro"])]
    if further.empty:
        return []
    rows = [
        [
            *(Cell(str(row[name])) for name in ("benchmark", "model", "metric", "subset")),
            Cell(format_percent(row["value"]), format_interval(row["ci_low"], row["ci_high"])),
            *(Cell(format_count(row[name])) for name in ("n", "ties", "unscored")),
        ]
        for row in further.sort_values(["benchmark", "metric"], kind="stable").to_dict("records")
    ]
    head = ("Benchmark", "Model", "Metric", "Subset", "Value", "Instances", "Ties", "Unscored")
    note = "Per cent. Brackets: 95 % bootstrap interval over images. A tie counts as a miss."
    return [TableBlock("Further models and benchmarks", head, rows, note=note, labels=4)]
