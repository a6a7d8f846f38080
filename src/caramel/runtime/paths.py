"""Places in the project's ``work/``: what may be deleted, since it is made again."""

from __future__ import annotations

from pathlib import Path

WORK = Path("work")
LOCKS = WORK / "locks"
TIMINGS = WORK / "timings.jsonl"  # lines of ``timings.Timing``
SCORED = WORK / "scorers"  # what the models of blind scorers made of texts
