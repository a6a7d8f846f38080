"""Sections on models: the main table, differences, subtypes and learning curves."""

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
    count,
    interval,
    percent,
)
from caramel.report.inputs import Skipped, read_csv
from caramel.report.plots import bars_figure, curves_figure
from caramel.report.sections.attacker_sections import joint_tables
from caramel.report.sections.claim_parts import compounds_blocks
from caramel.report.sections.model_rows import (
    FINER,
    FORM,
    MAIN,
    SOURCE_FORM,
    Column,
    Row,
    keyed,
    read_differences,
    read_further,
    read_metrics,
    read_source_form,
    read_variants,
)
from caramel.report.sections.retained_sections import NOTE, retained_columns
from caramel.schemas.columns import SUBTYPES

BY_SUBTYPE = {"SugarCrepe accuracy": "accuracy", "I2T": "i2t", "T2I": "t2i", "Group": "group"}
Tests = Mapping[tuple[str, ...], float]  # two models in the order of their names, subset, metric -> p


def models_section(data: Path) -> list[Block]:
    """Return the base and each variant on every metric, best marked, and each run by itself."""
    variants, metrics = read_variants(data), read_metrics(data)
    note = (
        "Per cent of instances. ± standard deviation over training seeds; brackets: 95 % interval, a t "
        "interval over seeds or, for a single model, a bootstrap over images. Bold: better than every other of its "
        "column, p < 0.05 by the paired tests of Differences after Holm's correction over the table. "
        "Without add: an added detail leaves the positive caption true of the negative image, so "
        "those instances cannot be separated in both directions. GroupMatch: the right assignment of both "
        "captions to both images beats the swapped one; its chance is 50, so it is not comparable with Group."
    )
    tests = _tests(data, FORM)
    return [
        _models_table("", MAIN, variants, metrics, tests, f"{note} {NOTE}", beside=retained_columns(data)),
        *compounds_blocks(data),
        *_source_form_table(data),
        *joint_tables(data),
        _models_table("Finer metrics", FINER, variants, metrics, tests, "", folded=True),
        _runs_table(metrics),
        *_further_tables(data),
    ]


def _tests(data: Path, benchmark: str) -> Tests:
    """Return the p-value of two models, in the order of their names, in a column; not corrected."""
    rows = read_differences(data, benchmark)
    keys = zip(rows["a"], rows["b"], rows["subset"], rows["metric"], strict=True)
    return {
        (*sorted((str(a), str(b))), str(subset), str(metric)): float(p)
        for (a, b, subset, metric), p in zip(keys, rows["p"], strict=True)
    }


def _source_form_table(data: Path) -> list[Block]:
    """Return the main table for the benchmark's other form, where there is one."""
    metrics = read_source_form(data)
    if metrics.empty:
        return []
    note = (
        "The same instances, but for the positive images: here they are those of the source, while the negative ones are "
        "drawn. So images alone tell which is which. Bold as above, by the tests of this form."
    )
    variants, tests = summarise_variants(metrics), _tests(data, SOURCE_FORM)
    return [_models_table("With the positive images of the source", MAIN, variants, metrics, tests, note)]


