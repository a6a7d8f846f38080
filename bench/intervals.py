"""Measure the coverage of intervals and the error rates of tests: `python bench/intervals.py`.

Hits of known probability are drawn, clustered on images, and given to the functions that judge models.
Printed are

- for intervals of fractions: the share of trials in which the 95 % interval holds the true value, beside the
  plain percentile interval. Goal: 93 to 97 %.
- for comparisons of equal models: the share of trials with p < 5 % (goal: 5.5 % at most), and in which the
  interval holds zero (goal: 93 % at least; a higher share is no error if the two disagree on few instances).
- for `compare` as a whole: the share of comparisons with any claim after Holm correction (goal: 5.5 % at most).
- the share of trials in which a true difference of the size `detectable` is found. Goal: 75 to 85 %.

A goal is missed if the share departs from it by more than two standard errors of the simulation; then the
exit code is
1. It takes about two minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.tasks import build_comparisons
from caramel.evaluation.results.comparison import compare_models
from caramel.evaluation.results.paired_tests import compare_hits
from caramel.interfaces.benchmark import Benchmark
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import bootstrap_means, compute_means, count_clusters, fraction_intervals

Floats = npt.NDArray[np.float64]
Clusters = npt.NDArray[np.int64]
RESAMPLES = 1000


@dataclass(frozen=True)
class Result:
    """A share of trials and its goal range."""

    name: str
    share: float
    low: float
    high: float
    trials: int
    beside: str = ""

    @property
    def missed(self) -> bool:
        """Return whether the share is outside the range by more than the simulation's own error."""
        slack = 2 * (max(self.share * (1 - self.share), 1e-9) / self.trials) ** 0.5
        return not self.low - slack <= self.share <= self.high + slack

    def __str__(self) -> str:
        verdict = "MISSED" if self.missed else "ok"
        return f"{self.name:<64} {100 * self.share:6.1f} %  {verdict:<6}  {self.beside}"


def draw_clusters(rng: np.random.Generator, count: int, largest: int) -> Clusters:
    """Return the cluster of each instance; sizes are uniform in 1 … largest. (n,)."""
    return np.repeat(np.arange(count), rng.integers(1, largest + 1, size=count))


def draw_hit_probabilities(
    rng: np.random.Generator, clusters: Clusters, p: float, correlation: float, trials: int
) -> Floats:
    """Return each instance's probability of a hit, beta-distributed over clusters with mean p. (n, trials)."""
    count = int(clusters.max()) + 1
    if correlation == 0:
        return np.full((len(clusters), trials), p)
    size = 1 / correlation - 1
    return rng.beta(p * size, (1 - p) * size, size=(count, trials))[clusters]


def draw_hits(rng: np.random.Generator, chance: Floats) -> Floats:
    """Return hits with the given probabilities."""
    return (rng.random(chance.shape) < chance).astype(float)


def measure_coverage(
    rng: np.random.Generator, count: int, largest: int, p: float, correlation: float, trials: int
) -> Result:
    """Return how often the interval of a fraction holds the true value."""
    clusters = draw_clusters(rng, count, largest)
    hits = draw_hits(rng, draw_hit_probabilities(rng, clusters, p, correlation, trials))
    samples = bootstrap_means(hits, clusters, resamples=RESAMPLES, seed=int(rng.integers(2**31)))
    low, high = fraction_intervals(compute_means(hits), samples, count_clusters(hits, clusters))
    plain_low, plain_high = compute_percentile_interval(samples)
    plain = float(((plain_low <= p) & (p <= plain_high)).mean())
    return Result(
        f"{count} images of 1 to {largest}, p {p:.2f}, correlation {correlation}",
        float(((low <= p) & (p <= high)).mean()),
        0.93,
        0.97,
        trials,
        f"percentile interval {100 * plain:5.1f} %",
    )


def compute_percentile_interval(samples: Floats) -> tuple[Floats, Floats]:
    """Return the plain percentile interval of each column, for comparison."""
    low, high = np.nanquantile(samples, [0.025, 0.975], axis=0)
    return low, high


def compare_trials(a: Floats, b: Floats, clusters: Clusters, seed: int) -> pd.DataFrame:
    """Return the comparison of each trial. a, b: (seeds, n, trials)."""
    rows = pd.DataFrame({"image_id": clusters, "subsets": [[] for _ in clusters]})
    metrics = [str(n) for n in range(a.shape[2])]
    return compare_hits(a, b, rows, metrics, lambda _: False, bootstrap=Bootstrap(RESAMPLES, seed))


