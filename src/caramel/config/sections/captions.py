"""Sections of the stages that make and check captions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from caramel.config.fields import (
    Check,
    Connections,
    Count,
    Distinct,
    LearningRate,
    Positive,
    Price,
    Section,
    Seed,
    Several,
    Share,
    Type,
)
from caramel.utils.acceptance import Acceptance


class Scenes(Section):
    """Stage ``scenes``: where pairs come from."""

    source: Literal["world", "files", "captions", "sugarcrepe"]
    data_dir: str
    seed: Seed
    train: Positive
    val: Positive
    test: Positive
    num_objects: tuple[Annotated[int, Field(ge=1, le=3)], ...] = Field(min_length=1)
    allow_unmentioned_objects: bool
    unseen_frac: Annotated[float, Field(ge=0, le=0.5)]
    typical_color_prob: Share
    absolute_positions: Share
    group_size: Positive
    val_test_frac: tuple[Share, Share]

    @field_validator("val_test_frac")
    @classmethod
    def _check_held_out(cls, shares: tuple[float, float]) -> tuple[float, float]:
        if sum(shares) > 1:
            raise ValueError("two shares whose sum is at most 1")
        return shares


class LanguageModel(Section):
    """How a language model is queried for captions, and when its text is accepted."""

    target: str | None
    paraphraser: str | None
    name: str | None
    replies: str
    prompts: str
    subtypes: Annotated[int, Field(ge=1, le=7)]
    examples: Annotated[int, Field(ge=0, le=7)]
    temperature: Annotated[float, Field(gt=0, le=1.5)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    min_p: Annotated[float, Field(ge=0, le=1)]
    seed: Seed | None
    response_schema: bool
    compose: Literal["edit", "model"]
    propose: Literal["free", "choose"]
    wordnet: str | None
    validate_texts: bool
    validator_gold_items: Annotated[int, Field(ge=0, le=1000)]
    correct_paraphrases: Annotated[int, Field(ge=0, le=100)]
    max_connections: Connections
    workers: Annotated[int, Field(ge=0, le=1024)]
    max_tokens: Annotated[int, Field(ge=1, le=100_000)]
    required: Annotated[tuple[Check, ...], Distinct]
    max_length_ratio: Annotated[float, Field(ge=1, le=100)]
    max_similarity: Share
    max_extra_edits: Annotated[int, Field(ge=0, le=100)]
    min_overlap: Share
    entailment: str | None
    entailment_threshold: Share
    grammar: str | None
    grammar_threshold: Share
    price_per_mtok_in: Price
    price_per_mtok_out: Price
    max_requests: Positive | None
    max_total_tokens: Annotated[int, Field(gt=0, le=10**15)] | None
    max_cost: Annotated[float, Field(gt=0, le=1e9)] | None


class TrainWriter(Section):
    """Stage ``train_writer``: the small language model that writes captions of the world."""

    seed: Seed
    steps: Positive
    batch_size: Positive
    lr: LearningRate
    warmup_steps: Count
    hidden_size: Annotated[Positive, Field(multiple_of=32)]
    num_layers: Several
    checkpoint_every: Positive


class Negatives(Section):
    """Stage ``negatives``: hard negatives and paraphrases."""

    backend: str
    paraphrases: str | None
    seed: Seed
    max_attempts: Positive
    spacy_model: str | None
    language_model: LanguageModel


class Scores(Section):
    """Stage ``scores``: blind text scorers."""

    scorers: Annotated[tuple[str, ...], Distinct] = Field(min_length=2)
    folds: Several
    seed: Seed


class Refine(Section):
    """Stage ``refine``: adversarial refinement over blind scorers."""

    scorers: Annotated[tuple[str, ...], Distinct] = Field(min_length=1)
    cell: float = Field(ge=1e-6, le=1)
    within: Literal["subtype", "all"]
    exempt: tuple[Type, ...]
    seed: Seed


class SelectNegatives(Section):
    """Stage ``select_negatives``: the best negatives by blind scorers."""

    scorers: Annotated[tuple[str, ...], Distinct] = Field(min_length=1)
    similarity: str | None
    percentile: Annotated[float, Field(ge=0, le=100)]
    cell: float = Field(ge=1e-6, le=1)
    within: Literal["subtype", "all"]
    seed: Seed


class ValidateCaptions(Section):
    """Stage ``validate_captions``."""

    min_pairs: Positive
    blind_tolerance: Share
    acceptance: Acceptance
    blind_exempt: tuple[Type, ...]