def _models_table(
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
    """Return chance, base and variants in rows; ``beside``: titles of further columns, and their cells by variant."""
    found = keyed(variants, "variant", "subset", "metric")
    single = metrics[metrics.groupby("variant")["model"].transform("nunique") == 1]
    alone = keyed(single, "variant", "subset", "metric")
    names = list(dict.fromkeys(variants["variant"].astype(str)))
    means = {
        (c.subset, c.metric): {n: float(found[n, c.subset, c.metric]["mean"]) for n in names} for c in columns
    }
    bold = find_leaders(means, lambda a, b, place: tests.get((*sorted((a, b)), *place), 1.0))
    chance = [Cell(percent(METRICS[c.metric].chance), mark="muted") for c in columns]
    titles, further = beside
    rows = [[Cell("chance", mark="muted"), *chance, *(Cell(MISSING, mark="muted") for _ in titles)]]
    for name in names:
        seeds = max(found[name, c.subset, c.metric]["seeds"] for c in columns)
        cells = [Cell(name, f"{seeds} seeds" if seeds > 1 else "")]
        for column in columns:
            key = (name, column.subset, column.metric)
            leads = (name, (column.subset, column.metric)) in bold
            cells.append(_model_cell(found[key], alone.get(key, found[key]), leads))
        rows.append([*cells, *further.get(name, [Cell(MISSING)] * len(titles))])
    head = ("Model", *(c.title for c in columns), *titles)
    return TableBlock(caption, head, rows, note=note, folded=folded)


def _model_cell(row: Row, bounds: Row, leads: bool) -> Cell:
    """Return the mean with its spread; ``bounds`` has the interval to show."""
    spread = "" if math.isnan(row["sd"]) else f" ± {percent(row['sd'])}"
    text = f"{percent(row['mean'])}{spread}"
    return Cell(text, interval(bounds["ci_low"], bounds["ci_high"]), "best" if leads else "")


def _runs_table(metrics: pd.DataFrame) -> TableBlock:
    """Return every run by itself, with bootstrap intervals, instances and ties."""
    found = keyed(metrics[metrics["subset"] == "all"], "model", "metric")
    columns = [c for c in MAIN if c.subset == "all"]
    rows = []
    for model in dict.fromkeys(metrics["model"].astype(str)):
        of = [found[model, c.metric] for c in columns]
        cells = [Cell(percent(row["value"]), interval(row["ci_low"], row["ci_high"])) for row in of]
        accuracy, group = found[model, "accuracy"], found[model, "group"]
        counts = (accuracy["n"], group["n"], accuracy["ties"], group["ties"])
        rows.append([Cell(model), *cells, *(Cell(count(n)) for n in counts)])
    counted = ("instances", "with both images", "ties, SugarCrepe", "ties, Group")
    head = ("Run", *(c.title for c in columns), *counted)
    note = "Brackets: 95 % bootstrap interval over images. A tie counts as a miss."
    return TableBlock("Each run", head, rows, note=note, folded=True)


def subtypes_section(data: Path) -> list[Block]:
    """Return bars by subtype for the base and each variant."""
    variants = read_variants(data)
    order = list(dict.fromkeys(variants["variant"]))
    subsets = [s for s in SUBTYPES if s in set(variants["subset"])]

    def wide(metric: str, column: str) -> pd.DataFrame:
        rows = variants[variants["metric"] == metric]
        return rows.pivot(index="subset", columns="variant", values=column).loc[subsets, order]

    figure = bars_figure(
        {title: wide(metric, "mean") for title, metric in BY_SUBTYPE.items()},
        {title: wide(metric, "sd") for title, metric in BY_SUBTYPE.items()},
        {title: METRICS[metric].chance for title, metric in BY_SUBTYPE.items()},
    )
    spread = " Lines: standard deviation over seeds." if variants["sd"].notna().any() else ""
    caption = f"Share of instances by subtype.{spread} Dotted: chance."
    return [FigureBlock("subtypes", figure, caption, "Bars of four metrics by subtype and model.")]


def curves_section(path: Path, name: str) -> list[Block]:
    """Return the learning curves of one stage."""
    curves = read_csv(path, ("model", "step", "metric", "value", "kept"))
    if curves.empty:
        raise Skipped("no step was recorded: the model was adopted, not trained")
    curves = curves.assign(group=curves["model"].astype(str).map(parse_variant))
    # The base first even where it has no curve: a variant's colour is that of its bars.
    figure = curves_figure(curves, list(dict.fromkeys([BASE, *curves["group"]])))
    caption = "Learning curves; each line is one run. A dot is at the step whose weights were kept."
    return [FigureBlock(f"curves_{name}", figure, caption, f"Learning curves of stage {name}.")]


def _further_tables(data: Path) -> list[Block]:
    """Return what `evaluate.models` and `evaluate.benchmarks` add: all instances and the macro mean."""
    further = read_further(data)
    further = further[further["subset"].isin(["all", "macro"])]
    if further.empty:
        return []
    rows = [
        [
            *(Cell(str(row[name])) for name in ("benchmark", "model", "metric", "subset")),
            Cell(percent(row["value"]), interval(row["ci_low"], row["ci_high"])),
            *(Cell(count(row[name])) for name in ("n", "ties", "unscored")),
        ]
        for row in further.sort_values(["benchmark", "metric"], kind="stable").to_dict("records")
    ]
    head = ("Benchmark", "Model", "Metric", "Subset", "Value", "Instances", "Ties", "Unscored")
    note = "Per cent. Brackets: 95 % bootstrap interval over images. A tie counts as a miss."
    return [TableBlock("Further models and benchmarks", head, rows, note=note, labels=4)]
