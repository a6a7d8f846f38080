"""Benchmarks by name."""

from __future__ import annotations

from typing import Any

from caramel.benchmarks.tasks import Benchmark
from caramel.registry import backend


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        BackendError: there is none; the message lists the choices.
    """
    found: Any = backend("benchmark", name)
    assert isinstance(found, Benchmark)
    return found
