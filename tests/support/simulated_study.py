"""A study whose truth is known: simulated annotators judge items on the page, and estimates are compared with the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from annotated import build_swap_instances
from annotation_tasks import encoded, list_keys, serving, text_item, write_task
from simulated_annotators import Simulated
from stored_images import stored

from caramel.annotation.agreement.annotators import describe_annotators
from caramel.annotation.agreement.human_row import QUERIES, RIGHT, compute_baseline_metrics
from caramel.annotation.agreement.summary import summarise_agreement
from caramel.annotation.answers import read_answers
from caramel.annotation.items import Item
from caramel.annotation.making.image_keys import ImageKeys
from caramel.annotation.making.image_tasks import build_baseline_items
from caramel.registry import BENCHMARKS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import wilson_interval

SEED = 3
BOOTSTRAP = Bootstrap(n_bootstrap=1000, seed=0)
SHARES = {"positive": 2 / 3, "negative": 1 / 3, "both": 0.0, "neither": 0.0}  # of the right answers of `fits`
KNOWN = {"width": 48, "height": 48, "source": "test", "split": "test"}
Truth = Mapping[str, Mapping[str, str]]  # right answer by item_id and question


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 95 % interval, and the truth."""

    name: str
    truth: float
    value: float
    low: float
    high: float

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    def __str__(self) -> str:
        """Return one line of the report."""
        verdict = "" if self.covers else "  MISSED"
        return f"{self.name:34} true {self.truth:5.2f}  estimated {self.value:5.2f} [{self.low:.2f}, {self.high:.2f}]{verdict}"


def judge_in_browser(
    browser: Any,
    path: Path,
    people: Sequence[Simulated],
    items: Mapping[str, Item],
    truth: Truth,
    each: int | None = None,
) -> pd.DataFrame:
    """Let annotators do a task, one after the other, each in a browser of its own; return the stored answers.

    Args:
        each: items after which an annotator leaves. None: when all is done.
    """
    keys = {key: name for name, key in list_keys(path).items()}
    with serving(path, {person.name: f"secret-of-{person.name}" for person in people}) as origin:
        for person in people:
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{origin}/?token=secret-of-{person.name}")
            page.wait_for_url(re.compile("/$"))
            page.wait_for_selector("dialog[open]")
            page.keyboard.press("Enter")
            person.work(page, items, truth, SEED, keys, each)
            while page.evaluate("readPending().length"):
                page.wait_for_timeout(20)
            context.close()
    return read_answers(path)


def list_lost(answers: pd.DataFrame, people: Sequence[Simulated]) -> list[str]:
    """Return the annotators of whom other answers are stored than they meant to give."""
    rows = {
        name: dict(zip(of["item_id"], of["answer"], strict=True)) for name, of in answers.groupby("annotator")
    }
    return [person.name for person in people if rows.get(person.name) != person.meant]


def make_fits(folder: Path, count: int, people: int) -> tuple[Path, dict[str, Item], Truth]:
    """Write a task of COUNT items that all annotators judge; two in three have the positive image."""
    items = {item.item_id: item for item in map(text_item, range(count))}
    path = write_task(folder / "fits.db", [*items.values()], overlap=people, seed=SEED)
    right = {name: "negative" if int(name[1:]) % 3 == 0 else "positive" for name in items}
    return path, items, {name: {"image": answer} for name, answer in right.items()}


def make_baseline(
    folder: Path, count: int
) -> tuple[Path, dict[str, Item], Truth, pd.DataFrame, pd.DataFrame]:
    """Write a task of COUNT instances, each for one annotator; return it with tables ``instances`` and ``images``."""
    instances = build_swap_instances(count)
    names = [*instances["image_id"], *instances["negative_image_id"]]
    index, keys = folder / "images.parquet", ImageKeys()
    stored(index, [{"image_id": name, "data": encoded(n), **KNOWN} for n, name in enumerate(names)])
    items = build_baseline_items(instances, index, keys.add)
    # Items that an annotator has loaded ahead, and leaves, come back at once.
    path = write_task(folder / "baseline.db", items, keys, task="baseline", seed=SEED, lease_minutes=0.01)
    return (
        path,
        {item.item_id: item for item in items},
        {item.item_id: RIGHT for item in items},
        instances,
        read_table(IMAGES, index),
    )


