"""Benchmarks where they lie: what is read of their files, and a hash of all that they ask."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from caramel.benchmarks.image_files import compute_content_keys
from caramel.benchmarks.present_images import exclude_missing
from caramel.benchmarks.tasks import limit_instances, list_rejects
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import Rankings, Task
from caramel.io.validators import format_value
from caramel.registry import BENCHMARKS
from caramel.schemas.io import build_frame
from caramel.schemas.rejects import REJECTS

Missing = Literal["fail", "skip"]  # what a missing image is: an error, or instances without a score
_AT_ONCE = 8192  # rows that are hashed together


@dataclass(frozen=True)
class BenchmarkSource:
    """Where a benchmark lies.

    Attributes:
        benchmark: name in the registry.
        data: its folder.
        images: folder of its images.
        options: further keyword arguments of its reader.
        dvc: DVC paths that it is read from, for the MLflow run.
        missing: whether a missing image ends it, or the instances that need it have no score.
    """

    benchmark: str
    data: str
    images: str
    options: Mapping[str, Any] = field(default_factory=dict)
    dvc: tuple[str, ...] = ()
    missing: Missing = "fail"


def locate_benchmark(
    name: str, data: Path, images: Path | None, missing: Missing = "fail"
) -> BenchmarkSource:
    """Return where a benchmark lies: in ``data/NAME``, or in ``data`` where there is no such folder.

    Its images likewise: in ``images/NAME``, or in ``images``, which many benchmarks may share; without ``images``
    in the benchmark's folder.
    """
    folder = data / name if (data / name).is_dir() else data
    if images is None:
        return BenchmarkSource(name, str(folder), str(folder), missing=missing)
    subfolder = images / name
    return BenchmarkSource(
        name,
        str(folder),
        str(subfolder if subfolder.is_dir() and subfolder != folder else images),
        missing=missing,
    )


def read_task(source: BenchmarkSource, limit: int | None = None) -> Task:
    """Return the task of a benchmark, or its first instances.

    Raises:
        DataError: a file is missing or broken.
    """
    if not Path(source.data).is_dir():
        raise DataError(
            f"Benchmark {source.benchmark!r}: there is no folder {source.data!r}. Expected layout:\n"
            f"{BENCHMARKS[source.benchmark].layout}"
        )
    read = BENCHMARKS[source.benchmark].load_rows
    return limit_instances(read(Path(source.data), Path(source.images), **source.options), limit)


def select_scorable(task: Task, source: BenchmarkSource, with_images: bool) -> Task:
    """Return the task without instances whose images are missing, where the source says so and images are looked at."""
    return exclude_missing(task) if with_images and source.missing == "skip" else task


def check_instances(task: Task, source: BenchmarkSource) -> None:
    """Raise DataError where two instances have one name."""
    twice = task.rows["instance_id"][task.rows["instance_id"].duplicated()]
    if len(twice):
        raise DataError(
            f"Benchmark {source.benchmark!r}: {len(twice)} instances stand twice:\n"
            f"{format_items([format_value(name) for name in twice])}"
        )


def build_rejects(task: Task, benchmark: str) -> pd.DataFrame:
    """Return table ``rejects`` of what of a benchmark's files asks nothing; its stage is the benchmark."""
    rows = [
        {"id": reject.location, "stage": benchmark, "reason": reject.reason, "text": reject.text}
        for reject in list_rejects(task)
    ]
    return build_frame(REJECTS, rows)


def list_image_keys(task: Task, with_images: bool) -> list[bytes]:
    """Return the content key of each image; its number where no image is looked at."""
    return (
        compute_content_keys(task.images)
        if with_images
        else [str(i).encode() for i in range(len(task.images))]
    )


def hash_task(task: Task) -> bytes:
    """Return a hash of all that a task asks, but of its images."""
    digest = hashlib.sha256()
    for start in range(0, len(task.rows), _AT_ONCE):
        digest.update(task.rows.iloc[start : start + _AT_ONCE].to_json(orient="values").encode())
    if isinstance(task, Rankings):
        for text in task.texts:
            digest.update(repr(text).encode())
        for pool in task.pools:
            digest.update(repr(pool.shape).encode() + pool.tobytes())
    if task.left_out is not None:
        digest.update(repr([*task.left_out.rows["instance_id"]]).encode())
    return digest.digest()
