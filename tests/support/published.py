"""What the tests of image-caption benchmarks share: drawn images, files in the form of the releases, and an
oracle that follows the published definitions one instance at a time, without anything of ``caramel``.
"""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoders import CountingEncoder, CountingMatcher
from PIL import Image, ImageDraw

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

DUAL, MATCHER = "counting:4", "matching:8"
Score = Callable[[str, bytes], float]


@dataclass(frozen=True)
class Instance:
    """One instance as it is published: what a test wrote, not what a reader read."""

    name: str
    cluster: str  # equal for instances of one positive image
    subsets: tuple[str, ...]
    image: bytes
    caption: str
    negative: str
    paraphrase: str | None = None
    negative_image: bytes | None = None


def drawn(seed: int, kind: str = "PNG") -> bytes:
    """Return an encoded picture of some rectangles."""
    rng = np.random.default_rng(seed)
    picture = Image.new("RGB", (24, 16), tuple(rng.integers(0, 256, 3).tolist()))
    for _ in range(3):
        x, y = rng.integers(0, 20), rng.integers(0, 12)
        colour = tuple(rng.integers(0, 256, 3).tolist())
        ImageDraw.Draw(picture).rectangle((x, y, x + 4, y + 4), fill=colour)
    out = io.BytesIO()
    picture.save(out, kind)
    return out.getvalue()


@dataclass(frozen=True)
class Pair:
    """Two images and two captions."""

    images: tuple[bytes, bytes]
    captions: tuple[str, str]


def pairs(count: int, kind: str = "PNG") -> list[Pair]:
    """Return instances of Winoground's form; number 3 has equal captions, number 5 equal images."""
    found = []
    for n in range(count):
        first, second = drawn(2 * n, kind), drawn(2 * n + 1, kind)
        captions = f"a dog {n} bites a man", f"a man bites a dog {n}"
        if n == 3:
            captions = (captions[0], captions[0])
        found.append(Pair((first, first if n == 5 else second), captions))
    return found


def write_images(folder: Path, images: Mapping[str, bytes]) -> None:
    for name, data in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def write_json(path: Path, rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        assert isinstance(rows, list)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))


def write_parquet(
    folder: Path,
    rows: Sequence[Mapping[str, object]],
    images: Mapping[str, Sequence[tuple[bytes | None, str | None]]],
    files: int = 2,
) -> None:
    """Write the rows as the hub does: several files, structs of bytes and path, small row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.Table.from_pylist([dict(row) for row in rows])
    for name, cells in images.items():
        structs = [{"bytes": data, "path": path} for data, path in cells]
        table = table.append_column(name, pa.array(structs, image))
    size = -(-len(rows) // files)
    for n in range(files):
        part = table.slice(n * size, size)
        pq.write_table(part, folder / f"test-{n:05}-of-{files:05}.parquet", row_group_size=3)


def one_by_one(spec: str) -> tuple[Score, Callable[[str, str], float]]:
    """Return s(caption, image) and t(text, text) of a model of encoders.py, asked for a single pair."""
    family, _, target = spec.partition(":")
    if family == "matching":
        matcher = CountingMatcher(steps=int(target))
        return (lambda caption, image: matcher.score(image, caption)), (lambda a, b: math.nan)
    encoder = CountingEncoder(width=int(target))

    def text(item: str) -> list[float]:
        return [float(x) for x in encoder.encode_texts([item], 1)[0]]

    def image(item: bytes) -> list[float]:
        return [float(x) for x in encoder.encode_images([item], 1)[0]]

    def dot(a: list[float], b: list[float]) -> float:
        return math.fsum(x * y for x, y in zip(a, b, strict=True))

    return (lambda caption, item: dot(text(caption), image(item))), (lambda a, b: dot(text(a), text(b)))


def verdict(metric: str, x: Instance, s: Score, t: Callable[[str, str], float]) -> bool | None:
    """Return whether the instance is right by the metric's definition; None: a score is not there or NaN.

    SugarCrepe 4.1; SugarCrepe++ 3 (ITT, TOT); Winoground 3.3 (text, image and group score), GroupMatch (arXiv 2510.07632) and BiVLC D.
    """
    c0, c1, p2, i0, i1 = x.caption, x.negative, x.paraphrase, x.image, x.negative_image
    four = []
    if i1 is not None:
        four = [s(c0, i0), s(c1, i0), s(c0, i1), s(c1, i1)]
    if metric == "accuracy":
        used = [s(c0, i0), s(c1, i0)]
        right = used[0] > used[1]
    elif metric == "p2_vs_n":
        assert p2 is not None
        used = [s(p2, i0), s(c1, i0)]
        right = used[0] > used[1]
    elif metric == "itt":
        assert p2 is not None
        used = [s(c0, i0), s(p2, i0), s(c1, i0)]
        right = used[0] > used[2] and used[1] > used[2]
    elif metric == "tot":
        assert p2 is not None
        used = [t(c0, p2), t(c1, p2), t(c1, c0)]
        right = used[0] > used[1] and used[0] > used[2]
    else:
        used = four
        c0_i0, c1_i0, c0_i1, c1_i1 = four
        text_score = c0_i0 > c1_i0 and c1_i1 > c0_i1
        image_score = c0_i0 > c0_i1 and c1_i1 > c1_i0
        right = {
            "i2t": text_score,
            "t2i": image_score,
            "group": text_score and image_score,
            "group_match": c0_i0 + c1_i1 > c0_i1 + c1_i0,
            "i_pos2t": c0_i0 > c1_i0,
            "i_neg2t": c1_i1 > c0_i1,
            "t_pos2i": c0_i0 > c0_i1,
            "t_neg2i": c1_i1 > c1_i0,
        }[metric]
    return None if any(math.isnan(value) for value in used) else right


def mean(verdicts: Iterable[bool | None]) -> float:
    """Return the share of right ones among those that were judged."""
    judged = [v for v in verdicts if v is not None]
    return sum(judged) / len(judged) if judged else math.nan


def with_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the matcher give NaN for one in eleven pairs."""
    plain = CountingMatcher.score

    def score(self: CountingMatcher, image: bytes, text: str) -> float:
        lost = (len(text) + sum(image)) % 11 == 0
        return math.nan if lost else plain(self, image, text)

    monkeypatch.setattr(CountingMatcher, "score", score)


