"""Run a study: repeat the graph with other seeds, and summarise how its comparisons hold up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from caramel.benchmarks.metrics import compute_outcomes
from caramel.config.profiles import read_profile
from caramel.config.schema import Config
from caramel.config.sections.results import PrimaryComparison
from caramel.errors import DataError
from caramel.evaluation.results.paired_tests import ALPHA
from caramel.evaluation.results.summary import BASE, parse_variant
from caramel.schemas.columns import COMPOUNDS
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame, read_table
from caramel.schemas.study import STUDY
from caramel.study import cells, workspace
from caramel.study.code_hash import hash_fixed
from caramel.study.components import Component, assign_levels, compute_instance_variance, estimate_components
from caramel.study.power import (
    Design,
    compute_detectable_effect,
    compute_power,
    compute_required_sizes,
    variance_of_mean,
)
from caramel.study.preregistration import Registration, RunFacts, check_registration
from caramel.study.run_pairs import pair_runs
from caramel.study.subtypes import compute_parts
from caramel.utils.stats import SeedSummary, holm_correction, summarise_seeds

BENCHMARK = "instances"
HEADLINE_METRICS = ("accuracy", "i2t", "t2i", "group")
SEED = 0  # of the simulations for the intervals of the components


class CellResults(NamedTuple):
    """Results of the cells."""

    runs: pd.DataFrame  # table ``study``
    hits: Mapping[
        str, Sequence[tuple[cells.Cell, pd.Series]]
    ]  # differences of the primary comparison by subset, for ``compute_instance_variance``


class Comparison(NamedTuple):
    """One comparison over all cells, on one subset."""

    variant: str
    against: str
    metric: str
    subset: str
    values: pd.Series  # the difference in each run, by (scenes, generator, base, finetune)
    over_draws: SeedSummary  # summary of the means of the draws of the scenes
    p: float  # of the t test over draws


def plan_study(
    profile: str, sets: Mapping[str, str], root: Path
) -> tuple[Config, list[tuple[cells.Cell, dict[str, int | list[int]]]]]:
    """Return the config of a study, and its cells with their seeds by dotted key.

    Raises:
        ConfigError: the profile or a value is wrong, or the profile cannot be studied.
    """
    _, config = read_profile(profile, sets, root)
    cells.check_config(config)
    return config, [
        (cell, cells.compute_seeds(config, cell)) for cell in cells.list_cells(config.study.draws)
    ]


def run_cells(profile: str, sets: Mapping[str, str], root: Path, folder: Path) -> CellResults:
    """Run every cell in ``folder`` or reuse its earlier run; arguments as of ``plan_study``.

    Raises:
        ResourceError: a stage failed.
        DataError: the models were not scored on the primary comparison.
    """
    config, todo = plan_study(profile, sets, root)
    workspace.prepare_folder(root, folder)
    parts: list[pd.DataFrame] = []
    hits: dict[str, list[tuple[cells.Cell, pd.Series]]] = {}
    bar = tqdm(total=len(todo) * len(workspace.list_stages(folder)), unit="stage", disable=None)
    with bar:
        for number, (cell, seeds) in enumerate(todo, start=1):
            bar.set_description(f"cell {number} of {len(todo)}")
            workspace.run_graph(
                folder, profile, {**sets, **{k: str(seed) for k, seed in seeds.items()}}, bar=bar
            )
            out = folder / "data" / workspace.LAST
            metrics = read_table(METRICS, out / "metrics.parquet")
            parts.append(_select_cell_rows(metrics, cell, config.finetune.variants))
            scores = read_table(SIMILARITIES, out / "similarities.parquet")
            for subset in dict.fromkeys([config.report.primary_comparison.subset, *COMPOUNDS]):
                differences = _iter_differences(scores, config.report.primary_comparison, subset)
                hits.setdefault(subset, []).extend((cell, hit_difference) for hit_difference in differences)
    return CellResults(build_frame(STUDY, pd.concat(parts, ignore_index=True)), hits)


def _select_cell_rows(metrics: pd.DataFrame, cell: cells.Cell, variants: Iterable[str]) -> pd.DataFrame:
    """Return the rows of the base and the variants of one cell for table ``study``."""
    rows = metrics[metrics["benchmark"] == BENCHMARK]
    rows = rows.assign(variant=rows["model"].map(parse_variant), **cell._asdict())
    rows = rows[rows["variant"].isin([BASE, *variants])]
    names = zip(rows["model"], rows["variant"], strict=True)
    return rows.assign(finetune=[model.removeprefix(variant).removeprefix("-") for model, variant in names])


def _iter_differences(
    scores: pd.DataFrame, primary_comparison: PrimaryComparison, subset: str
) -> Iterator[pd.Series]:
    """Yield the differences of hits by (image_id, instance_id) for each fine-tuning seed of one cell."""
    inside = scores["subsets"].map(lambda names: subset == "all" or subset in names)
    rows = scores[(scores["benchmark"] == BENCHMARK) & inside]
    hits = compute_outcomes(rows, [primary_comparison.metric]).hits[primary_comparison.metric]
    table = rows.assign(hit=hits).pivot(index=["image_id", "instance_id"], columns="model", values="hit")
    for model in table.columns:
        variant, _, seed = str(model).rpartition("-")
        if variant == primary_comparison.variant:
            yield (
                table[model]
                - table[
                    BASE if primary_comparison.against == BASE else f"{primary_comparison.against}-{seed}"
                ]
            )


def compare_variants(runs: pd.DataFrame, variant: str, against: str, metric: str, subset: str) -> Comparison:
    """Return one comparison; both models have the same scenes, generator, base and seed.

    Raises:
        DataError: it was not measured in every cell.
    """
    of_a_cell = list(cells.Cell._fields)
    rows = runs[(runs["metric"] == metric) & (runs["subset"] == subset)]
    both = pair_runs(rows, variant, against).set_index([*of_a_cell, "finetune"]).sort_index()
    values = both["value"] - both["value_against"]
    if values.empty or values.isna().any():
        raise DataError(
            f"The study has no value of {metric} on {subset} of {variant} over {against} in some cells. "
            f"Use more test scenes, or another report.primary_comparison."
        )
    of_draws = summarise_seeds(values.groupby(of_a_cell).mean().groupby("scenes").mean().to_numpy(float))
    return Comparison(variant, against, metric, subset, values, of_draws, _compute_p_value(of_draws))


def _compute_p_value(of_draws: SeedSummary) -> float:
    """Return the two-sided p-value of no difference by the t test over draws of the scenes.

    If all draws have equal differences, they rest on so few instances that their spread is unknown; p is then
    1.
    """
    from scipy.stats import t

    if of_draws.sd < 1e-12:
        return 1.0
    return float(2 * t.sf(abs(of_draws.mean) / of_draws.sd * of_draws.n**0.5, of_draws.n - 1))


def compare_all(runs: pd.DataFrame, primary_comparison: PrimaryComparison) -> list[Comparison]:
    """Return the primary comparison, then all pairs of variants and base by metric, and by compounds.

    The two models of the primary comparison keep its order everywhere.
    """
    first = (
        primary_comparison.variant,
        primary_comparison.against,
        primary_comparison.metric,
        primary_comparison.subset,
    )
    available = {*zip(runs["metric"], runs["subset"], strict=True)}
    headline = "without_add" if ("group", "without_add") in available else "all"
    columns = [(metric, headline) for metric in HEADLINE_METRICS] + [("group", part) for part in COMPOUNDS]
    named = (primary_comparison.variant, primary_comparison.against)
    pairs = [(a, b) for b, a in combinations(dict.fromkeys(runs["variant"]), 2)]
    names = [named if {*pair} == {*named} else pair for pair in pairs]
    requested = [(a, b, *column) for a, b in names for column in columns if column in available]
    return [compare_variants(runs, *key) for key in dict.fromkeys([first, *requested])]


def check_plan(config: Config, root: Path, began: datetime) -> Registration:
    """Return whether a study is confirmatory; ``began`` is the start time of its first cell.

    Raises:
        ConfigError: the file of the plan is missing or broken, or the graph is broken.
        DataError: a source of a stage is missing.
    """
    drawn: list[int] = []
    for draw in range(len(config.study.draws)):
        seed = cells.compute_seeds(config, cells.Cell(draw, 0, 0))["scenes.seed"]
        assert isinstance(seed, int), "scenes.seed is one number"
        drawn.append(seed)
    plan_path = None if config.report.plan is None else root / config.report.plan
    ran = RunFacts(drawn, began, hash_fixed(root, config))
    return check_registration(plan_path, config.report.primary_comparison, ran)


def summarise_study(
    ran: CellResults, config: Config, commit: str, registration: Registration
) -> dict[str, Any]:
    """Return the content of ``study.json``.

    It has the primary comparison with its components and power, also for seen and unseen compounds, and all
    other comparisons. The primary comparison is one test: it is shown if p < 5 % and the difference is above
    0. ``registration`` says whether it is confirmatory. All others share one Holm correction; positive and
    negative differences can be significant.
    """
    contrast = config.report.primary_comparison
    first, *others = compare_all(ran.runs, contrast)
    corrected = holm_correction(np.array([comparison.p for comparison in others]))
    compounds = {
        comparison.subset: _explain_comparison(comparison, ran, config)
        for comparison in others
        if (comparison.variant, comparison.against, comparison.metric)
        == (contrast.variant, contrast.against, contrast.metric)
        and comparison.subset in COMPOUNDS
    }
    return {
        "profile": config.profile,
        "commit": commit,
        "draws": [list(pair) for pair in config.study.draws],
        "seeds": len(config.finetune.seeds),
        "effect": config.study.effect,
        "registration": registration._asdict(),
        "contrast": {
            **_format_comparison(first),
            "shown": first.p < ALPHA and first.over_draws.mean > 0,
            **_explain_comparison(first, ran, config),
        },
        "parts": [
            {key: value if isinstance(value, str) else _round_or_none(value) for key, value in part.items()}
            for part in compute_parts(ran.runs, contrast)
        ],
        "compounds": compounds,
        "models": _summarise_models(
            ran.runs, dict.fromkeys((comparison.metric, comparison.subset) for comparison in [first, *others])
        ),
        "exploratory": [
            {**_format_comparison(comparison), "p_holm": _round_or_none(p), "shown": bool(p < ALPHA)}
            for comparison, p in zip(others, corrected, strict=True)
        ],
    }


def _summarise_models(runs: pd.DataFrame, columns: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return each model's metrics: mean over draws of the scenes, their standard deviation and t interval."""
    rows = []
    for variant, metric, subset in [(v, *c) for v in runs["variant"].unique() for c in columns]:
        those = runs[(runs["variant"] == variant) & (runs["metric"] == metric) & (runs["subset"] == subset)]
        of_cells = those.groupby(list(cells.Cell._fields))["value"].mean()
        over = summarise_seeds(of_cells.groupby("scenes").mean().to_numpy(float))
        numbers = {name: _round_or_none(getattr(over, name)) for name in ("mean", "sd", "low", "high")}
        rows.append({"variant": variant, "metric": metric, "subset": subset, **numbers})
    return rows


