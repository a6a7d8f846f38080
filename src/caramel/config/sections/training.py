"""Sections of the stages that train CLIP models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic_core import to_json

from caramel.config.fields import (
    Count,
    Decay,
    Distinct,
    LearningRate,
    Positive,
    Section,
    Seed,
    Several,
    Share,
    Variant,
    Weight,
    WeightDecay,
)
from caramel.config.renamed import RENAMED
from caramel.config.search_space import draw_points, merge_point
from caramel.registry import METHODS


class Pretrain(Section):
    """Stage ``pretrain``: the base CLIP."""

    backend: str
    pretrained: str | None
    model: str
    negatives: bool
    seed: Seed
    image_steps: Count
    epochs: Positive | None
    steps: Positive
    batch_size: Several
    block_size: Positive
    lr: LearningRate
    warmup_steps: Count
    weight_decay: WeightDecay
    betas: tuple[Decay, Decay]
    eps: Annotated[float, Field(gt=0, le=1)]
    grad_clip_norm: Annotated[float, Field(gt=0, le=1000)] | None
    checkpoint_every: Positive

    @field_validator("image_steps")
    @classmethod
    def _check_image_steps(cls, steps: int, info: ValidationInfo) -> int:
        if steps and info.data.get("negatives"):
            raise ValueError(
                "must be 0 with negatives: texts are aligned to a locked image tower without them"
            )
        return steps


class Lora(Section):
    """Low-rank adaptation."""

    rank: Positive
    alpha: Annotated[float, Field(gt=0, le=1000)]
    targets: Annotated[tuple[str, ...], Distinct] = Field(min_length=1)


class Halving(Section):
    """Asynchronous successive halving.

    After ``first`` checkpoints, and each time after ``factor`` times as many, the worse trials stop.
    """

    first: Positive
    factor: Several


class Search(Section):
    """What is tried for variants before they are trained."""

    space: Mapping[Variant, Mapping[str, Any]] = Field(min_length=1)
    draws: Positive | None
    seed: Seed
    seeds: Annotated[tuple[Seed, ...], Distinct] = Field(min_length=1)
    asha: Halving | None

    @field_validator("space")
    @classmethod
    def _check_space(cls, space: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        if empty := [variant for variant, tried in space.items() if not tried]:
            raise ValueError(f"{empty[0]}: there is nothing to try")
        return space

    @field_validator("draws")
    @classmethod
    def _check_draws(cls, draws: int | None, info: ValidationInfo) -> int | None:
        spaces = info.data.get("space")
        if (
            draws is not None
            and spaces
            and all(isinstance(v, list) for s in spaces.values() for v in s.values())
        ):
            raise ValueError(
                "must be null if all are lists: their combinations are tried, and nothing is drawn"
            )
        return draws


class FinetuneSugarcrepePp(Section):
    """Stage ``finetune_sugarcrepe_pp``: models tuned on 40 % of SugarCrepe++."""

    models: Annotated[tuple[str, ...], Distinct] = Field(min_length=1)
    data: str
    images: str | None
    seeds: Annotated[tuple[Seed, ...], Distinct] = Field(min_length=1)
    method: Variant
    epochs: Positive
    rows: Several
    batch_size: Positive
    lr: LearningRate
    lora_lr: LearningRate
    warmup_steps: Count
    weight_decay: WeightDecay
    grad_clip_norm: Annotated[float, Field(gt=0, le=1000)] | None
    lora: Lora

    @field_validator("method")
    @classmethod
    def _check_method(cls, method: str) -> str:
        known = METHODS[method]
        needs = {
            "negative images, which SugarCrepe++ does not have": known.images,
            "a bias of the logits, which these models do not have": known.bias,
            "patches and words, which not all of these models give": known.parts,
        }
        if unmet := [need for need, needed in needs.items() if needed]:
            raise ValueError(f"needs {unmet[0]}")
        return method


# Keys of ``finetune`` that no variant can override: comparisons of variants would compare other things.
SHARED = {"variants", "seeds", "overrides", "nproc", "search", "rows", "selection_metric"}


# Keys that determine the number of candidates of a batch, and so how high the metric ``contrastive`` is.
EASIER = {"batch_size", "negatives"}


class Finetune(Section):
    """Stage ``finetune``: variants × seeds."""

    variants: Annotated[tuple[Variant, ...], Distinct] = Field(min_length=1)
    seeds: Annotated[tuple[Seed, ...], Distinct] = Field(min_length=1)
    rows: Literal["pairs", "negatives"]
    negatives: Positive | None
    trainable: Literal["all", "image", "text", "last", "lora"]
    unlocked_layers: Positive
    lora: Lora
    epochs: Positive | None
    evals_per_epoch: Positive
    steps: Positive
    batch_size: Several
    nproc: Positive
    micro_batch_size: Positive | None
    grad_checkpointing: bool
    lr: LearningRate
    warmup_steps: Count
    weight_decay: WeightDecay
    betas: tuple[Decay, Decay]
    eps: Annotated[float, Field(gt=0, le=1)]
    grad_clip_norm: Annotated[float, Field(gt=0, le=1000)] | None
    ema_decay: Decay | None
    wise_ft_alphas: Annotated[tuple[Share, ...], Distinct]
    checkpoint_every: Positive
    patience: Positive | None
    keep: Literal["best", "last"]
    selection_metric: Literal["group", "contrastive"]
    overrides: Mapping[Variant, Mapping[str, Any]]  # checked against all fields before it
    search: Search | None  # last, because it is checked like ``overrides`` and against it

    @field_validator("wise_ft_alphas")
    @classmethod
    def _check_ascending(cls, mix: tuple[float, ...]) -> tuple[float, ...]:
        if list(mix) != sorted(mix):
            raise ValueError("mixing weights must ascend")
        return mix

    @field_validator("overrides")
    @classmethod
    def _check_overrides(
        cls, overrides: Mapping[str, Mapping[str, Any]], info: ValidationInfo
    ) -> Mapping[str, Mapping[str, Any]]:
        if len(info.data) + 2 < len(cls.model_fields):
            return overrides  # a common setting is invalid, which is reported anyway
        if idle := sorted(set(overrides) - set(info.data["variants"])):
            raise ValueError(f"{idle[0]} is not among finetune.variants")
        for variant, settings in overrides.items():
            cls._check_own(variant, dict(settings), info.data)
        return overrides

    @classmethod
    def _check_own(cls, variant: str, settings: dict[str, Any], common: Mapping[str, Any]) -> None:
        """Raise a ValueError if a variant's overrides are invalid, or its weights are not the method's."""
        weights, known = settings.pop("weights", {}), METHODS[variant].weights
        if shared := sorted(SHARED & set(settings)):
            raise ValueError(f"{variant}: {shared[0]!r} applies to all variants and cannot be overridden")
        try:
            TypeAdapter(Mapping[str, Weight]).validate_json(json.dumps(weights), strict=True)
            cls.model_validate_json(to_json({**common, **settings, "overrides": {}, "search": None}))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"] or ["weights"]))
            message = first["msg"].removeprefix("Value error, ")
            if new := RENAMED.get(f"finetune.{key}"):
                message = f"the key is now {new.removeprefix('finetune.')}; `caramel upgrade` rewrites params.yaml and params/"
            raise ValueError(f"{variant}: {key} = {first['input']!r:.200}: {message}") from None
        if unknown := sorted(set(weights) - set(known)):
            raise ValueError(f"{variant} has no weight {unknown[0]!r}; it has: {', '.join(known) or 'none'}")

    @field_validator("search")
    @classmethod
    def _check_search(cls, search: Search | None, info: ValidationInfo) -> Search | None:
        if search is None or len(info.data) + 1 < len(cls.model_fields):
            return search
        if idle := sorted(set(search.space) - set(info.data["variants"])):
            raise ValueError(f"{idle[0]} is not among finetune.variants")
        common = {**info.data, "lora": info.data["lora"].model_dump()}
        for variant, space in search.space.items():
            if info.data["selection_metric"] == "contrastive" and (easier := EASIER & set(space)):
                raise ValueError(
                    f"{variant}: {min(easier)!r} cannot be searched with selection_metric: contrastive, which is higher "
                    f"among fewer candidates. Set it for all points in finetune or finetune.overrides"
                )
            try:
                tried = draw_points(space, search.draws, seed=search.seed, name=variant)
                every = [
                    merge_point(info.data["overrides"].get(variant, {}), point, common) for point in tried
                ]
            except ValueError as error:
                raise ValueError(f"{variant}: {error}") from None
            for settings in every:
                cls._check_own(variant, settings, info.data)
        return search
