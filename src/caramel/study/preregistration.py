"""Check a result against a plan: a file that fixes the confirmatory comparison before the runs that test it.

A comparison is confirmatory if all of these hold:

- a plan names it;
- the run began after the plan's time;
- the run's scenes are those in the plan, and none had known metrics by then;
- its code and settings are the plan's.

Everything else is exploratory, whatever it is called (Nosek et al. 2018, The preregistration revolution). The
file's SHA-256 is shown beside the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from caramel.config.sections.results import PrimaryComparison
from caramel.errors import ConfigError, format_items
from caramel.io.regular_files import read_plain
from caramel.io.safe_yaml import read_yaml

CURE = "Set report.plan to the file of a plan, or to null."


def _parse_time(value: Any) -> Any:
    """Return the time (UTC) of "2026-11-22 14:30", or the end of the day of "2026-11-22"."""
    if not isinstance(value, str):
        return value
    parsed = datetime.fromisoformat(value)
    if len(value) == len("2026-11-22"):
        parsed = parsed.replace(hour=23, minute=59, second=59)
    return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)


class Plan(BaseModel):
    """The content of a plan's file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: Annotated[datetime, BeforeValidator(_parse_time)]
    comparison: PrimaryComparison
    rule: str
    used_seeds: tuple[int, ...]  # ``scenes.seed`` of runs whose metrics were known before the date
    draws: Annotated[tuple[int, ...], Field(min_length=1)] | None = (
        None  # scene seeds of the runs that test it; None: any others
    )
    code: str | None = None  # ``code_hash.hash_fixed`` of the sources and settings that test it; None: any


class Registration(NamedTuple):
    """Whether a result is confirmatory under a plan, with the reason in one sentence."""

    confirmatory: bool
    reason: str


class RunFacts(NamedTuple):
    """Facts about the runs behind a comparison.

    Attributes:
        seeds: ``scenes.seed`` of the run, or of each draw of a study; all other draws are nested in these
        scenes.
        began: start time (UTC) of the run; None: unknown.
        code: ``code_hash.hash_fixed`` of its sources and settings; None: unknown.
    """

    seeds: Sequence[int]
    began: datetime | None
    code: str | None = None


def read_plan(path: Path) -> Plan:
    """Read a plan.

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
    """Return whether the result of a comparison is confirmatory.

    Args:
        path: file of the plan; None: there is none.
        primary_comparison: the comparison.
        ran: the runs behind it.

    Raises:
        ConfigError: the file is not a plan.
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
    """Return how a result departs from the plan; "" if it does not."""
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
        return f"the start time of the run is unknown, so whether {label} came first is unknown too."
    if ran.began <= plan.date:
        return f"the run began on {ran.began:%Y-%m-%d %H:%M} UTC, no later than the plan {label}."
    if plan.code is not None and ran.code != plan.code:
        return f"{label} fixes sources and settings ({plan.code[:12]}…), and the run's are {_format_code(ran.code)}."
    return ""


def _format_code(code: str | None) -> str:
    return "not known" if code is None else f"others ({code[:12]}…)"
