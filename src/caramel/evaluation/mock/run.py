"""Run a model on one made instance of every benchmark (``caramel eval --mock``), for somebody who adds a model.

The files have the published formats, the captions are about a dog and a cat, and the images are colored blocks.
Scores mean nothing. What counts is that each form of question gets a score.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from caramel.benchmarks.tasks import limit_instances
from caramel.errors import CaramelError, ConfigError
from caramel.evaluation.benchmark_source import list_image_keys
from caramel.evaluation.compatibility import find_incompatibility
from caramel.evaluation.mock.images import draw_mock_image
from caramel.evaluation.mock.releases import RELEASES, write_release
from caramel.evaluation.mock.tables import TABLES
from caramel.evaluation.results.answers import summarise_answers
from caramel.evaluation.results.summary import select_overall_metrics, summarise_similarities
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.multiple_choice import collect_answers
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Benchmark, Rankings, Task
from caramel.interfaces.model import Chooser
from caramel.interfaces.settings import Compute
from caramel.models.specs import get_family, open_model
from caramel.registry import BENCHMARKS
from caramel.utils.resampling import Bootstrap

MOCKED = tuple(name for name in BENCHMARKS.targets if name in RELEASES or name in TABLES)
_BOOTSTRAP = Bootstrap(100, 0)  # its intervals are not used


@dataclass(frozen=True)
class MockResult:
    """What happened on a benchmark.

    Attributes:
        benchmark: its name.
        state: ``passed``; ``failed``; ``unsuitable``: models of this form cannot be scored on it.
        message: the metrics that were computed, or the reason.
    """

    benchmark: str
    state: Literal["passed", "failed", "unsuitable"]
    message: str


def check_mocked(names: Sequence[str]) -> None:
    """Raise a ConfigError if there is no made instance of a benchmark: of those of other packages there is none."""
    if unknown := [name for name in names if name not in MOCKED]:
        raise ConfigError(f"--mock has no instance of {unknown[0]!r}. Choices: {', '.join(MOCKED)}.")


def run_mock(
    model: str, benchmarks: Sequence[str], *, compute: Compute, batch_size: int | None
) -> Iterator[MockResult]:
    """Yield what happens when a model is scored on one made instance of each benchmark.

    Nothing is kept: files and embeddings are in a temporary folder.

    Args:
        model: the spec.
        benchmarks: names in ``MOCKED``.
        compute: device and precision.
        batch_size: items per forward pass; None: found automatically.

    Raises:
        BackendError: the model cannot be loaded.
    """
    open_model(model, compute.device, compute.precision)  # an error here is not one of a benchmark
    with tempfile.TemporaryDirectory(prefix="caramel-mock-") as folder:
        for name in benchmarks:
            run = RunConfig(model, compute, batch_size, str(Path(folder, "store")), "inline")
            data = Path(folder, "data", name)
            data.mkdir(parents=True)
            yield _score_benchmark(BENCHMARKS[name], data, run)


def _score_benchmark(benchmark: Benchmark, data: Path, run: RunConfig) -> MockResult:
    """Return the result of a model on one instance of a benchmark; an error of the model is part of it."""
    task = build_mock_task(benchmark, data)
    if reason := find_incompatibility(run.model, benchmark, task):
        return MockResult(benchmark.name, "unsuitable", reason)
    try:
        metrics = _compute_metrics(benchmark, task, run)
    except CaramelError as error:
        return MockResult(benchmark.name, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - a new model may raise anything, and the other benchmarks still count
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename}, line {frame.lineno}, in {frame.name}"
        return MockResult(benchmark.name, "failed", f"{type(error).__name__}: {error} ({where})")
    if not metrics:
        return MockResult(benchmark.name, "failed", "the instance got no score")
    return MockResult(benchmark.name, "passed", ", ".join(metrics))


def build_mock_task(benchmark: Benchmark, data: Path) -> Task:
    """Write a benchmark's files and images into an empty folder, and return the task of its first instance.

    Of the prompts of a class only the first is used: the others take time and test nothing more.
    """
    if benchmark.name in TABLES:
        TABLES[benchmark.name](data)
    else:
        write_release(data, benchmark.name)
        for number, image in enumerate(benchmark.load_rows(data, data).images):
            path = Path(image.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(draw_mock_image(number))
    task = limit_instances(benchmark.load_rows(data, data), 1)
    return replace(task, texts=[text[:1] for text in task.texts]) if isinstance(task, Rankings) else task


def _compute_metrics(benchmark: Benchmark, task: Task, run: RunConfig) -> list[str]:
    """Return the metrics that the model's scores or answers give."""
    model = open_model(run.model, run.compute.device, run.compute.precision)
    keys = list_image_keys(task, get_family(run.model).looks_at_images)
    if isinstance(model, Chooser):
        answers = collect_answers(task, keys, run, benchmark=benchmark.name)
        metrics = summarise_answers(answers, {benchmark.name: benchmark}, bootstrap=_BOOTSTRAP)
    else:
        rows = compute_similarities(task, keys, run, benchmark=benchmark.name)
        metrics = summarise_similarities(rows, {benchmark.name: benchmark}, bootstrap=_BOOTSTRAP)
    return list(select_overall_metrics(metrics))
