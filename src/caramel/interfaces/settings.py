"""Settings that several rooms share: where a model computes, and how the tasks of a stage run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Executor = Literal["ray", "inline"]


@dataclass(frozen=True)
class Compute:
    """Where a model computes, and in which precision."""

    device: str  # "auto", "cpu", "cuda", "cuda:N" or "mps"
    precision: str  # "fp32", "tf32", "bf16" or "fp16"


@dataclass(frozen=True)
class Execution:
    """How the tasks of a stage run, and where their results lie."""

    executor: Executor  # "ray": tasks in workers of Ray; "inline": in this process
    folder: Path  # results of finished tasks, reused by the next run
    gpus: float  # GPUs for each task; a fraction shares a GPU