def agree(
    benchmark: Benchmark,
    data: Path,
    images: Path,
    instances: Sequence[Instance],
    spec: str,
    store: Path,
    macro: Sequence[str] = (),
) -> tuple[pd.DataFrame, set[bool | None]]:
    """Assert that the fast path judges as the oracle does: every instance, every metric, every mean.

    Returns:
        table ``metrics``, and which verdicts occurred.
    """
    task = benchmark.load_rows(data, images)
    keys = check_images(task.images, benchmark.name)
    run = RunConfig(spec, Compute("cpu", "fp32"), None, str(store), "inline")
    rows = compute_similarities(task, keys, run, benchmark=benchmark.name)
    check_table(SIMILARITIES, rows, "test")
    assert rows["instance_id"].tolist() == [x.name for x in instances]
    assert [set(names) for names in rows["subsets"]] == [set(x.subsets) for x in instances]
    ours, theirs = (
        pd.factorize(np.array(names))[0].tolist()
        for names in (rows["image_id"], [x.cluster for x in instances])
    )
    assert ours == theirs, "instances of one image form one cluster"

    s, t = one_by_one(spec)
    expected = {m: [verdict(m, x, s, t) for x in instances] for m in benchmark.metrics}
    hits, ties = compute_outcomes(rows, benchmark.metrics)
    assert (hits[ties] == 0).to_numpy().sum() == ties.to_numpy().sum(), "a tie is a miss"
    for metric, wanted in expected.items():
        found = [None if math.isnan(value) else bool(value) for value in hits[metric]]
        assert found == wanted, metric

    metrics = summarise_similarities(rows, {benchmark.name: benchmark}, bootstrap=Bootstrap(20, 0))
    check_table(METRICS, metrics, "test")
    by_subset = {"all": list(range(len(instances)))}
    for n, x in enumerate(instances):
        for name in x.subsets:
            by_subset.setdefault(name, []).append(n)
    for metric, wanted in expected.items():
        values = {name: mean(wanted[n] for n in places) for name, places in by_subset.items()}
        if macro:
            known = [values[name] for name in macro if not math.isnan(values[name])]
            values["macro"] = sum(known) / len(known) if known else math.nan
        shown = metrics[metrics["metric"] == metric].set_index("subset")
        assert set(shown.index) == set(values)
        for name, value in values.items():
            assert shown["value"][name] == pytest.approx(value, nan_ok=True), (metric, name)
        for name, places in by_subset.items():
            assert shown["n"][name] == sum(wanted[n] is not None for n in places)
            assert shown["unscored"][name] == sum(wanted[n] is None for n in places)
    return metrics, {v for wanted in expected.values() for v in wanted}


def listed(benchmark: Benchmark, data: Path, images: Path) -> str:
    """Return the message about images that are missing or broken."""
    from caramel.errors import DataError

    with pytest.raises(DataError) as error:
        check_images(benchmark.load_rows(data, images).images, benchmark.name)
    return str(error.value)
