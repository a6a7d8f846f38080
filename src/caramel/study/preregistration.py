"""A plan: which comparison is confirmatory, fixed in a file with a time before the runs that test it.

A comparison is confirmatory if a plan names it, the run began after the plan's time, the run's scenes are those that the
plan names and none whose figures were known by then, and its code and settings are the plan's. Anything else is
exploratory, however it is called (Nosek et al. 2018, The preregistration revolution). The file's SHA-256 is shown beside
the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from caramel.config.schema import PrimaryComparison
from caramel.errors import ConfigError, format_items
from caramel.io.regular_files import read_plain
from caramel.io.safe_yaml import read_yaml

CURE = "Set report.plan to the file of a plan, or to null."


def _parse_time(value: Any) -> Any:
    """Return a time (UTC) of text as in "2026-11-22 14:30", or "2026-11-22" for the end of that day."""
    if not isinstance(value, str):
        return value
    parsed = datetime.fromisoformat(value)
    if len(value) == len("2026-11-22"):
        parsed = parsed.replace(hour=23, minute=59, second=59)
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


class Plan(BaseModel):
    """What the file of a plan holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[datetime, BeforeValidator(_parse_time)]
    comparison: PrimaryComparison
    rule: str
    used_seeds: tuple[int, ...]  # ``scenes.seed`` of runs whose figures were known before the date
    draws: Annotated[tuple[int, ...], Field(min_length=1)] | None = (
        None  # of the runs that test it; None: any others
    )
    code: str | None = None  # ``fixed.hash_fixed`` of sources and settings that test it; None: any


class Registration(NamedTuple):
    """Whether a result is confirmatory by a plan, and why, in a sentence."""

    confirmatory: bool
    reason: str


class RunFacts(NamedTuple):
    """What was run for a comparison.

    Attributes:
        seeds: ``scenes.seed`` of the run, or of each draw of a study: what else is drawn is within these scenes.
        began: time (UTC) at which the run began; None: not known.
        code: ``fixed.hash_fixed`` of its sources and settings; None: not known.
    """

    seeds: Sequence[int]
    began: datetime | None
    code: str | None = None


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
    raise ConfigError(
        f"{path} is not a plan; {len(problems)} wrong entries:\n{format_items(problems)}\n{CURE}"
    )


def hash_plan(path: Path) -> str:
    """Return the SHA-256 of a plan's file."""
    return hashlib.sha256(read_plain(path)).hexdigest()


def check_registration(
    path: Path | None, primary_comparison: PrimaryComparison, ran: RunFacts
) -> Registration:
    """Return whether a result of a contrast is confirmatory.

    Args:
        path: file of the plan; None: there is none.
        primary_comparison: the comparison.
        ran: what was run.

    Raises:
        ConfigError: the file is no plan.
    """
    if path is None:
        return Registration(False, "Exploratory: no plan (report.plan) names this comparison.")
    plan, digest = read_plan(path), hash_plan(path)[:12]
    label = f"{path} (SHA-256 {digest}…, fixed on {plan.date:%Y-%m-%d %H:%M} UTC)"
    why = _find_breach(plan, label, primary_comparison, ran)
    if why:
        return Registration(False, f"Exploratory: {why}")
    return Registration(
        True,
        f"Confirmatory: {label} named this comparison; the run began on {ran.began:%Y-%m-%d %H:%M} UTC and shares no scenes with "
        f"earlier ones. Rule: {plan.rule}.",
    )


def _find_breach(plan: Plan, label: str, primary_comparison: PrimaryComparison, ran: RunFacts) -> str:
    """Return in which way a result is not as the plan says; empty: in none."""
    if plan.comparison != primary_comparison:
        return f"{label} names another comparison than report.primary_comparison."
    if shared := sorted({*ran.seeds} & {*plan.used_seeds}):
        return (
            f"{label} names this comparison, but its figures had been published before that date on scenes "
            f"that this run has again (scenes.seed {', '.join(map(str, shared))})."
        )
    if plan.draws is not None and sorted(ran.seeds) != sorted(plan.draws):
        return (
            f"{label} tests this comparison on other scenes (scenes.seed {', '.join(map(str, plan.draws))})."
        )
    if ran.began is None:
        return f"nothing here says when the run began, so not whether {label} came first."
    if ran.began <= plan.date:
        return f"the run began on {ran.began:%Y-%m-%d %H:%M} UTC, no later than the plan {label}."
    if plan.code is not None and ran.code != plan.code:
        return f"{label} fixes sources and settings ({plan.code[:12]}…), and the run's are {_format_code(ran.code)}."
    return ""


def _format_code(code: str | None) -> str:
    return "not known" if code is None else f"others ({code[:12]}…)"
