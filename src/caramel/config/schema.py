"""Read ``params.yaml`` into one frozen, typed object, with one class per stage.

The file is complete. Defaults are there and nowhere else.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from caramel.config.fields import Section
from caramel.config.renamed import RENAMED
from caramel.config.sections.annotation import Annotation
from caramel.config.sections.captions import (
    Negatives,
    Refine,
    Scenes,
    Scores,
    SelectNegatives,
    TrainWriter,
    ValidateCaptions,
)
from caramel.config.sections.crepe import Crepe
from caramel.config.sections.images import (
    Assemble,
    FilterImages,
    ImageScores,
    Synthesize,
    TrainGenerator,
    ValidateBenchmark,
)
from caramel.config.sections.results import Evaluate, Report, Run, Study
from caramel.config.sections.training import Finetune, FinetuneSugarcrepePp, Pretrain
from caramel.errors import ConfigError, format_items
from caramel.io.safe_yaml import read_yaml, refuse_secrets


class Config(Section):
    """The whole of ``params.yaml``."""

    profile: str
    run: Run
    annotation: Annotation
    scenes: Scenes
    train_writer: TrainWriter
    negatives: Negatives
    scores: Scores
    refine: Refine
    select_negatives: SelectNegatives | None
    validate_captions: ValidateCaptions
    train_generator: TrainGenerator
    pretrain: Pretrain
    synthesize: Synthesize
    filter_images: FilterImages
    assemble: Assemble
    image_scores: ImageScores
    validate_benchmark: ValidateBenchmark
    finetune: Finetune
    finetune_sugarcrepe_pp: FinetuneSugarcrepePp | None
    evaluate: Evaluate
    report: Report
    study: Study
    crepe: Crepe


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
    is_incomplete = any(problem.endswith(": missing") for problem in problems)
    raise ConfigError(
        f"{where} has {len(problems)} invalid entries:\n{format_items(problems, 20)}\n"
        f"Every key is explained in params/default.yaml."
        f"{' `caramel config use NAME` writes a complete params.yaml.' if is_incomplete else ''}"
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
