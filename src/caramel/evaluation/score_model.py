"""Score a model in memory on a benchmark in memory, without a store, MLflow runs or workers.

The scores equal those of ``caramel eval``. Items have the same order and chunks as when a store is filled, so that
sums are taken in the same order.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.benchmarks.image_files import check_images, read_encoded_images
from caramel.errors import BackendError, ConfigError
from caramel.evaluation.adapters import LiveModel
from caramel.evaluation.benchmark_source import (
    BenchmarkSource,
    Missing,
    build_rejects,
    check_instances,
    locate_benchmark,
    read_task,
    select_scorable,
)
from caramel.evaluation.external import run_files
from caramel.evaluation.results.summary import select_overall_metrics, summarise_similarities
from caramel.evaluation.scores.encoding import (
    IMAGES_PER_SHARD,
    build_text_shards,
    find_distinct_images,
    split_chunks,
)
from caramel.evaluation.scores.item_scores import DualEncoderScores, Pairs, check_finite
from caramel.evaluation.scores.scoring import build_similarities, compute_score_columns
from caramel.interfaces.benchmark import Benchmark, ImageFile, Task
from caramel.interfaces.model import Embeddings
from caramel.registry import BENCHMARKS
from caramel.schemas.evaluation import ANSWERS
from caramel.schemas.io import build_frame
from caramel.utils.resampling import Bootstrap


@dataclass(frozen=True)
class LoadedBenchmark:
    """A benchmark whose captions were read and whose images were checked; len() is its number of instances.

    Attributes:
        benchmark: its metrics and subsets.
        source: its location.
        task: its instances.
        keys: content key of each of the task's images.
    """

    benchmark: Benchmark
    source: BenchmarkSource
    task: Task
    keys: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.task.rows)


class Scores(NamedTuple):
    """The results of a model on a benchmark."""

    metrics: pd.DataFrame  # table ``metrics``
    similarities: pd.DataFrame  # table ``similarities``

    @property
    def overall(self) -> dict[str, float]:
        """Every metric over all instances, in [0, 1]; metrics without a scored instance are left out."""
        return select_overall_metrics(self.metrics)


def load_checked_benchmark(
    name: str,
    data: Path,
    images: Path | None,
    limit: int | None,
    options: Mapping[str, Any],
    missing: Missing = "fail",
) -> LoadedBenchmark:
    """Read and check a benchmark.

    Args:
        name: name in the registry.
        data: folder of the benchmark, or the folder that contains it; see ``locate_benchmark``.
        images: folder of its images; None: the benchmark's folder.
        limit: number of instances; None: all.
        options: options of its reader.
        missing: ``fail``: a missing image is an error; ``skip``: the instances that need it get no score.

    Raises:
        BackendError: there is no benchmark of that name.
        ConfigError: its reader has no such option.
        DataError: a file or an image is missing or broken.
    """
    benchmark = BENCHMARKS[name]
    known = list(inspect.signature(benchmark.reader).parameters)[2:]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(
            f"Benchmark {name!r} has no option {unknown[0]!r}. Its options: {', '.join(known) or 'none'}."
        )
    default_source = locate_benchmark(name, data, images)
    source = BenchmarkSource(name, default_source.data, default_source.images, options, missing=missing)
    whole = read_task(source, limit)
    check_instances(whole, source)
    task = select_scorable(whole, source, True)
    return LoadedBenchmark(benchmark, source, task, check_images(task.images, name))


def score_model(
    model: LiveModel,
    on: LoadedBenchmark,
    *,
    batch_size: int | None,
    bootstrap: Bootstrap,
    out: Path | None,
) -> Scores:
    """Score a model on a benchmark; with ``out``, also write the tables there.

    Args:
        model: model in evaluation mode.
        on: the benchmark.
        batch_size: items per forward pass; None: found automatically.
        bootstrap: settings of the intervals.
        out: folder; None: nothing is written.

    Raises:
        ConfigError: an output file would overwrite an input or lie in a folder that is read.
        BackendError, DataError: as in ``compute_live_similarities``.
    """
    if out is not None:
        run_files.prepare_folder(out, [(on.benchmark.name, on.source.data)])
    rows = compute_live_similarities(model, on, batch_size)
    result = Scores(
        summarise_similarities(rows, {on.benchmark.name: on.benchmark}, bootstrap=bootstrap),
        rows,
    )
    if out is not None:
        answers = build_frame(ANSWERS, [])
        rejects = build_rejects(on.task, on.benchmark.name)
        plugins = BENCHMARKS.select_plugins([on.benchmark.name])
        run_files.write_run(out, rows, answers, result.metrics, rejects, plugins)
    return result


def compute_live_similarities(model: LiveModel, on: LoadedBenchmark, batch_size: int | None) -> pd.DataFrame:
    """Return table ``similarities`` of a model on a benchmark; each distinct image and text is encoded once.

    Args:
        model: model in evaluation mode.
        on: the benchmark.
        batch_size: items per forward pass; None: found automatically.

    Raises:
        BackendError: the model returns NaN or infinity, or vectors of different sizes for images and texts.
        DataError: an image cannot be read.
    """
    firsts, positions = find_distinct_images(on.task.images, on.keys)

    def encode_items(texts: Sequence[str], pairs: Pairs) -> DualEncoderScores:
        left, right = (
            _encode_images(model, list(firsts.values()), batch_size),
            _encode_texts(model, texts, batch_size),
        )
        if left.shape[1] != right.shape[1]:
            raise BackendError(
                f"Model {model.name!r} returns {left.shape[1]} numbers for an image and {right.shape[1]} for a text. "
                f"Vectors of different sizes have no cosine."
            )
        return DualEncoderScores(left, positions, right)

    columns = compute_score_columns(on.task, encode_items)
    return build_similarities(
        on.task, columns, on.keys, model=model.name, benchmark=on.benchmark.name, score_type="cosine"
    )


def _encode_images(model: LiveModel, images: list[ImageFile], batch_size: int | None) -> Embeddings:
    """Return the vectors (n, d) of distinct images."""
    parts = [
        model.encode_images(read_encoded_images(part), batch_size)
        for part in split_chunks(images, IMAGES_PER_SHARD)
    ]
    embeddings: Embeddings = check_finite(np.concatenate(parts), model.name)
    return embeddings


def _encode_texts(model: LiveModel, texts: Sequence[str], batch_size: int | None) -> Embeddings:
    """Return the vectors (n, d) of distinct texts, in the order of ``texts``."""
    shards = build_text_shards(texts)
    vectors = check_finite(
        np.concatenate([model.encode_texts(part, batch_size) for part in shards]), model.name
    )
    positions = {text: i for i, text in enumerate(text for part in shards for text in part)}
    embeddings: Embeddings = vectors[np.array([positions[text] for text in texts], np.int64)]
    return embeddings
