"""Locate benchmarks, read their tasks and hash the content of a task."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from caramel.benchmarks.errata import apply_errata, read_errata
from caramel.benchmarks.image_files import compute_content_keys
from caramel.benchmarks.present_images import exclude_missing
from caramel.benchmarks.tasks import limit_instances, list_rejects
from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import Rankings, Task
from caramel.io.validators import format_value
from caramel.registry import BENCHMARKS
from caramel.schemas.io import build_frame
from caramel.schemas.rejects import REJECTS

Missing = Literal["fail", "skip"]  # a missing image is an error, or its instances get no score
_AT_ONCE = 8192  # rows hashed at a time


@dataclass(frozen=True)
class BenchmarkSource:
    """Location of a benchmark and options of its reader.

    Attributes:
        benchmark: name in the registry.
        data: folder of the benchmark.
        images: folder of its images.
        options: further keyword arguments of its reader.
        dvc: DVC paths of its files, for the MLflow run.
        missing: ``fail``: a missing image is an error; ``skip``: the instances that need it get no score.
        errata: file of corrections that are applied to its items, see ``benchmarks/errata.py``; empty: none.
    """

    benchmark: str
    data: str
    images: str
    options: Mapping[str, Any] = field(default_factory=dict)
    dvc: tuple[str, ...] = ()
    missing: Missing = "fail"
    errata: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values; empty errata are left out, so that results without any keep their keys."""
        return {name: value for name, value in asdict(self).items() if name != "errata" or value}


def locate_benchmark(
    name: str, data: Path, images: Path | None, missing: Missing = "fail"
) -> BenchmarkSource:
    """Return the location of a benchmark: ``data/NAME``, or ``data`` if there is no such folder.

    The images are in ``images/NAME``, or in ``images`` if there is no such folder, so that several benchmarks can
    share it. If ``images`` is None, they are in the benchmark's folder.
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
    """Read the task of a benchmark; with ``limit``, only its first instances.

    Raises:
        DataError: a file is missing or broken, or an erratum does not fit its item.
    """
    if not Path(source.data).is_dir():
        raise DataError(
            f"Benchmark {source.benchmark!r}: folder {source.data!r} does not exist. Expected layout:\n"
            f"{BENCHMARKS[source.benchmark].layout}"
        )
    read = BENCHMARKS[source.benchmark].load_rows
    task = read(Path(source.data), Path(source.images), **source.options)
    if source.errata:
        task = apply_errata(read_errata(Path(source.errata), source.benchmark), task).task
    return limit_instances(task, limit)


def select_scorable(task: Task, source: BenchmarkSource, with_images: bool) -> Task:
    """Return the task without instances whose images are missing, if the source skips them and images are used."""
    return exclude_missing(task) if with_images and source.missing == "skip" else task


def check_instances(task: Task, source: BenchmarkSource) -> None:
    """Raise DataError if two instances have the same id."""
    twice = task.rows["instance_id"][task.rows["instance_id"].duplicated()]
    if len(twice):
        raise DataError(
            f"Benchmark {source.benchmark!r}: duplicate instances ({len(twice)}):\n"
            f"{format_items([format_value(name) for name in twice])}"
        )


def build_rejects(task: Task, benchmark: str) -> pd.DataFrame:
    """Return table ``rejects`` of the rows that define no query; column ``stage`` holds the benchmark's name."""
    rows = [
        {"id": reject.location, "stage": benchmark, "reason": reject.reason, "text": reject.text}
        for reject in list_rejects(task)
    ]
    return build_frame(REJECTS, rows)


def list_image_keys(task: Task, with_images: bool) -> list[bytes]:
    """Return the content key of each image, or its number if no images are used."""
    return (
        compute_content_keys(task.images)
        if with_images
        else [str(i).encode() for i in range(len(task.images))]
    )


def hash_task(task: Task) -> bytes:
    """Return a hash of a task's content without its images, with the instances that are left out."""
    digest = hashlib.sha256()
    for start in range(0, len(task.rows), _AT_ONCE):
        digest.update(task.rows.iloc[start : start + _AT_ONCE].to_json(orient="values").encode())
    if isinstance(task, Rankings):
        for text in task.texts:
            digest.update(repr(text).encode())
        for pool in task.pools:
            digest.update(repr(pool.shape).encode() + pool.tobytes())
    if task.left_out is not None:
        digest.update(task.left_out.rows.to_json(orient="values").encode())
        digest.update(repr([*task.left_out.texts_hash]).encode())
    return digest.digest()
