"""Run a causal language model of a folder on all GPUs of Ray's cluster; each worker answers batches of requests."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from caramel.interfaces.language_model import ModelOutput, NextRequests, OnResponse, Request
from caramel.interfaces.model import Identity
from caramel.models.llm.causal import CausalLanguageModel, get_prompt, load_causal_model
from caramel.runtime.last_result import keep_last, stamp_files
from caramel.runtime.ray.cluster import open_ray_session
from caramel.runtime.ray.file_transfer import LocalFile
from caramel.runtime.ray.workers import open_worker_pool


class ShardedLanguageModel:
    """A ``LanguageModel`` on workers of Ray, with one GPU each if the cluster has GPUs.

    Errors are those of the workers.

    Responses equal those of ``CausalLanguageModel``: they depend neither on the batch nor on the worker.

    Args:
        folder: folder of the model, on this machine.
        max_connections: number of requests in one batch.
        number: number of concurrent batches. At most this many workers are started, and at most one per GPU,
            or per CPU.
    """

    def __init__(self, folder: str, max_connections: int, number: int) -> None:
        self._folder, self._batch_size, self._number = folder, max_connections, number

    @functools.cached_property
    def _gpus(self) -> float:
        """Return how many GPUs a worker takes: one if any node has one at the first call.

        The GPUs of this machine do not matter.
        """
        with open_ray_session():
            import ray

            return 1.0 if ray.cluster_resources().get("GPU") else 0.0

    @functools.cached_property
    def identity(self) -> Identity:
        """Return what determines the responses, as computed by a worker: this machine may have another device."""
        with open_ray_session(), open_worker_pool(self._gpus) as (pool, look):
            job = ("identity", lambda: (LocalFile(self._folder), self._batch_size))
            ((_, result),) = pool.run_jobs(_get_identity, [job], {}, look)
        identity: Mapping[str, object] = result
        return identity

    def answer_requests(self, next_requests: NextRequests, on_response: OnResponse) -> None:
        """Answer requests, one batch per worker at a time, by prompts; see ``interfaces.language_model``."""
        with open_ray_session(), open_worker_pool(self._gpus) as (pool, look):
            while requests := next_requests(self._batch_size * self._number):
                requests.sort(
                    key=lambda request: get_prompt(request[1])
                )  # workers compute its beginning once
                batches = {
                    str(start): requests[start : start + self._batch_size]
                    for start in range(0, len(requests), self._batch_size)
                }
                jobs = [
                    (name, functools.partial(self._build_arguments, batch)) for name, batch in batches.items()
                ]
                for name, outputs in pool.run_jobs(_generate_outputs, jobs, {}, look):
                    for (request, _), one in zip(batches[name], outputs, strict=True):
                        on_response(request, one)

    def _build_arguments(self, batch: Sequence[tuple[str, Request]]) -> tuple[LocalFile, int, list[Request]]:
        return LocalFile(self._folder), self._batch_size, [request for _, request in batch]


@keep_last(lambda folder, max_connections: stamp_files(folder))
def _load_model(folder: str, max_connections: int) -> CausalLanguageModel:
    return load_causal_model(folder, max_connections=max_connections)


def _get_identity(folder: str, max_connections: int) -> Identity:
    return _load_model(folder, max_connections).identity


def _generate_outputs(folder: str, max_connections: int, requests: Sequence[Request]) -> list[ModelOutput]:
    return _load_model(folder, max_connections).generate_outputs(requests)
