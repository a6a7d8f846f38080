"""``work/timings.jsonl``: one line for each run of a stage that ended well."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from caramel.running.work_folder import TIMINGS
from caramel.storage.plain_files import read_plain


class Timing(BaseModel):
    """One line."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: str
    profile: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]  # wall time, imports included
    peak_mb: Annotated[int, Field(ge=0)]  # MiB of memory of the process and all that it started
    # Seconds since 1970 at which the stage began; lines of older versions have none.
    began: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


def last_run(stage: str, profile: str) -> date | None:
    """Return the day (UTC) on which a stage last began here for a profile; None where nothing says so.

    Outputs that DVC fetched or took from its cache leave no line.
    """
    lines = read_plain(TIMINGS).decode(errors="replace").splitlines() if TIMINGS.exists() else []
    for line in reversed(lines):
        try:
            row = Timing.model_validate_json(line)
        except ValidationError:  # cut off when the machine went down; `caramel timings` says so
            continue
        if (row.stage, row.profile) == (stage, profile):
            return None if row.began is None else datetime.fromtimestamp(row.began, UTC).date()
    return None