def measure_null_errors(
    name: str, rng: np.random.Generator, a: Floats, b: Floats, clusters: Clusters
) -> Iterator[Result]:
    """Yield how often models without a true difference differ significantly."""
    draw = int(rng.integers(2**31))
    comparison = compare_trials(a, b, clusters, draw)
    trials = len(comparison)
    held = (comparison["ci_low"] <= 0) & (comparison["ci_high"] >= 0)
    low, high = compute_percentile_interval(
        bootstrap_means(a.mean(axis=0) - b.mean(axis=0), clusters, resamples=RESAMPLES, seed=draw)
    )
    plain = 100 * float(((low <= 0) & (high >= 0)).mean())
    yield Result(f"{name}: p < 5 %", float((comparison["p"] < 0.05).mean()), 0.0, 0.055, trials)
    yield Result(
        f"{name}: interval holds 0",
        float(held.mean()),
        0.93,
        1.0,
        trials,
        f"percentile interval {plain:5.1f} %",
    )


def measure_equal_models(
    rng: np.random.Generator, count: int, p: float, correlation: float, trials: int
) -> Iterator[Result]:
    """Yield results for two models that find the same images hard but err independently."""
    clusters = draw_clusters(rng, count, 8)
    chance = draw_hit_probabilities(rng, clusters, p, correlation, trials)
    a, b = draw_hits(rng, chance), draw_hits(rng, chance)
    yield from measure_null_errors(
        f"{count} images, p {p:.2f}, correlation {correlation}", rng, a[None], b[None], clusters
    )


def measure_unlike_models(rng: np.random.Generator, count: int, trials: int) -> Iterator[Result]:
    """Yield results for models of equal accuracy, only one of which is consistent within an image."""
    clusters = draw_clusters(rng, count, 8)
    a = draw_hits(rng, draw_hit_probabilities(rng, clusters, 0.7, 0.8, trials))
    b = draw_hits(rng, draw_hit_probabilities(rng, clusters, 0.7, 0.0, trials))
    yield from measure_null_errors(f"{count} images, unlike correlation", rng, a[None], b[None], clusters)


def measure_sparse_models(
    rng: np.random.Generator, count: int, share: float, whole: bool, trials: int
) -> Iterator[Result]:
    """Yield results for models that disagree on few instances, or on all instances of few images."""
    clusters = draw_clusters(rng, count, 8)
    units = clusters if whole else np.arange(len(clusters))
    differs = rng.random((int(units.max()) + 1, trials)) < share
    a_wins = rng.random(differs.shape) < 0.5
    both = draw_hits(rng, np.full((len(clusters), trials), 0.7))
    a = np.where(differs[units], a_wins[units], both)
    b = np.where(differs[units], ~a_wins[units], both)
    what = "images" if whole else "instances"
    name = f"{count} images, disagree on {100 * share:g} % of {what}"
    yield from measure_null_errors(name, rng, a[None].astype(float), b[None].astype(float), clusters)


def measure_seeded_models(
    rng: np.random.Generator, count: int, seeds: tuple[int, int], spread: float, trials: int
) -> Iterator[Result]:
    """Yield results for recipes of equal accuracy whose trainings differ by ``spread`` (sd) in accuracy."""
    clusters = draw_clusters(rng, count, 8)
    base = draw_hit_probabilities(rng, clusters, 0.7, 0.3, trials)
    sides = []
    for n in seeds:
        luck = rng.normal(0, spread if n > 1 else 0, size=(n, 1, trials))
        # Bounded training noise with mean zero keeps the recipe's accuracy.
        scale = np.minimum(base, 1 - base) / 0.3
        sides.append(draw_hits(rng, np.clip(base + luck * scale, 0, 1)))
    name = f"{count} images, {seeds[0]} and {seeds[1]} seeds, sd of training {100 * spread:g} points"
    yield from measure_null_errors(name, rng, sides[0], sides[1], clusters)


