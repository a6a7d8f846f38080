"""``params.yaml`` -> one frozen, typed object; one class per stage.

The file is complete: defaults live there and nowhere else. Profiles in ``params/`` hold what
differs from ``params/default.yaml``; ``caramel profile NAME`` writes the result.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from caramel.errors import ConfigError, shown

Split = Literal["train", "val", "test"]
Type = Literal["replace", "swap", "add"]
Variant = Literal["in_batch", "negative_texts", "negative_texts_images"]
Share = Field(ge=0, le=1)
Count = Annotated[int, Field(ge=0)]
Item = TypeVar("Item")


def _distinct(items: tuple[Item, ...]) -> tuple[Item, ...]:
    if len(set(items)) < len(items):
        raise ValueError("an entry stands twice")
    return items


Distinct = AfterValidator(_distinct)
Positive = Field(gt=0)


class Section(BaseModel):
    """Base of all sections: frozen, strict types, no unknown keys, no defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


class Run(Section):
    """How to run. Device and precision change trained weights in the last bits, the executor nothing."""

    executor: Literal["ray", "inline"]
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16"]


class Scenes(Section):
    """Stage ``scenes``: where pairs come from."""

    source: Literal["world", "files"]
    files: str
    seed: int
    train: int = Positive
    val: int = Positive
    test: int = Positive
    objects: tuple[Literal[1, 2, 3], ...] = Field(min_length=1)
    prior: float = Share
    held_out: tuple[float, float]

    @field_validator("held_out")
    @classmethod
    def _leave_some_to_train(cls, shares: tuple[float, float]) -> tuple[float, float]:
        if min(shares) < 0 or sum(shares) >= 1:
            raise ValueError("two shares of at least 0 that leave some images to train on")
        return shares


class Negatives(Section):
    """Stage ``negatives``: hard negatives and paraphrases."""

    backend: str
    seed: int
    attempts: int = Positive


class Scores(Section):
    """Stage ``scores``: blind text scorers."""

    scorers: Annotated[tuple[str, ...], Distinct] = Field(min_length=2)
    folds: int = Field(ge=2)
    seed: int


class Refine(Section):
    """Stage ``refine``: adversarial refinement over blind scorers."""

    scorers: Annotated[tuple[str, ...], Distinct] = Field(min_length=1)
    cell: float = Field(gt=0, le=1)
    within: Literal["subtype", "all"]
    exempt: tuple[Type, ...]
    seed: int


class ValidateCaptions(Section):
    """Stage ``validate_captions``."""

    min_pairs: int = Positive
    blind_tolerance: float = Share
    blind_exempt: tuple[Type, ...]


class TrainGenerator(Section):
    """Stage ``train_generator``: the text-to-image pipeline."""

    backend: str
    pretrained: str | None
    seed: int
    steps: int = Positive
    batch: int = Positive
    lr: float = Positive
    warmup: int = Field(ge=0)
    ema: float = Share
    patch: int = Positive
    width: int = Field(gt=0, multiple_of=64)
    layers: int = Positive
    drop_caption: float = Share
    checkpoint_every: int = Positive


class Pretrain(Section):
    """Stage ``pretrain``: the base CLIP."""

    backend: str
    pretrained: str | None
    model: str
    seed: int
    steps: int = Positive
    batch: int = Field(ge=2)
    lr: float = Positive
    warmup: int = Field(ge=0)
    weight_decay: float = Field(ge=0)
    checkpoint_every: int = Positive


class GenerationGrid(Section):
    """Settings of the generator that are tried."""

    guidance: Annotated[tuple[float, ...], Distinct] = Field(min_length=1)
    steps: Annotated[tuple[Annotated[int, Positive], ...], Distinct] = Field(min_length=1)


class Synthesize(Section):
    """Stage ``synthesize``: candidate images of the negative captions."""

    candidates: int = Positive
    seed: int
    shard: int = Positive
    per_subtype: Mapping[Split, Count]
    prompt_suffix: str
    size: int = Positive
    batch: int = Positive
    grid: GenerationGrid
    grid_captions: int = Positive


class FilterImages(Section):
    """Stage ``filter_images``: the best faithful candidate or none."""

    judge: str
    second_judge: str | None
    min_faithful: float = Share
    margin: float
    keep_ambiguous: tuple[Type, ...]


class ValidateBenchmark(Section):
    """Stage ``validate_benchmark``."""

    blind_tolerance: float = Share
    blind_exempt: tuple[Type, ...]
    max_subtype_share: float = Share