def _explain_comparison(comparison: Comparison, ran: CellResults, config: Config) -> dict[str, Any]:
    """Return the variance components of a metric, its value by cell, and the power of studies of other sizes."""
    of_instances, instances = compute_instance_variance(ran.hits[comparison.subset])
    runs = [(cells.Cell(*key[:3]), int(key[3])) for key in comparison.values.index]
    parts = estimate_components(
        comparison.values.to_numpy(float), assign_levels(runs), of_instances=of_instances, seed=SEED
    )
    design = Design(config.study.draws, len(config.finetune.seeds), instances)
    variance, effect = variance_of_mean(parts, design, instances=instances), config.study.effect
    by_cell = comparison.values.groupby(list(cells.Cell._fields)).agg(["mean", "min", "max"]).reset_index()
    return {
        "instances": instances,
        "components": [_format_component(part) for part in parts],
        "power": {
            "power": compute_power(variance, len(design.draws), effect),
            "detectable": compute_detectable_effect(variance, len(design.draws)),
            "needed": dict(compute_required_sizes(parts, design, instances=instances, effect=effect)),
        },
        "cells": by_cell.to_dict("records"),
    }


def _format_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON; NaN is null."""
    over = comparison.over_draws
    return {
        **{name: getattr(comparison, name) for name in ("variant", "against", "metric", "subset")},
        **{name: _round_or_none(getattr(over, name)) for name in ("mean", "low", "high", "sd")},
        "p": _round_or_none(comparison.p),
    }


def _format_component(part: Component) -> dict[str, Any]:
    numbers = {key: _round_or_none(value) for key, value in part._asdict().items() if key != "name"}
    return {"name": part.name, **numbers, "truncated": part.truncated}


def _round_or_none(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 10)
