"""Measure the statistics of people's answers on simulated annotators: `python bench/annotation_coverage.py`.

Annotators with known errors and habits answer items whose truth is known. Printed are

- the share of simulations in which the 95 % intervals of Cohen's κ, Fleiss' κ, Krippendorff's α, an annotator's accuracy
  on known answers, and a human baseline hold the truth. Goal: 93 to 97 %.
- the mean absolute error of the accuracies that Dawid and Skene's method estimates, and how often its decisions and those
  of a majority are right.
- the share of studies in which bad annotators are flagged (power), and of good annotators that are flagged (false alarms;
  goal: at most 5 % for each habit).

A goal is missed if the share departs from it by more than two standard errors of the simulation; the exit code is then
1. It takes about two minutes on one core.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.annotation.agreement.annotators import describe_annotators
from caramel.annotation.agreement.coefficients import compute_agreement
from caramel.annotation.agreement.dawid_skene import estimate_true_answers
from caramel.annotation.agreement.human_row import compute_two_way_interval
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import wilson_interval

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
RESAMPLES = 400
GOAL = (0.93, 0.97)
OPTIONS = ("positive", "negative", "both", "neither")
HABITS = {
    "random": "random",
    "left": "position",
    "fast": "fast",
    "tired": "tired",
}  # habit -> flag that finds it
GOOD = "good"


class Design(NamedTuple):
    """A study: number of items, share of each true answer, and each annotator's accuracy."""

    items: int
    prior: tuple[float, ...]
    accuracies: tuple[float, ...]

    def build_errors(self) -> Floats:
        """Return the probability of each answer given the true one, (m, k, k); wrong answers are equally likely."""
        k = len(self.prior)
        return np.stack([np.where(np.eye(k) > 0, right, (1 - right) / (k - 1)) for right in self.accuracies])

    def draw(self, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return true answers (n,) and codes (n, m)."""
        truth = rng.choice(len(self.prior), self.items, p=self.prior)
        cumulative = self.build_errors().cumsum(axis=2)[:, truth]  # (m, n, k)
        codes = (rng.random((len(self.accuracies), self.items, 1)) > cumulative).sum(axis=2).T
        return truth, codes.astype(np.int64)

    def compute_truth(self) -> dict[str, float]:
        """Return each coefficient of infinitely many items."""
        prior, errors = np.array(self.prior), self.build_errors()
        joint = np.einsum("i,aij,bik->abjk", prior, errors, errors)
        marginal = np.einsum("i,aij->aj", prior, errors)
        m = len(self.accuracies)
        pairs = [(a, b) for a in range(m) for b in range(m) if a != b]
        observed = np.mean([np.trace(joint[pair]) for pair in pairs])
        pooled = float((marginal.mean(axis=0) ** 2).sum())
        first = float(np.trace(joint[0, 1])), float(marginal[0] @ marginal[1])
        alike = (observed - pooled) / (1 - pooled)
        return {
            "cohen": (first[0] - first[1]) / (1 - first[1]),
            "fleiss": float(alike),
            "krippendorff": float(alike),
        }


DESIGNS = (
    Design(50, (0.6, 0.4), (0.9, 0.8)),
    Design(100, (0.5, 0.3, 0.2), (0.9, 0.85, 0.7)),
    Design(100, (0.85, 0.15), (0.95, 0.9)),
    Design(60, (0.5, 0.5), (0.98, 0.97)),
    Design(500, (0.6, 0.4), (0.9, 0.85)),
    Design(300, (0.4, 0.3, 0.2, 0.1), (0.9, 0.8, 0.7, 0.6, 0.5)),
)


def measure_coefficients(design: Design, trials: int, seed: int, *, missing: float = 0.0) -> dict[str, float]:
    """Return how often the interval of each coefficient holds the truth; a share of the answers is missing."""
    rng, truth = np.random.default_rng(seed), design.compute_truth()
    hits: Counter[str] = Counter()
    for trial in range(trials):
        codes = design.draw(rng)[1]
        codes = np.where(rng.random(codes.shape) < missing, -1, codes)
        for name, value in truth.items():
            agreement = compute_agreement(
                codes[:, :2] if name == "cohen" else codes, name, bootstrap=Bootstrap(RESAMPLES, trial)
            )
            hits[name] += agreement.low <= value <= agreement.high
    return {name: hits[name] / trials for name in truth}


def measure_gold(accuracy: float, items: int, trials: int, seed: int) -> float:
    """Return how often Wilson's interval holds an annotator's accuracy on known answers, over accuracies near this one."""
    rng = np.random.default_rng(seed)
    accuracies = rng.uniform(accuracy - 0.05, accuracy + 0.05, trials)
    low, high = wilson_interval(rng.binomial(items, accuracies) / items, np.full(trials, float(items)))
    return float(((low <= accuracies) & (accuracies <= high)).mean())


def measure_baseline(
    annotators: int, each: int, overlap: int, spread: float, trials: int, seed: int
) -> float:
    """Return how often the interval of a baseline holds the accuracy of all people on all instances.

    Skill of people and difficulty of instances are normal on the logit scale, with this standard deviation each.

    Args:
        annotators, each: number of people, and of instances of each of them.
        overlap: people who answer the same instance.
        spread: standard deviation of skill and of difficulty.
        trials, seed: number of simulations, and their seed.
    """
    rng = np.random.default_rng(seed)
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    center = 2.4
    expected = float((weights / (1 + np.exp(-(center + 2**0.5 * spread * nodes)))).sum() / weights.sum())
    people = np.repeat(np.arange(annotators), each)
    images = annotators * each // overlap
    hits = 0
    for _ in range(trials):
        # Each round deals all instances anew, so that those who share an instance differ.
        items = np.concatenate([rng.permutation(images) for _ in range(overlap)])
        logit = center + spread * (rng.normal(size=annotators)[people] + rng.normal(size=images)[items])
        values = (rng.random(len(people)) < 1 / (1 + np.exp(-logit))).astype(float)
        _, low, high = compute_two_way_interval(values, people, items)
        hits += low <= expected <= high
    return hits / trials


def build_answers(habits: list[str], items: int, accuracy: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return table ``annotations`` of task ``fits`` for annotators with these habits.

    Good annotators are right with this probability. `random` clicks at random, `left` takes the image on the left,
    `fast` needs a fifth of the time, `tired` clicks at random after the first half.
    """
    truth = rng.choice(2, items)
    rows = []
    for number, habit in enumerate(habits):
        for turn, item in enumerate(rng.permutation(items)):
            left, right = rng.permutation(OPTIONS[:2])
            answer = OPTIONS[truth[item] ^ int(rng.random() > accuracy)]
            if habit == "random" or (habit == "tired" and turn >= items // 2):
                answer = OPTIONS[rng.integers(2)]
            if habit == "left":
                answer = str(left)
            seconds = float(rng.lognormal(1.5, 0.5)) * (0.2 if habit == "fast" else 1.0)
            rows.append(
                {
                    "item_id": f"item{item:04d}",
                    "task": "fits",
                    "role": "item",
                    "annotator": f"{habit}-{number}",
                    "qualified": True,
                    "guideline": "0" * 16,
                    "content": f"content{item:04d}",
                    "answer": answer,
                    "skipped": None,
                    "seconds": seconds,
                    "answered_at": f"2026-01-01T{turn // 3600:02d}:{turn // 60 % 60:02d}:{turn % 60:02d}+00:00",
                    "turn": turn,
                    "gold": OPTIONS[truth[item]] if item % 10 == 0 else None,
                    "order": json.dumps([str(left), str(right), *OPTIONS[2:]]),
                }
            )
    return build_frame(ANNOTATIONS, rows)


def measure_flags(
    items: int, accuracy: float, trials: int, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how often each habit's flag finds an annotator with it, and how often a flag falls on a good annotator."""
    rng = np.random.default_rng(seed)
    habits = [*[GOOD] * 4, *HABITS]
    found: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    for trial in range(trials):
        # One bad annotator among four good ones, each habit in turn.
        for bad in HABITS:
            answers = build_answers([*[GOOD] * 4, bad], items, accuracy, rng)
            described = describe_annotators(answers, "fits", bootstrap=Bootstrap(RESAMPLES, trial))
            for name, flags in zip(described["annotator"], described["flags"], strict=True):
                if name.startswith(GOOD):
                    alarms.update(flags)
                else:
                    found[bad] += HABITS[bad] in flags
    good = trials * len(HABITS) * (len(habits) - len(HABITS))
    names = [*HABITS.values(), "gold"]
    return {bad: found[bad] / trials for bad in HABITS}, {name: alarms[name] / good for name in names}


def measure_estimate(design: Design, trials: int, seed: int) -> tuple[float, float, float]:
    """Return the mean absolute error of estimated accuracies, and the shares of right decisions of both methods."""
    rng = np.random.default_rng(seed)
    errors, estimated, by_majority = [], [], []
    k = len(design.prior)
    for _ in range(trials):
        truth, codes = design.draw(rng)
        estimate = estimate_true_answers(codes, k)
        accuracy = np.einsum("mii,i->m", estimate.errors, estimate.prior)
        errors.append(np.abs(accuracy - np.array(design.accuracies)).mean())
        estimated.append((estimate.posterior.argmax(axis=1) == truth).mean())
        votes = (codes[:, :, None] == np.arange(k)).sum(axis=1) + rng.random((len(codes), k)) / 2
        by_majority.append((votes.argmax(axis=1) == truth).mean())
    return float(np.mean(errors)), float(np.mean(estimated)), float(np.mean(by_majority))


def print_share(name: str, share: float, low: float, high: float, trials: int) -> bool:
    """Print a share with its goal, and return whether it misses the goal by more than the simulation's own error."""
    slack = 2 * (max(share * (1 - share), 1e-9) / trials) ** 0.5
    missed = not low - slack <= share <= high + slack
    click.echo(f"{name:72s} {100 * share:5.1f} %{'  MISSED' if missed else ''}")
    return missed


@click.command()
@click.option("--trials", default=1000, show_default=True, help="Simulations of each interval.")
@click.option("--seed", default=0, show_default=True, help="Random seed.")
def measure(trials: int, seed: int) -> None:
    """Print the shares and exit with 1 if a goal is missed."""
    missed = []
    click.echo("Intervals that hold the truth (goal: 93 to 97 %)")
    for design in DESIGNS:
        for missing in (0.0, 0.2) if len(design.accuracies) > 2 else (0.0,):
            shares = measure_coefficients(design, trials, seed, missing=missing)
            for name, share in shares.items():
                label = f"{name}, {design.items} items, prior {design.prior}, accuracies {design.accuracies}"
                missed.append(print_share(f"{label}, {missing:.0%} missing", share, *GOAL, trials))
    for accuracy, items in ((0.9, 50), (0.8, 30)):
        share = measure_gold(accuracy, items, 20 * trials, seed)
        missed.append(
            print_share(f"accuracy about {accuracy} on {items} known answers", share, *GOAL, 20 * trials)
        )
    for people, each, overlap, spread in (
        (20, 25, 1, 0.0),
        (20, 25, 1, 0.5),
        (20, 25, 2, 0.5),
        (10, 50, 1, 0.5),
        (20, 25, 2, 1.0),
    ):
        share = measure_baseline(people, each, overlap, spread, trials, seed)
        label = f"baseline, {people} people x {each} instances, overlap {overlap}, spread {spread}"
        missed.append(print_share(label, share, *GOAL, trials))
    click.echo("\nDawid and Skene against majority")
    for design in DESIGNS[1:]:
        if len(design.accuracies) > 2:
            error, right, majority = measure_estimate(design, trials // 10, seed)
            click.echo(
                f"{design.items} items, accuracies {design.accuracies}: error of accuracies {error:.3f}, "
                f"right decisions {100 * right:.1f} % (majority {100 * majority:.1f} %)"
            )
    click.echo("\nFlags: power, and false alarms on good annotators (goal: at most 5 %)")
    for items, accuracy in ((200, 0.9), (60, 0.85)):
        power, alarms = measure_flags(items, accuracy, max(1, trials // 20), seed)
        for habit, share in power.items():
            click.echo(f"{f'{items} items, accuracy {accuracy}: {habit} found':72s} {100 * share:5.1f} %")
        for flag, share in alarms.items():
            label = f"{items} items, accuracy {accuracy}: good annotators flagged {flag}"
            missed.append(print_share(label, share, 0.0, 0.05, trials // 20 * 4 * len(HABITS)))
    sys.exit(int(any(missed)))


if __name__ == "__main__":
    measure()
