"""Measure the coverage of rank sets: `python bench/rank_sets.py`.

Hits of models of known accuracy are drawn on instances that are harder or easier for all of them, clustered on
images. Printed is, for each setting, the share of trials in which all models' rank sets hold their true ranks at
once (goal: 95 % at least), and the share of the pairs of different models whose order is shown: paired from the
instances, and from the shares alone, as published. A tied model's set must hold all ranks of its tie.

A goal is missed if the share is below it by more than two standard errors of the simulation; then the exit code is
1. It takes about two minutes on one core.
"""

from __future__ import annotations

import sys

import click
import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from caramel.utils.rank_sets import find_paired_order, find_published_order

Floats = npt.NDArray[np.float64]
GOAL = 0.95
SETTINGS = {
    "2 equal": [0.7] * 2,
    "2 close": [0.7, 0.705],
    "10 equal": [0.7] * 10,
    "10 close": [0.7 + 0.005 * rank for rank in range(10)],
    "10 in two ties": [0.6] * 5 + [0.7] * 5,
    "10 apart": [0.4 + 0.05 * rank for rank in range(10)],
    "5 near the top": [0.97, 0.97, 0.97, 0.98, 0.99],
}
IMAGES = (60, 400)
PER_IMAGE = 3


def draw_hits(rng: np.random.Generator, accuracies: Floats, images: int) -> Floats:
    """Return hits (images, instances of an image, models); half of the variance is common to all models."""
    common = rng.normal(size=(images, 1, 1)) * 0.4**0.5 + rng.normal(size=(images, PER_IMAGE, 1)) * 0.2**0.5
    own = rng.normal(size=(images, PER_IMAGE, len(accuracies))) * 0.4**0.5
    hits: Floats = (common + own < norm.ppf(accuracies)).astype(float)
    return hits


def run_trials(accuracies: Floats, images: int, trials: int, seed: int) -> Floats:
    """Return (coverage, share of shown orders) of paired sets, then of sets from shares alone: (2, 2)."""
    rng = np.random.default_rng(seed)
    is_better = accuracies[:, None] > accuracies[None] + 1e-12
    n = np.full(len(accuracies), images * PER_IMAGE)
    results = np.zeros((trials, 2, 2))
    for trial in range(trials):
        hits = draw_hits(rng, accuracies, images)
        orders = (
            find_paired_order(hits.sum(axis=1) / n[0], seed=trial),
            find_published_order(hits.mean(axis=(0, 1)), n, rounding=0.00005),
        )
        for row, shown in enumerate(orders):
            results[trial, row] = (
                not (shown & ~is_better).any(),
                (shown & is_better).sum() / max(1, is_better.sum()),
            )
    return np.asarray(results.mean(axis=0))


@click.command()
@click.option("--trials", default=400, show_default=True, type=click.IntRange(10), help="Trials per setting.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
def main(trials: int, seed: int) -> None:
    """Print coverage and power of rank sets; exit with code 1 if a coverage goal is missed."""
    print(f"{'models':16}{'images':>8}{'paired':>10}{'shown':>8}{'published':>11}{'shown':>8}   per cent")
    missed = 0
    for name, accuracies in SETTINGS.items():
        for images in IMAGES:
            (paired, shown), (published, shown_published) = 100 * run_trials(
                np.array(accuracies), images, trials, seed
            )
            slack = 200 * (GOAL * (1 - GOAL) / trials) ** 0.5
            missed += min(paired, published) < 100 * GOAL - slack
            has_order = len(set(accuracies)) > 1
            powers = [f"{share:.1f}" if has_order else "–" for share in (shown, shown_published)]
            print(
                f"{name:16}{images:8}{paired:10.1f}{powers[0]:>8}{published:11.1f}{powers[1]:>8}", flush=True
            )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
