"""Read ``params.yaml`` into one frozen, typed object, with one class per stage.

The file is complete. Defaults are there and nowhere else.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError, to_json

from caramel.config.renamed import RENAMED
from caramel.config.search_space import draw_points, merge_point
from caramel.errors import ConfigError, format_items
from caramel.io.safe_yaml import read_yaml, refuse_secrets
from caramel.registry import METHODS
from caramel.utils.acceptance import Acceptance

Split = Literal["train", "val", "test"]
Type = Literal["replace", "swap", "add", "only"]
Subtype = Literal[
    "replace_obj",
    "replace_att",
    "replace_rel",
    "swap_obj",
    "swap_att",
    "add_obj",
    "add_att",
    "only_obj",
]
Check = Literal[
    "statement",
    "complete",
    "single_sentence",
    "not_copy",
    "one_change",
    "edit_location",
    "subtype",
    "novel_word",
    "overlap",
    "grammar",
    "entailment",
    "meaning",
]
MOST = 2**31 - 1  # largest integer


def _check_gpu_count(number: float) -> float:
    """Refuse a number that Ray cannot assign: more than one GPU with a fraction."""
    if number > 1 and number != int(number):
        raise PydanticCustomError(
            "gpus", "a number of GPUs is whole, or less than one if several workers share a GPU"
        )
    return number


# scikit-learn accepts 32 bits, and some stages add a small number to their seed.
Seed = Annotated[int, Field(ge=0, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(gt=0, le=MOST)]
Several = Annotated[int, Field(ge=2, le=MOST)]
Nested = Annotated[int, Field(ge=1, le=9)]  # seeds of one type within one draw of the scenes
Share = Annotated[float, Field(ge=0, le=1)]
GpuShare = Annotated[float, Field(gt=0, le=MOST), AfterValidator(_check_gpu_count)]
LearningRate = Annotated[float, Field(gt=0, le=1)]
Guidance = Annotated[float, Field(ge=0, le=100)]
Decay = Annotated[float, Field(ge=0, lt=1)]
WeightDecay = Annotated[float, Field(ge=0, le=100)]
Weight = Annotated[float, Field(ge=0, le=1000)]
Price = Annotated[float, Field(ge=0, le=1e6)]
Item = TypeVar("Item")


def _check_distinct(items: tuple[Item, ...]) -> tuple[Item, ...]:
    if len(set(items)) < len(items):
        raise ValueError("duplicate entry")
    return items


Distinct = AfterValidator(_check_distinct)


def _check_method(name: str) -> str:
    """Return the name of a training method; an unknown name raises the same error as a ``Literal``."""
    if name not in METHODS:
        *others, last = map(repr, METHODS)
        choices = f"{', '.join(others)} or {last}"
        raise PydanticCustomError("literal_error", "Input should be {choices}", {"choices": choices})
    return name


Variant = Annotated[str, AfterValidator(_check_method)]


class Section(BaseModel):
    """Base of all sections: frozen, strict types, finite numbers, no unknown keys, no defaults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
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


class Scenes(Section):
    """Stage ``scenes``: where pairs come from."""

    source: Literal["world", "files"]
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
        if sum(shares) >= 1:
            raise ValueError("two shares that leave some images for training")
        return shares


class LanguageModel(Section):
    """How a language model is queried for captions, and when its text is accepted."""

    target: str | None
    paraphraser: str | None
    name: str | None
    replies: str
    subtypes: Annotated[int, Field(ge=1, le=7)]
    examples: Annotated[int, Field(ge=0, le=7)]
    response_schema: bool
    validate_texts: bool
    max_connections: Annotated[int, Field(ge=1, le=1024)]
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


class ValidateCaptions(Section):
    """Stage ``validate_captions``."""

    min_pairs: Positive
    blind_tolerance: Share
    acceptance: Acceptance
    blind_exempt: tuple[Type, ...]


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


