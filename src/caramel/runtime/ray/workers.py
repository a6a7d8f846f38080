"""Run processes on all nodes of the cluster that each process one job after the other.

A worker is an actor that Ray does not restart. If its process or node dies, or its connection is cut, its
jobs go to another worker, and late results from it are ignored. With plain tasks, Ray itself would wait five
minutes for a node that was cut off. A model that a worker has loaded stays loaded. Nodes that join late get
their own workers.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from caramel.errors import CaramelError, ResourceError
from caramel.io.disk_space import explain_disk_error
from caramel.runtime.environment import collect_seldom, limit_threads
from caramel.runtime.ray.cluster import RETRIES, get_cluster_address, is_session_shared, open_ray_session
from caramel.runtime.ray.driver_files import call_disk, start_disk_actor
from caramel.runtime.ray.file_transfer import (
    CACHE,
    LocalFile,
    Parcel,
    format_absolute,
    format_source_path,
    map_instances,
    pack_file,
    unpack_parcel,
)
from caramel.runtime.ray.node import (
    be_at_home,
    format_version_differences,
    get_node_id,
    get_node_name,
    list_versions,
)
from caramel.runtime.ray.results import (
    WorkerDiedError,
    build_worker_error,
    get_result,
    translate_store_errors,
)
from caramel.runtime.ray.session_health import LOOK, build_session_check

AHEAD = 2  # jobs per worker, so that the next one is there when one ends
STILL = 60.0  # seconds without any worker after which a message says what is missing
Job = tuple[str, Callable[[], tuple[Any, ...]]]  # name, and a function that returns its arguments


class ShardWorker:
    """The process of a worker."""

    def __init__(self, home: str, disk: Any) -> None:
        """Store the driver's node and its disk; None if there is no other node."""
        self._away = get_node_name(home)
        self._disk = disk
        collect_seldom()
        limit_threads()
        if self._away:
            be_at_home()

    def ready(self) -> tuple[str, str, dict[str, str]]:
        """Return the node's id and name, and its installed versions."""
        return get_node_id(), self._away, list_versions()

    def wait(self) -> None:
        """Do nothing, as long as the node exists."""
        threading.Event().wait()

    def run(self, work: Callable[..., Any], arguments: tuple[Any, ...], settings: Mapping[str, Any]) -> Any:
        """Return the result of the work, after fetching its files."""
        fetch = (
            partial(unpack_parcel, read=partial(call_disk, self._disk, "read"))
            if self._away
            else format_source_path
        )
        try:
            placed = map_instances([arguments, settings], Parcel, fetch)
            return work(*placed[0], **placed[1])
        except CaramelError as error:
            if not self._away:
                raise
            raise type(error)(f"On node {self._away}: {error}") from error
        except Exception as error:
            if self._away and (message := explain_disk_error(error, [CACHE.expanduser()])):
                raise ResourceError(f"On node {self._away}: {message}") from error
            raise


@dataclass(eq=False)
class _Worker:
    """A worker as known to the driver."""

    actor: Any
    jobs: list[Job] = field(default_factory=list)  # in the order of sending


