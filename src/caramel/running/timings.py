"""``work/timings.jsonl``: one line for each run of a stage that ended well."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Timing(BaseModel):
    """One line."""

    model_config = ConfigDict(strict=True, frozen=True)

    stage: str
    profile: str
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]  # wall time, imports included
    peak_mb: Annotated[int, Field(ge=0)]  # MiB of memory of the process and all that it started
