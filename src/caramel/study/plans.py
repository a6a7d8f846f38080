"""A plan: which comparison is confirmatory, fixed in a file with a date before the runs that test it.

A comparison is confirmatory if a plan names it, the run began after the plan's date, and the run's scenes are none of
those whose figures were known by then. Anything else is exploratory, however it is called (Nosek et al. 2018, The
preregistration revolution). The file's SHA-256 is shown beside the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from caramel.config import Contrast
from caramel.errors import ConfigError, shown
from caramel.storage.plain_files import read_plain
from caramel.storage.plain_yaml import read_yaml

CURE = "Set report.plan to the file of a plan, or to null."


def _parse_date(value: Any) -> Any:
    """Return a date of text as in "2026-11-22": a params file has no dates but as text."""
    if isinstance(value, str):
        return date.fromisoformat(value)
    return value


class Plan(BaseModel):
    """What the file of a plan holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[date, BeforeValidator(_parse_date)]
    comparison: Contrast
    rule: str
    used_seeds: tuple[int, ...]  # ``scenes.seed`` of runs whose figures were known before the date


class Registration(NamedTuple):
    """Whether a result is confirmatory by a plan, and why, in a sentence."""

    confirmatory: bool
    reason: str


def read_plan(path: Path) -> Plan:
    """Return a plan.

    Raises:
        ConfigError: the file is missing, is not plain YAML, or has wrong entries.
    """
    try:
        return Plan.model_validate(read_yaml(path, CURE))
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}, not {e['input']!r:.80}" for e in error.errors()
        ]
    raise ConfigError(f"{path} is not a plan; {len(problems)} wrong entries:\n{shown(problems)}\n{CURE}")


def hash_plan(path: Path) -> str:
    """Return the SHA-256 of a plan's file."""
    return hashlib.sha256(read_plain(path)).hexdigest()


def check_registration(
    path: Path | None, contrast: Contrast, seeds: Sequence[int], began: date | None
) -> Registration:
    """Return whether a result of a contrast is confirmatory.

    Args:
        path: file of the plan; None: there is none.
        contrast: the comparison.
        seeds: ``scenes.seed`` of the run, or of each draw of a study: what else is drawn is within these scenes.
        began: day on which the run began; None: not known.

    Raises:
        ConfigError: the file is no plan.
    """
    if path is None:
        return Registration(False, "Exploratory: no plan (report.plan) names this comparison.")
    plan, digest = read_plan(path), hash_plan(path)[:12]
    named = f"{path} (SHA-256 {digest}…, fixed on {plan.date})"
    if plan.comparison != contrast:
        return Registration(False, f"Exploratory: {named} names another comparison than report.contrast.")
    if shared := sorted({*seeds} & {*plan.used_seeds}):
        return Registration(
            False,
            f"Exploratory: {named} names this comparison, but its figures had been published before that date on scenes "
            f"that this run has again (scenes.seed {', '.join(map(str, shared))}).",
        )
    if began is None:
        return Registration(
            False, f"Exploratory: nothing here says when the run began, so not whether {named} came first."
        )
    if began <= plan.date:
        return Registration(False, f"Exploratory: the run began on {began}, no later than the plan {named}.")
    return Registration(
        True,
        f"Confirmatory: {named} named this comparison; the run began on {began} and shares no scenes with earlier ones. "
        f"Rule: {plan.rule}.",
    )
