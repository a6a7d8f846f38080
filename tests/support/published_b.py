"""What the tests of ranking benchmarks share: drawn images, a matcher that fails now and then, and an oracle
that follows the published definitions one query at a time, without anything of ``caramel``.
"""

import io
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from encoders import CountingEncoder, CountingMatcher, family
from PIL import Image

from caramel import registry
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.metrics import compute_outcomes
from caramel.evaluation.results.summary import summarise_similarities
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Benchmark
from caramel.interfaces.settings import Compute
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.utils.resampling import Bootstrap

FAILING = "failing:64"
SPECS = ("counting:4", "matching:8", FAILING)
Score = Callable[[bytes, Sequence[str]], float]  # image, prompts -> score
RECALLS: Mapping[str, tuple[int, ...]] = {
    **{f"recall@{k}": (k,) for k in (1, 3, 5, 10)},
    "avg_recall": (1, 3),  # CREPE, tables 9 to 11: 42.85 is the mean of 23.26 (R@1) and 62.44 (R@3)
}


class FailingMatcher(CountingMatcher):
    """A matcher that has no score, NaN, for one pair in sixty."""

    def __init__(self, name: str = "failing", steps: int = 64) -> None:
        super().__init__(name, steps)
        self.identity = {"family": "failing", "steps": steps}

    def score(self, image: bytes, text: str) -> float:
        if zlib.crc32(image + text.encode()) % 60 == 0:
            return math.nan
        return super().score(image, text)


def failing(target: str, *, device: str, precision: str, name: str) -> FailingMatcher:
    """The family ``failing``: ``failing:64``."""
    return FailingMatcher(name, int(target))


FAMILY = family("failing", failing, "matcher")


def know_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the family ``failing``; the fixture ``families`` does so for the others."""
    monkeypatch.setitem(registry.FAMILIES.targets, "failing", "published_b:FAMILY")


def score_of(spec: str) -> Score:
    """Return how the model of a spec scores one image with the prompts of one text."""
    family, _, size = spec.partition(":")
    if family == "counting":
        encoder = CountingEncoder(width=int(size))

        def cosine(image: bytes, prompts: Sequence[str]) -> float:
            mean = sum(encoder.encode_texts([prompt], 1)[0].astype(float) for prompt in prompts) / len(
                prompts
            )
            if len(prompts) > 1:
                mean = mean / math.sqrt(sum(x * x for x in mean.tolist()))
            return float(sum(encoder.encode_images([image], 1)[0].astype(float) * mean))

        return cosine
    matcher = (CountingMatcher if family == "matching" else FailingMatcher)(steps=int(size))
    return lambda image, prompts: sum(matcher.score(image, prompt) for prompt in prompts) / len(prompts)


@dataclass(frozen=True)
class Verdict:
    """What the definitions say of one query.

    Attributes:
        cluster: its image.
        subsets: that it belongs to.
        before: false candidates that score as high as the best true one, or higher; None: unscored.
        above: those that score higher.
    """

    cluster: str
    subsets: list[str]
    before: int | None
    above: int

    def value(self, metric: str) -> float:
        if self.before is None:
            return math.nan
        return sum(self.before < k for k in RECALLS[metric]) / len(RECALLS[metric])

    def tie(self, metric: str) -> bool:
        return self.before is not None and any(self.above < k <= self.before for k in RECALLS[metric])


def verdict(cluster: str, subsets: list[str], true: Sequence[float], false: Sequence[float]) -> Verdict:
    """Return the verdict on a query whose true and false candidates have these scores."""
    if any(math.isnan(score) for score in [*true, *false]):
        return Verdict(cluster, subsets, None, 0)
    best = max(true)
    return Verdict(cluster, subsets, sum(f >= best for f in false), sum(f > best for f in false))


def draw(path: Path, seed: int, size: tuple[int, int] = (40, 30)) -> None:
    """Write a picture of noise; the suffix says its format."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def part(path: Path, left: float, top: float, width: float, height: float) -> bytes:
    """Return what a model is shown of a region, cut as the authors do."""
    out = io.BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").crop((left, top, left + width, top + height)).save(out, "PPM")
    return out.getvalue()


def scored(benchmark: Benchmark, data: Path, images: Path, spec: str, store: Path) -> pd.DataFrame:
    """Return table ``similarities`` of the fast path."""
    task = benchmark.load_rows(data, images)
    keys = check_images(task.images, benchmark.name)
    run = RunConfig(spec, Compute("cpu", "fp32"), 8, str(store), "inline")
    rows = compute_similarities(task, keys, run, benchmark=benchmark.name)
    check_table(SIMILARITIES, rows, "test")
    return rows


def agrees(rows: pd.DataFrame, benchmark: Benchmark, verdicts: Sequence[Verdict]) -> None:
    """Assert that the fast path says of every query, metric and subset what the oracle does."""
    assert rows["subsets"].tolist() == [v.subsets for v in verdicts]
    assert rows["image_id"].tolist() == [v.cluster for v in verdicts]
    hits, ties = compute_outcomes(rows, benchmark.metrics)
    for metric in benchmark.metrics:
        np.testing.assert_array_equal(hits[metric], [v.value(metric) for v in verdicts], metric)
        assert ties[metric].tolist() == [v.tie(metric) for v in verdicts], metric
    found = summarise_similarities(rows, {benchmark.name: benchmark}, bootstrap=Bootstrap(20, 0))
    check_table(METRICS, found, "test")
    expected = {}
    for subset in {"all", *(name for v in verdicts for name in v.subsets)}:
        inside = [v for v in verdicts if subset == "all" or subset in v.subsets]
        for metric in benchmark.metrics:
            values = [v.value(metric) for v in inside if v.before is not None]
            mean = sum(values) / len(values) if values else math.nan
            tied = sum(v.tie(metric) for v in inside)
            expected[subset, metric] = (mean, len(values), tied, len(inside) - len(values))
    told = found[found["subset"] != "macro"]
    assert set(zip(told["subset"], told["metric"], strict=True)) == set(expected)
    for row in told.itertuples():
        mean, *counts = expected[row.subset, row.metric]
        assert row.value == pytest.approx(mean, nan_ok=True), (row.subset, row.metric)
        assert [row.n, row.ties, row.unscored] == counts, (row.subset, row.metric)


def is_telling(verdicts: Sequence[Verdict], spec: str) -> None:
    """Assert that the drawn data hold hits, misses and, where the model fails, what has no score.

    An oracle of nothing agrees with everything.
    """
    assert (spec == FAILING) == any(v.before is None for v in verdicts)
    places = [v.before for v in verdicts if v.before is not None]
    assert 0 in places
    assert max(places) > 0
