"""Map work over shards, resumably.

A shard's result is one Parquet file. Its name has the hash of its inputs, settings and code, and the hash of
its content (``files.save_hashed``). Finished shards that are intact are skipped: a killed run resumes without
loss or repetition, and gives the same bytes on any number of workers.

One machine is ``ray.init()``. A cluster is ``RAY_ADDRESS``, whose nodes share no disk: files that work reads
are ``LocalFile`` arguments, and this process writes the results.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from caramel.errors import ResourceError
from caramel.interfaces.settings import Executor as Executor
from caramel.io.files import load_hashed, save_hashed
from caramel.runtime.code_deps import compute_code_version
from caramel.runtime.ray.file_transfer import LocalFile, encode_value, format_as_given, map_instances
from caramel.runtime.ray.workers import Job, open_worker_pool

PARTS_OF_A_THREAD = 4  # of ``threaded``
Shard = TypeVar("Shard")
Result = TypeVar("Result")


def compute_fingerprint(module: str, *parts: Any) -> str:
    """Return a hash of JSON-like values and of the code that a module reaches, as 32 hexadecimal digits.

    Args:
        module: name of the module or script that computes the results; see
            ``code_deps.compute_code_version``.
        parts: everything else that the results depend on.
    """
    text = json.dumps([compute_code_version(module), *parts], sort_keys=True, default=encode_value)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def map_shards(
    work: Callable[..., pa.Table],
    shards: Sequence[Shard],
    *,
    settings: Mapping[str, Any],
    folder: str | Path,
    executor: Executor,
    title: str,
    gpus: float = 0.0,
    bring: Callable[[Shard], Any] = lambda shard: shard,
) -> list[Path]:
    """Return one result file per shard, in the shards' order.

    Args:
        work: top-level function ``work(shard, **settings)``; deterministic given its arguments.
        shards: JSON-like inputs, each with its own seed if it draws at random; files are ``LocalFile``.
        settings: JSON-like keyword arguments of ``work``, the same for all shards; files are ``LocalFile``.
        folder: folder of the result files.
        executor: ``inline`` runs in this process, ``ray`` on the cluster.
        title: title of the progress bar.
        gpus: GPUs per worker.
        bring: called here right before a shard is sent, and returns the argument of ``work`` for it: for
            example the bytes of the images that the shard names. It must depend only on the shard.

    Raises:
        ResourceError: a worker died more than ``RETRIES`` times on one shard, or Ray was killed.
    """
    folder = resolve_result_folder(folder)
    names = compute_result_names(work, settings, shards)
    done = load_hashed(folder, ".parquet", {*names})
    todo = {name: shard for name, shard in zip(names, shards, strict=True) if name not in done}
    jobs = [(name, lambda shard=shard: (bring(shard),)) for name, shard in todo.items()]
    with tqdm(total=len({*names}), initial=len(done), desc=title, unit="shard", disable=None) as bar:
        results = (
            _run_inline(work, jobs, settings)
            if executor == "inline" or not jobs
            else _run_on_ray(work, jobs, settings, gpus)
        )
        for name, table in results:
            done[name] = _save_table(folder / f"{name}.parquet", table)
            bar.update()
    return [done[name] for name in names]


def compute_result_names(
    work: Callable[..., Any], settings: Mapping[str, Any], parts: Sequence[Any]
) -> list[str]:
    """Return the name of each part's result: a hash of everything that it depends on."""
    whole = json.loads(json.dumps(dict(settings), default=encode_value))  # files are hashed once
    return [compute_fingerprint(work.__module__, work.__qualname__, whole, part) for part in parts]


def _save_table(path: Path, table: pa.Table) -> Path:
    return save_hashed(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _run_inline(
    work: Callable[..., pa.Table], jobs: Sequence[Job], settings: Mapping[str, Any]
) -> Iterator[tuple[str, pa.Table]]:
    """Run the shards in this process, one after the other."""
    settings = map_instances(settings, LocalFile, format_as_given)
    for name, arguments in jobs:
        yield name, work(*map_instances(arguments(), LocalFile, format_as_given), **settings)


def _run_on_ray(
    work: Callable[..., pa.Table], jobs: Sequence[Job], settings: Mapping[str, Any], gpus: float
) -> Iterator[tuple[str, pa.Table]]:
    """Run the shards on the cluster. One failed shard stops the map."""
    with open_worker_pool(gpus) as (pool, look):
        yield from pool.run_jobs(work, jobs, settings, look)


def resolve_result_folder(folder: str | Path) -> Path:
    """Return the absolute folder of results."""
    folder = Path(os.path.realpath(folder))
    if folder.exists() and not folder.is_dir():
        raise ResourceError(f"Results go into the folder {str(folder)!r}, but a file is there. Move it away.")
    return folder


def map_in_threads(
    function: Callable[[Shard], Result], items: Sequence[Shard], most: int = 16
) -> list[Result]:
    """Apply a function to each item in at most ``most`` threads of this process, for work that releases the interpreter.

    Reading, decoding and resizing images do.
    """
    workers = min(most, os.cpu_count() or 1)
    if workers == 1 or len(items) < 2:
        return [function(item) for item in items]
    size = math.ceil(
        len(items) / (PARTS_OF_A_THREAD * workers)
    )  # the cost of a thread is that of decoding a small image
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(workers) as pool:
        done = pool.map(lambda part: [function(item) for item in part], parts)
        return [result for part in done for result in part]