def measure_familywise_error(rng: np.random.Generator, trials: int) -> Result:
    """Return how often `compare` of two equal models claims anything, over subsets, macro mean and metrics."""
    claims = 0
    benchmark = Benchmark(
        name="simulated",
        layout="",
        reader=lambda data, images: build_comparisons([], []),
        metrics=("accuracy", "p2_vs_n", "itt"),
        confirmed="",
        macro=lambda name: name.startswith("part"),
    )
    for _ in range(trials):
        clusters = draw_clusters(rng, 100, 8)
        parts = rng.integers(0, 4, size=len(clusters))
        a, b = (_draw_similarities(rng, clusters, parts, name) for name in ("a", "b"))
        comparison = compare_models(
            [a], [b], {"simulated": benchmark}, bootstrap=Bootstrap(100, int(rng.integers(2**31)))
        )
        claims += bool(comparison["significant"].any())
    return Result("100 images, 18 claims: any after Holm's correction", claims / trials, 0.0, 0.055, trials)


def _draw_similarities(
    rng: np.random.Generator, clusters: Clusters, parts: Clusters, model: str
) -> pd.DataFrame:
    """Return ``similarities`` of a model whose scores share a component within each image."""
    common = rng.normal(size=int(clusters.max()) + 1)[clusters]
    columns = {
        "s_c0_i0": common + rng.normal(0.8, 1, size=len(clusters)),
        "s_c1_i0": rng.normal(size=len(clusters)),
        "s_c2_i0": common + rng.normal(0.5, 1, size=len(clusters)),
    }
    subsets: Any = [[f"part{p}"] for p in parts]
    rows = pd.DataFrame(columns).assign(
        instance_id=[f"i{n}" for n in range(len(clusters))],
        image_id=[f"image{c}" for c in clusters],
        subsets=subsets,
        model=model,
        benchmark="simulated",
    )
    return build_frame(SIMILARITIES, rows)


def measure_power(rng: np.random.Generator, count: int, trials: int) -> Result:
    """Return how often a true difference of the size `detectable` is found."""
    clusters = draw_clusters(rng, count, 8)
    chance = draw_hit_probabilities(rng, clusters, 0.7, 0.3, trials)
    a, b = draw_hits(rng, chance), draw_hits(rng, chance)
    gap = float(compare_trials(a[None], b[None], clusters, 0)["detectable"].mean())
    # Some of the misses become hits: the true difference is the gap.
    better = np.where(rng.random(a.shape) < gap / 0.3, 1.0, draw_hits(rng, chance))
    comparison = compare_trials(
        better[None], draw_hits(rng, chance)[None], clusters, int(rng.integers(2**31))
    )
    name = f"{count} images: a true difference of {100 * gap:.1f} points is found"
    return Result(name, float((comparison["p"] < 0.05).mean()), 0.75, 0.85, trials)


def iter_fraction_results(rng: np.random.Generator, trials: int) -> Iterator[Result]:
    """Yield the coverage in all settings of a fraction."""
    shapes = [(1, 0.0), (8, 0.0), (8, 0.3), (8, 0.8)]
    for count, p, (largest, correlation) in product((100, 300, 1500), (0.1, 0.5, 0.8, 0.95), shapes):
        yield measure_coverage(rng, count, largest, p, correlation, trials)


def iter_comparison_results(rng: np.random.Generator, trials: int) -> Iterator[Result]:
    """Yield the error rates in all settings of two models."""
    for count, p, correlation in product((100, 300), (0.5, 0.95), (0.0, 0.8)):
        yield from measure_equal_models(rng, count, p, correlation, trials)
    yield from measure_unlike_models(rng, 300, trials)
    for count, share, whole in product((100, 300), (0.005, 0.03), (False, True)):
        yield from measure_sparse_models(rng, count, share, whole, trials)
    for seeds, spread in product(((2, 2), (3, 3), (5, 5), (5, 1)), (0.0, 0.01, 0.05)):
        yield from measure_seeded_models(rng, 300, seeds, spread, trials)
    yield measure_familywise_error(rng, max(trials // 5, 1))
    yield measure_power(rng, 300, trials)


@click.command()
@click.option("--trials", default=2000, show_default=True, type=click.IntRange(50), help="Per setting.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
def main(trials: int, seed: int) -> None:
    """Measure caramel's intervals and tests on hits of known probability."""
    rng = np.random.default_rng(seed)
    results = []
    for title, section_results in (
        ("Interval of a fraction holds the truth: 93 to 97 %", iter_fraction_results(rng, trials)),
        (
            "Models that are alike: p < 5 % at most 5.5 %, interval holds zero",
            iter_comparison_results(rng, trials),
        ),
    ):
        click.echo(f"{title}\n")
        for result in section_results:
            results.append(result)
            click.echo(str(result))
        click.echo("")
    missed = sum(result.missed for result in results)
    click.echo(f"{len(results) - missed} of {len(results)} goals met, {trials} trials each.")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
