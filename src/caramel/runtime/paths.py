"""Paths in the project's ``work/``. Its files may be deleted, because they can be computed again."""

from __future__ import annotations

from pathlib import Path

WORK = Path("work")
LOCKS = WORK / "locks"
TIMINGS = WORK / "timings.jsonl"  # one line per ``timings.Timing``
SCORED = WORK / "scorers"  # cached results of the blind scorers' models