class Pretrain(Section):
    """Stage ``pretrain``: the base CLIP."""

    backend: str
    pretrained: str | None
    model: str
    seed: Seed
    image_steps: Count
    steps: Positive
    batch_size: Several
    block_size: Positive
    lr: LearningRate
    warmup_steps: Count
    weight_decay: WeightDecay
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
    prompt_suffix: str
    image_size: Positive
    batch_size: Positive
    grid: GenerationGrid
    grid_captions: Positive


class FilterImages(Section):
    """Stage ``filter_images``: the best faithful candidate or none."""

    judge: str
    second_judge: str | None
    faithfulness_threshold: Share | None
    margin: Share
    keep_ambiguous: tuple[Type, ...]


class Assemble(Section):
    """Stage ``assemble``: the benchmark and the training set."""

    positives: Literal["source", "drawn"]


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


class Finetune(Section):
    """Stage ``finetune``: variants × seeds."""

    variants: Annotated[tuple[Variant, ...], Distinct] = Field(min_length=1)
    seeds: Annotated[tuple[Seed, ...], Distinct] = Field(min_length=1)
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
        if shared := sorted({"variants", "seeds", "overrides", "nproc", "search"} & set(settings)):
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


class Config(Section):
    """The whole of ``params.yaml``."""

    profile: str
    run: Run
    scenes: Scenes
    train_writer: TrainWriter
    negatives: Negatives
    scores: Scores
    refine: Refine
    validate_captions: ValidateCaptions
    train_generator: TrainGenerator
    pretrain: Pretrain
    synthesize: Synthesize
    filter_images: FilterImages
    assemble: Assemble
    image_scores: ImageScores
    validate_benchmark: ValidateBenchmark
    finetune: Finetune
    evaluate: Evaluate
    report: Report
    study: Study


def parse_config(raw: Mapping[str, Any], where: str) -> Config:
    """Return the typed config.

    Raises:
        ConfigError: keys are unknown or missing, or types or values are wrong (one message lists all of
            them), or a URL contains a password.
    """
    refuse_secrets(raw, where)
    try:
        return Config.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        problems = _list_problems([dict(e) for e in error.errors()])
    raise ConfigError(
        f"{where} has {len(problems)} invalid entries:\n{format_items(problems, 20)}\n"
        f"Every key is explained in params/default.yaml."
    )


def _list_problems(errors: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each error.

    If a key is missing because its old name is present, only the old one is reported.
    """
    keys = [".".join(map(str, error["loc"])) for error in errors]
    renamed = {RENAMED[key] for key in keys if key in RENAMED}
    return [
        _format_problem(error)
        for error, key in zip(errors, keys, strict=True)
        if not (error["type"] == "missing" and key in renamed)
    ]


def _format_problem(error: dict[str, Any]) -> str:
    """Return one line for one pydantic error: key, value, what is wrong, nearest known key."""
    path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        if new := RENAMED.get(key):
            return f"{key}: the key is now {new}; `caramel upgrade` rewrites params.yaml and params/"
        section: Any = Config
        for part in path[:-1]:
            section = section.model_fields[part].annotation
            section = next(
                (candidate for candidate in get_args(section) if hasattr(candidate, "model_fields")), section
            )
        near = difflib.get_close_matches(path[-1], section.model_fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(section.model_fields)}"
        return f"{key}: unknown key; {hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    return f"{key} = {error['input']!r:.200}: {error['msg']}"


def load_config(path: str | Path = "params.yaml") -> Config:
    """Return the config in a params file; errors as in ``parse_config``."""
    return parse_config(read_mapping(Path(path), "Run `caramel config use default`."), str(path))


def read_mapping(path: Path, cure: str) -> dict[str, Any]:
    """Return the content of a YAML file of sections.

    Raises:
        ConfigError: the file is missing (``cure`` says what to do) or not a mapping.
    """
    raw = read_yaml(path, cure)
    if not isinstance(raw, dict):
        problem = "is empty" if raw is None else f"is a {type(raw).__name__}"
        raise ConfigError(f"{path} {problem}, but must be a mapping of sections, as params/default.yaml is.")
    return raw
