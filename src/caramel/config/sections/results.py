"""Sections ``run``, ``evaluate``, ``report`` and ``study``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from caramel.config.fields import (
    Count,
    Distinct,
    GpuShare,
    Nested,
    Positive,
    Section,
    Seed,
    Split,
    Variant,
    _check_method,
)


class Gpus(Section):
    """GPUs of one worker of each stage, if it runs on GPUs."""

    synthesize: GpuShare
    finetune: GpuShare
    evaluate: GpuShare


class Run(Section):
    """How to run.

    Device and precision change trained weights in the last bits. Executor, workers and GPUs do not.
    """

    executor: Literal["ray", "inline"]
    num_workers: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16"]
    gpus: Gpus


class Evaluate(Section):
    """Stage ``evaluate``: models × benchmarks."""

    models: Annotated[tuple[str, ...], Distinct]
    benchmarks: Annotated[tuple[str, ...], Distinct]
    data: str | None
    images: str | None
    split: Split
    retrieval_images: Positive
    zero_shot: str
    batch_size: Positive
    n_bootstrap: Annotated[Positive, Field(ge=100, le=100_000)]
    seed: Seed


class PrimaryComparison(Section):
    """The one pre-registered comparison; all others are exploratory."""

    variant: Variant
    against: str
    metric: Literal["accuracy", "i2t", "t2i", "group"]
    subset: Literal["all", "without_add", "seen", "unseen"]

    @field_validator("against")
    @classmethod
    def _check_against(cls, against: str, info: ValidationInfo) -> str:
        if against != "base":
            _check_method(against)
        if against == info.data.get("variant"):
            raise ValueError("must be another variant than the compared one, or base")
        return against


class Report(Section):
    """Stage ``report``."""

    primary_comparison: PrimaryComparison
    plan: str | None
    examples: Positive


class Study(Section):
    """``caramel study``, which is not a stage: how often each source of randomness is drawn anew."""

    draws: tuple[tuple[Nested, Nested], ...] = Field(min_length=2, max_length=1000)
    effect: Annotated[float, Field(gt=0, le=1)]