class WorkerPool:
    """The workers of a session with the same number of GPUs each."""

    def __init__(self, gpus: float) -> None:
        """Store the requirements of each worker and the current nodes. No worker is started yet."""
        import ray

        self.gpus = gpus
        self._disk = start_disk_actor() if get_cluster_address() else None
        self.home = get_node_id()
        self._starting: dict[Any, _Worker] = {}
        self._workers: list[_Worker] = []
        self._aside: dict[
            Any, _Worker
        ] = {}  # workers without jobs that keep others from starting on unusable nodes
        self._first = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        self._late: set[str] = set()  # nodes already reported for other versions
        self._most = self._failed = 0

    def run_jobs(
        self,
        work: Callable[..., Any],
        jobs: Sequence[Job],
        settings: Mapping[str, Any],
        check_session: Callable[[], None],
    ) -> Iterator[tuple[str, Any]]:
        """Yield (name, result) of each job as it ends. One that fails ends all.

        Raises:
            ResourceError: a worker died more than ``RETRIES`` times on one job, or Ray is gone.
        """
        import ray

        settings = prepare_files(settings)
        todo, deaths = deque(jobs), Counter[str]()
        waiting: dict[Any, tuple[_Worker, Job]] = {}
        last_notice = time.monotonic()
        while todo or waiting:
            check_session()
            self._start_workers(len(todo) + len(waiting))
            for worker in self._list_free_workers():
                if todo:
                    job = todo.popleft()
                    waiting[self._send_job(worker, work, job, settings)] = worker, job
            done, _ = ray.wait([*waiting, *self._starting, *self._aside], num_returns=1, timeout=LOOK)
            for reference in done:
                if reference in self._aside:  # its node is gone
                    del self._aside[reference]
                    continue
                if reference in self._starting:
                    self._accept_worker(reference)
                    continue
                worker, job = waiting.pop(reference)
                first = worker.jobs[0] is job
                worker.jobs.remove(job)
                try:
                    result = get_result(reference)
                except WorkerDiedError as error:
                    self._drop_worker(worker)
                    deaths[job[0]] += first
                    if deaths[job[0]] > RETRIES:
                        raise build_worker_error(job[0], error) from error
                    todo.appendleft(job)
                else:
                    yield job[0], result
            if self._workers:
                last_notice = time.monotonic()
            elif time.monotonic() - last_notice > STILL:
                last_notice = time.monotonic()
                need = f"{self.gpus:g} free GPU" if self.gpus else "a free processor"
                print(f"\nWaiting for a node of Ray's cluster with {need}.", file=sys.stderr)

    def release_workers(self) -> None:
        """End all workers."""
        import ray

        for worker in (*self._workers, *self._starting.values(), *self._aside.values()):
            ray.kill(worker.actor)
        self.forget_workers()

    def forget_workers(self) -> None:
        """Drop all workers without a call to Ray, which may be gone. Ray ends workers without references."""
        self._workers, self._starting, self._aside = [], {}, {}

    def _start_workers(self, wanted: int) -> None:
        """Start workers: as many as the cluster has room for, but at most one per job."""
        import ray

        if not self._most or get_cluster_address():  # a call that may never return if Ray is gone
            has = ray.cluster_resources()
            slots = has.get("GPU", 0) / self.gpus if self.gpus else has.get("CPU", 1)
            self._most = max(1, int(slots))
        actor = ray.remote(max_restarts=0, max_task_retries=0, num_cpus=1, num_gpus=self.gpus)(ShardWorker)
        while len(self._workers) + len(self._starting) < min(self._most - len(self._aside), wanted):
            worker = _Worker(actor.remote(self.home, self._disk))
            self._starting[worker.actor.ready.remote()] = worker

    def _accept_worker(self, reference: Any) -> None:
        """Let a worker receive jobs if its node has the driver's versions.

        A late node without them ends nothing.
        """
        worker = self._starting.pop(reference)
        try:
            node, name, installed = get_result(reference)
        except WorkerDiedError as error:
            self._drop_worker(worker)
            self._failed += 1
            if self._failed > RETRIES:
                raise ResourceError(
                    f"No worker starts on Ray's cluster: the last one died ({error}), after {RETRIES} retries: {error.said}"
                ) from error
            return
        self._failed = 0
        message = format_version_differences(name, installed, list_versions())
        if not message:
            self._workers.append(worker)
        elif node in self._first:
            raise ResourceError(message)
        else:
            if node not in self._late:
                print(f"\n{message} Until then the others work.", file=sys.stderr)
            self._late.add(node)
            self._aside[worker.actor.wait.remote()] = worker

    def _list_free_workers(self) -> list[_Worker]:
        """Return the workers that can receive a job, those with the fewest jobs first."""
        return sorted((w for w in self._workers if len(w.jobs) < AHEAD), key=lambda w: len(w.jobs))

    def _send_job(
        self, worker: _Worker, work: Callable[..., Any], job: Job, settings: Mapping[str, Any]
    ) -> Any:
        worker.jobs.append(job)
        with translate_store_errors():
            return worker.actor.run.remote(work, tuple(prepare_files(list(job[1]()))), settings)

    def _drop_worker(self, worker: _Worker) -> None:
        """Forget a worker. Its other jobs return by themselves with an error."""
        import ray

        if worker in self._workers:
            self._workers.remove(worker)
        ray.kill(worker.actor)


_POOL: list[WorkerPool] = []  # of the session; at most one


@contextmanager
def open_worker_pool(gpus: float) -> Iterator[tuple[WorkerPool, Callable[[], None]]]:
    """Yield the workers of the Ray session, and its check function.

    Those of a shared session stay for the next call.
    """
    with open_ray_session() as check_session:
        if _POOL and (_POOL[0].gpus, _POOL[0].home) != (gpus, get_node_id()):
            end_workers()
        if not _POOL:
            _POOL.append(WorkerPool(gpus))
        try:
            yield _POOL[0], check_session
        except BaseException:
            _drop_pool(_POOL.pop())
            raise
        if not is_session_shared():
            end_workers()


def _drop_pool(pool: WorkerPool) -> None:
    """End the workers of a map that failed.

    Ray would end workers without references too. But whoever keeps the error keeps its frames, which refer to
    the workers, and these hold their processors. If Ray is gone, a call to it may never return.
    """
    try:
        build_session_check()()
    except ResourceError:
        pool.forget_workers()
    else:
        pool.release_workers()


def end_workers() -> None:
    """End the workers of the session, if any, because others need their resources."""
    import ray

    while _POOL:
        pool = _POOL.pop()
        if ray.is_initialized() and pool.home == get_node_id():
            pool.release_workers()


def prepare_files(value: Any) -> Any:
    """Return a JSON-like value with each ``LocalFile`` replaced by what is sent: on this machine, its path."""
    return map_instances(value, LocalFile, pack_file if get_cluster_address() else format_absolute)
