"""Read ``work/timings.jsonl``, which has one line for each successful run of a stage."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from caramel.io.regular_files import read_plain
from caramel.runtime.paths import TIMINGS


class Timing(BaseModel):
    """One line."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: str
    profile: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]  # wall time, including imports
    peak_mb: Annotated[int, Field(ge=0)]  # MiB of memory of the stage's processes
    # Start of the stage in seconds since 1970; lines of older versions have none.
    began: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


def read_timings() -> list[Timing]:
    """Return the runs in ``work/timings.jsonl``, oldest first."""
    rows = []
    for line in read_plain(TIMINGS).decode(errors="replace").splitlines() if TIMINGS.exists() else []:
        with suppress(ValidationError):  # truncated by a crash of the machine; `caramel timings` reports it
            rows.append(Timing.model_validate_json(line))
    return rows


def get_last_seconds(profile: str) -> dict[str, float]:
    """Return the wall time of the last run here of each stage for a profile, in seconds."""
    return {row.stage: row.seconds for row in read_timings() if row.profile == profile}


def find_last_run(stage: str, profile: str) -> datetime | None:
    """Return when (UTC) a stage last began here for a profile; None if unknown.

    Outputs that DVC fetched or took from its cache leave no line.
    """
    for row in reversed(read_timings()):
        if (row.stage, row.profile) == (stage, profile):
            return None if row.began is None else datetime.fromtimestamp(row.began, UTC)
    return None
