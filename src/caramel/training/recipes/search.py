"""Search the settings of variants: train points of a space, measure them on val and select the best."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from caramel.config.search_space import Point, draw_points, merge_point
from caramel.runtime.ray.asha import Halving
from caramel.runtime.ray.trials import TrialResult

COLUMNS = ["variant", "point", "setting", "seed", "metric", "value", "stopped", "repeatable", "chosen"]
Run = Callable[[Sequence[Point], Halving | None], list[TrialResult]]
Key = tuple[str, int, int]  # variant, index of the candidate, seed


@dataclass(frozen=True)
class AshaConfig:
    """When trials of a search end early: asynchronous successive halving.

    Attributes:
        first: number of checkpoints, > 0, after which the worse trials stop for the first time.
        factor: >= 2; the number of checkpoints is multiplied by it for each further time.
    """

    first: int
    factor: int


@dataclass(frozen=True)
class SearchConfig:
    """Which settings are tried before the training.

    Attributes:
        space: by variant, the values to try for each key, as in ``search_space.draw_points``.
        draws: number of draws for each combination of lists, > 0; None if nothing is drawn.
        seed: seed of the draws.
        seeds: training seeds of each candidate.
        asha: when trials end early; None: no trial does.
    """

    space: Mapping[str, Mapping[str, Any]]
    draws: int | None
    seed: int
    seeds: tuple[int, ...]
    asha: AshaConfig | None


class Candidate(NamedTuple):
    """A point of a space, and the variant's overrides with this point."""

    point: Point
    overrides: dict[str, Any]


class SearchResult(NamedTuple):
    """The selected settings and all trials.

    Attributes:
        overrides: by variant, its overrides with the selected point.
        table: a row for each trial, with these columns (``COLUMNS``):

            - variant, seed: of the trial.
            - point: number of the point, from 1.
            - setting: the point as JSON.
            - metric: name of the metric.
            - value: the metric on val, of the weights that are kept.
            - stopped: checkpoint at which the trial was ended early, for which ``value`` was measured;
              missing if it was not.
            - repeatable: whether a repeated search gives the same result.
            - chosen: whether the trial's point is the selected one.
    """

    overrides: dict[str, dict[str, Any]]
    table: pd.DataFrame


def build_trial_point(variant: str, seed: int, overrides: Mapping[str, Any]) -> Point:
    """Return the point of a trial; equal variants, seeds and overrides give the same trial."""
    return {"variant": variant, "seed": seed, **({"overrides": dict(overrides)} if overrides else {})}


def draw_candidates(
    search: SearchConfig, *, overrides: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> dict[str, list[Candidate]]:
    """Return the candidates of each variant.

    Args:
        search: settings of the search.
        overrides: by variant, its overrides without a point.
        common: settings of all variants.
    """
    return {
        variant: [
            Candidate(point, merge_point(overrides.get(variant, {}), point, common))
            for point in draw_points(space, search.draws, seed=search.seed, name=variant)
        ]
        for variant, space in search.space.items()
    }


def run_search(
    run: Run,
    tried: Mapping[str, Sequence[Candidate]],
    *,
    seeds: Sequence[int],
    halving: Mapping[str, Halving],
    metric: str,
) -> SearchResult:
    """Run all candidates with all seeds; select the one with the best mean for each variant.

    If several have the best mean, the first is selected. If a variant has a ``halving``, its candidates run
    with the first seed first, and the worse ones end early. The remaining ones then run with the other seeds.

    Args:
        run: returns the results of trials, as ``tune_grid`` does; the result of a finished trial is reused.
        tried: by variant, its candidates.
        seeds: training seeds of each candidate.
        halving: by variant, when its trials end early.
        metric: the one of ``compute_validation_metrics`` by which weights are selected.
    """
    results: dict[Key, dict[str, Any]] = {}

    def run_trials(keys: Iterable[Key], ending: Halving | None) -> None:
        keys = list(keys)
        trial_points = [
            build_trial_point(variant, seed, tried[variant][index].overrides) for variant, index, seed in keys
        ]
        results.update(zip(keys, (outcome.result for outcome in run(trial_points, ending)), strict=True))

    everything = [(variant, index) for variant, options in tried.items() for index in range(len(options))]
    order = {key: number for number, key in enumerate(everything)}
    for variant, ending in halving.items():  # one variant at a time: their values must not be compared
        run_trials(((v, p, seeds[0]) for v, p in everything if v == variant), ending)
    left = [(v, p) for v, p in everything if "stopped" not in results.get((v, p, seeds[0]), {})]
    run_trials(((v, p, seed) for v, p in left for seed in seeds), None)
    means = {
        (v, p): math.fsum(_get_metric_value(results[v, p, seed], metric) for seed in seeds) / len(seeds)
        for v, p in left
    }
    best = {
        variant: max((p for v, p in left if v == variant), key=lambda p: (means[variant, p], -p))
        for variant in tried
    }
    rows = [
        {
            "variant": variant,
            "point": index + 1,
            "setting": json.dumps(tried[variant][index].point),
            "seed": seed,
            "metric": metric,
            "value": _get_metric_value(result, metric),
            "stopped": result.get("stopped", {}).get("checkpoint"),
            "repeatable": variant not in halving,
            "chosen": index == best[variant],
        }
        for (variant, index, seed), result in sorted(results.items(), key=lambda item: order[item[0][:2]])
    ]
    return SearchResult(
        {v: tried[v][index].overrides for v, index in best.items()}, pd.DataFrame(rows, columns=COLUMNS)
    )


def _get_metric_value(result: Mapping[str, Any], metric: str) -> float:
    """Return the metric of the weights that a trial kept.

    This is the value of the selected mixture if there are mixtures, and of the last checkpoint of a trial
    that was ended early.
    """
    if "stopped" in result:
        return float(result["stopped"][metric])
    mixed = [value for _, name, value, selected in result["mixtures"] if selected and name == metric]
    if mixed:
        return float(mixed[0])
    values = [value for _, name, value in result["curve"] if name == metric]
    return float(max(values) if result["select"] else values[-1])