class Finetune(Section):
    """Stage ``finetune``: variants × seeds."""

    variants: Annotated[tuple[Variant, ...], Distinct] = Field(min_length=1)
    seeds: Annotated[tuple[int, ...], Distinct] = Field(min_length=1)
    steps: int = Positive
    batch: int = Field(ge=2)
    lr: float = Positive
    warmup: int = Field(ge=0)
    weight_decay: float = Field(ge=0)
    checkpoint_every: int = Positive


class Evaluate(Section):
    """Stage ``evaluate``: models × benchmarks."""

    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    data: str | None
    images: str | None
    split: Split
    batch: int = Positive
    bootstrap: int = Field(ge=100)
    seed: int


class Report(Section):
    """Stage ``report``."""

    examples: int = Positive


class Config(Section):
    """The whole of ``params.yaml``."""

    profile: str
    run: Run
    scenes: Scenes
    negatives: Negatives
    scores: Scores
    refine: Refine
    validate_captions: ValidateCaptions
    train_generator: TrainGenerator
    pretrain: Pretrain
    synthesize: Synthesize
    filter_images: FilterImages
    validate_benchmark: ValidateBenchmark
    finetune: Finetune
    evaluate: Evaluate
    report: Report


def parse(raw: Mapping[str, Any], where: str) -> Config:
    """Return the typed config.

    Raises:
        ConfigError: unknown or missing keys, wrong types or values; all of them in one message.
    """
    try:
        return Config.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        problems = [_problem(dict(e)) for e in error.errors()]
    except TypeError as error:
        problems = [str(error)]
    raise ConfigError(
        f"{where} has {len(problems)} wrong entries:\n{shown(problems, 20)}\n"
        f"Every key is explained in params/default.yaml."
    )


def _problem(error: dict[str, Any]) -> str:
    """Return one line for one pydantic error: key, value, what is wrong, nearest known key."""
    path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        section: Any = Config
        for part in path[:-1]:
            section = section.model_fields[part].annotation
        near = difflib.get_close_matches(path[-1], section.model_fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(section.model_fields)}"
        return f"{key}: unknown key; {hint}"
    if error["type"] == "missing":
        return f"{key}: missing"
    return f"{key} = {error['input']!r}: {error['msg']}"


def read_yaml(path: Path) -> Any:
    """Return a YAML 1.2 file as plain data.

    Raises:
        ConfigError: there is no such file, or it is not YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing. Run `caramel profile default`.") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error


def load(path: str | Path = "params.yaml") -> Config:
    """Return the config in a params file; see ``parse`` for errors."""
    raw = read_yaml(Path(path))
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must be a mapping of sections, not {type(raw).__name__}.")
    return parse(raw, str(path))


def write_profile(name: str, sets: Mapping[str, str], root: Path) -> Path:
    """Write ``params.yaml`` for a profile, keeping the comments of ``params/default.yaml``.

    Args:
        name: a file ``params/NAME.yaml``.
        sets: further values by dotted key, as YAML text.
        root: the project's folder.

    Raises:
        ConfigError: no such profile, or a key or value is wrong; the old file stays.
    """
    from ruamel.yaml import YAML

    choices = sorted(p.stem for p in (root / "params").glob("*.yaml"))
    if name not in choices:
        raise ConfigError(f"Unknown profile {name!r}. Choices: {', '.join(choices)}.")
    target, temporary = root / "params.yaml", root / f".params.yaml.{os.getpid()}"
    default = root / "params" / "default.yaml"
    if name == "default" and not sets:
        temporary.write_bytes(default.read_bytes())
    else:
        yaml = YAML()
        yaml.width = 120
        merged = yaml.load(default.read_text(encoding="utf-8"))
        _merge(merged, read_yaml(root / "params" / f"{name}.yaml"))
        for key, text in sets.items():
            nested: Any = _value(key, text)
            for part in reversed(key.split(".")):
                nested = {part: nested}
            _merge(merged, nested)
        with temporary.open("w", encoding="utf-8") as stream:
            yaml.dump(merged, stream)
    try:
        load(temporary)
        os.replace(temporary, target)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(temporary), f"profile {name!r}")) from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _value(key: str, text: str) -> Any:
    """Return a ``--set`` value, which is YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ConfigError(f"--set {key}={text!r} is not valid YAML: {error}") from error


def _merge(base: Any, changes: Mapping[str, Any]) -> None:
    """Merge nested changes into ``base`` in place, key by key."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            _merge(base[key], value)
        else:
            base[key] = value
