"""Benchmarks by name."""

from __future__ import annotations

from caramel.kinds.benchmark import Benchmark
from caramel.registry import BENCHMARKS


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        BackendError: there is none; the message lists the choices.
    """
    return BENCHMARKS[name]
