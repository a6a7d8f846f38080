"""Shared by tests of benchmarks: drawn images, models, and a judge that looks at one instance at a time.

The oracle of a test gives a ``Verdict`` per instance, straight from the published definition; ``agrees``
compares each of them, and all metrics of all subsets, with what the fast path says.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from encoders import CountingEncoder, CountingMatcher, family

from caramel import registry
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.metrics import compute_outcomes
from caramel.evaluation.results.summary import summarise_similarities
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Benchmark, Task
from caramel.interfaces.settings import Compute
from caramel.models.specs import open_model
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.utils.resampling import Bootstrap

SPECS = ("counting:4", "matching:8", "patchy:3")
Score = Callable[[Path, str], float]


class PatchyMatcher(CountingMatcher):
    """A matcher with many ties that has no score for some pairs."""

    def score(self, image: bytes, text: str) -> float:
        value = super().score(image, text)
        return math.nan if super().score(text.encode(), str(len(image))) == 0 else value


def patchy(target: str, *, device: str, precision: str, name: str) -> PatchyMatcher:
    return PatchyMatcher(name, int(target))


PATCHY = family("patchy", patchy, "matcher")


@dataclass(frozen=True)
class Verdict:
    """What an instance is by the paper: ``hit`` None where a score is missing."""

    hit: bool | None
    tie: bool
    subsets: tuple[str, ...]


def wins(first: float, *others: float) -> tuple[bool | None, bool]:
    """Return (hit, tie) of a score that must beat each of the others."""
    if any(math.isnan(x) for x in (first, *others)):
        return None, False
    return all(first > x for x in others), any(first == x for x in others)


def draw(path: Path, seed: int, size: tuple[int, int] = (24, 18)) -> Path:
    """Draw a picture of its own and return its path."""
    from PIL import Image, ImageDraw

    rng = np.random.default_rng(seed)
    picture = Image.new("RGB", size, tuple(rng.integers(0, 256, 3).tolist()))
    corners = sorted(rng.integers(0, size[0], 2).tolist()) + sorted(rng.integers(0, size[1], 2).tolist())
    left, right, top, bottom = corners
    ImageDraw.Draw(picture).rectangle(
        (left, top, right, bottom), fill=tuple(rng.integers(0, 256, 3).tolist())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, "JPEG")
    return path


def score_of(spec: str) -> Score:
    """Return the model's score of one image file with one text, computed alone."""
    family, _, target = spec.partition(":")
    if family == "counting":
        encoder = CountingEncoder(width=int(target))

        def cosine(image: Path, text: str) -> float:
            a = encoder.encode_images([image.read_bytes()], 1)[0].tolist()
            b = encoder.encode_texts([text], 1)[0].tolist()
            return sum(x * y for x, y in zip(a, b, strict=True))

        return cosine
    matcher = (CountingMatcher if family == "matching" else PatchyMatcher)(steps=int(target))
    return lambda image, text: matcher.score(image.read_bytes(), text)


def scored(
    benchmark: Benchmark, task: Task, spec: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> pd.DataFrame:
    """Return the similarities of the fast path; the fixture ``families`` must be there."""
    monkeypatch.setitem(registry.FAMILIES.targets, "patchy", "published_c:PATCHY")
    open_model.cache_clear()
    keys = check_images(task.images, benchmark.name)
    run = RunConfig(spec, Compute("cpu", "fp32"), None, str(store), "inline")
    rows = compute_similarities(task, keys, run, benchmark=benchmark.name)
    check_table(SIMILARITIES, rows, benchmark.name)
    return rows


def agrees(benchmark: Benchmark, rows: pd.DataFrame, expected: Mapping[str, Sequence[Verdict]]) -> None:
    """Check each verdict and each metric against the oracle's; ``expected``: metric -> verdict per row."""
    found = compute_outcomes(rows, benchmark.metrics)
    assert list(expected) == list(benchmark.metrics)
    for metric, verdicts in expected.items():
        assert len(verdicts) == len(rows)
        for place, verdict in enumerate(verdicts):
            hit = found.hits[metric].iloc[place]
            assert (None if math.isnan(hit) else bool(hit)) == verdict.hit, (metric, place)
            assert bool(found.ties[metric].iloc[place]) == verdict.tie, (metric, place)
            assert tuple(rows["subsets"].iloc[place]) == verdict.subsets, place
    table = summarise_similarities(rows, {benchmark.name: benchmark}, bootstrap=Bootstrap(20, 0))
    check_table(METRICS, table, "test")
    judged = table.set_index(["subset", "metric"])
    for metric, verdicts in expected.items():
        names = list(dict.fromkeys(name for v in verdicts for name in v.subsets))
        macro = []
        for name in ["all", *names]:
            members = [v for v in verdicts if name == "all" or name in v.subsets]
            hits = [v.hit for v in members if v.hit is not None]
            row = judged.loc[(name, metric)]
            assert (row["n"], row["unscored"]) == (len(hits), len(members) - len(hits)), name
            assert row["ties"] == sum(v.tie for v in members), name
            value = sum(hits) / len(hits) if hits else math.nan
            assert row["value"] == pytest.approx(value, nan_ok=True), name
            if name != "all" and benchmark.macro(name) and hits:
                macro.append(value)
        if macro:
            assert judged.loc[("macro", metric), "value"] == pytest.approx(sum(macro) / len(macro))
        assert (("macro", metric) in judged.index) == any(map(benchmark.macro, names))
        further: dict[str, float] = {}
        for name, members in benchmark.means.items():
            there = [n for n in members if n in further or n in names]
            if there:
                values = [further[n] if n in further else judged.loc[(n, metric), "value"] for n in there]
                known = [value for value in values if not math.isnan(value)]
                further[name] = sum(known) / len(known) if known else math.nan
                assert judged.loc[(name, metric), "value"] == pytest.approx(further[name], nan_ok=True)
        rows_of_means = any(map(benchmark.macro, names)) + len(further)
        assert len(judged) == (len(names) + 1 + rows_of_means) * len(expected)
