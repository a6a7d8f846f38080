"""Sections of the stages that generate, filter and check images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from caramel.config.fields import (
    Count,
    Decay,
    Distinct,
    Guidance,
    LearningRate,
    Positive,
    Section,
    Seed,
    Several,
    Share,
    Split,
    Subtype,
    Type,
)
from caramel.utils.acceptance import Acceptance


class TrainGenerator(Section):
    """Stage ``train_generator``: the text-to-image pipeline."""

    backend: str
    pretrained: str | None
    seed: Seed
    steps: Positive
    batch_size: Positive
    lr: LearningRate
    warmup_steps: Count
    ema_decay: Decay
    patch_size: Positive
    hidden_size: Annotated[Positive, Field(multiple_of=64)]
    num_layers: Positive
    caption_dropout: Share
    visible_frac: Share
    checkpoint_every: Positive


class GenerationGrid(Section):
    """Settings of the generator to try."""

    guidance: Annotated[tuple[Guidance, ...], Distinct] = Field(min_length=1)
    steps: Annotated[tuple[Positive, ...], Distinct] = Field(min_length=1)


class Synthesize(Section):
    """Stage ``synthesize``: candidate images of the negative captions."""

    method: Literal["draw", "edit"]
    candidates: Positive
    seed: Seed
    shard_size: Positive
    per_subtype: Mapping[Split, Count]
    one_per_image: bool
    prompt_suffix: str
    image_size: Positive
    batch_size: Positive
    grid: GenerationGrid
    grid_captions: Positive
    grid_judge: str | None


class FilterImages(Section):
    """Stage ``filter_images``: the best faithful candidate or none."""

    judge: str
    ambiguity: str | None
    ambiguity_test: Literal["captions", "images"]
    second_judge: str | None
    faithfulness_threshold: Share | None
    margin: Share
    keep_ambiguous: tuple[Type, ...]


class Assemble(Section):
    """Stage ``assemble``: the benchmark and the training set."""

    positives: Literal["source", "drawn"]
    training: Literal["drawn", "all", "none"]


class ImageScores(Section):
    """Stage ``image_scores``: attackers that see the benchmark's images and no caption."""

    folds: Several
    seed: Seed


class ValidateBenchmark(Section):
    """Stage ``validate_benchmark``."""

    blind_tolerance: Share
    acceptance: Acceptance
    blind_exempt: tuple[Type, ...]
    image_tolerance: Share
    image_exempt: tuple[Subtype, ...]
    max_subtype_share: Share
    min_alpha: Share
    min_pairable: Positive