def estimate_errors(answers: pd.DataFrame, truth: Truth, rates: Mapping[str, float]) -> Iterator[Estimate]:
    """Yield the error rate of each annotator."""
    for name, rate in rates.items():
        rows = answers[answers["annotator"] == name]
        share = float((rows["answer"] != rows["item_id"].map(lambda item: truth[item]["image"])).mean())
        low, high = (float(end) for end in wilson_interval(share, len(rows)))
        yield Estimate(f"errors of {name}", rate, share, low, high)


def estimate_kappas(answers: pd.DataFrame, rates: Mapping[str, float]) -> Iterator[Estimate]:
    """Yield Cohen's kappa of each two of these annotators, and Krippendorff's alpha of all of them."""
    table = summarise_agreement(answers[answers["annotator"].isin(rates)], "fits", bootstrap=BOOTSTRAP)
    for row in table[table["measure"] == "cohen_kappa"].to_dict("records"):
        pair = (row["annotator_a"], row["annotator_b"])
        true = compute_true_kappa(*(rates[name] for name in pair))
        yield Estimate(f"kappa of {' and '.join(pair)}", true, row["value"], row["ci_low"], row["ci_high"])
    alpha = table[table["measure"] == "krippendorff_alpha"].iloc[0]
    true = compute_true_alpha([*rates.values()])
    yield Estimate("alpha", true, alpha["value"], alpha["ci_low"], alpha["ci_high"])


def compute_true_kappa(one: float, other: float) -> float:
    """Return Cohen's kappa of two annotators with these error rates, whose errors are spread over all wrong options."""
    observed = _compute_agreement(one, other)
    expected = sum(a * b for a, b in zip(_compute_marginals(one), _compute_marginals(other), strict=True))
    return (observed - expected) / (1 - expected)


def compute_true_alpha(rates: Sequence[float]) -> float:
    """Return Krippendorff's alpha, for nominal answers and infinitely many items."""
    pairs = [*combinations(rates, 2)]
    observed = sum(_compute_agreement(one, other) for one, other in pairs) / len(pairs)
    pooled = [sum(shares) / len(rates) for shares in zip(*map(_compute_marginals, rates), strict=True)]
    return 1 - (1 - observed) / (1 - sum(share**2 for share in pooled))


def _compute_agreement(one: float, other: float) -> float:
    return (1 - one) * (1 - other) + one * other / (len(SHARES) - 1)


def _compute_marginals(rate: float) -> list[float]:
    return [share * (1 - rate) + (1 - share) * rate / (len(SHARES) - 1) for share in SHARES.values()]


def estimate_baseline(
    answers: pd.DataFrame, instances: pd.DataFrame, images: pd.DataFrame, rate: float
) -> Iterator[Estimate]:
    """Yield the metrics of people who err at one rate in each query, independently."""
    metrics = compute_baseline_metrics(
        answers, instances, images, model="people", benchmark=BENCHMARKS["bivlc"], where="the simulation"
    )
    for row in metrics[metrics["subset"] == "all"].to_dict("records"):
        true = (1 - rate) ** len(QUERIES[row["metric"]])
        yield Estimate(f"baseline {row['metric']}", true, row["value"], row["ci_low"], row["ci_high"])


def judge_annotators(answers: pd.DataFrame, bad: Mapping[str, str]) -> list[str]:
    """Print the flags of each annotator, and return which bad ones were not found and which good ones were taken for bad.

    A good one may have no flag at all, whatever the others do.

    Args:
        bad: the expected flag by bad annotator.
    """
    table = describe_annotators(answers, "fits", bootstrap=BOOTSTRAP).set_index("annotator")
    problems = []
    for name, row in table.iterrows():
        print(f"{name}: late drop {row['late_drop']:.2f}, flagged {', '.join(row['flags']) or 'nothing'}")
        if name in bad and bad[str(name)] not in row["flags"]:
            problems.append(f"{name} was not found")
        if name not in bad and row["flags"]:
            problems.append(f"{name} was taken for a bad annotator: {', '.join(row['flags'])}")
        if bad.get(str(name)) != "tired" and "tired" in row["flags"]:
            problems.append(f"{name} was taken for tired")
    return problems


def count_allowed_misses(estimates: int) -> int:
    """Return how many of so many 95 % intervals miss the truth at most, but for one study in a hundred."""
    from scipy.stats import binom

    return int(binom.ppf(0.99, estimates, 0.05))
