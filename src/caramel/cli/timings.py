"""Command ``timings``: print wall time and peak memory of each stage."""

from __future__ import annotations

import click

from caramel.cli.output import echo
from caramel.errors import DataError


@click.command("timings")
def print_timings() -> None:
    """Print wall time and peak memory of each stage's latest run.

    \b
    Example:
      caramel timings
    """
    from pydantic import ValidationError

    from caramel.io.regular_files import read_plain
    from caramel.runtime.paths import TIMINGS
    from caramel.runtime.timings import Timing

    if not TIMINGS.exists():
        raise DataError(f"No stage has run yet: {TIMINGS} is missing. Run `dvc repro`.")
    latest: dict[str, Timing] = {}
    damaged = 0
    for line in read_plain(TIMINGS).splitlines():
        try:
            row = Timing.model_validate_json(line)
        except ValidationError:
            damaged += 1
            continue
        latest.pop(row.stage, None)  # orders stages by their latest runs
        latest[row.stage] = row
    if damaged:
        echo(
            f"Skipped damaged lines of {TIMINGS}: {damaged}. They are cut off, or their time is missing or negative.",
            err=True,
        )
    if not latest:
        raise DataError(f"{TIMINGS} has no run of a stage. Run `dvc repro`.")
    echo(f"{'stage':24}{'profile':14}{'wall time':>12}{'peak memory':>14}")
    for row in latest.values():
        echo(f"{row.stage:24}{row.profile:14}{row.seconds:>10.1f} s{row.peak_mb:>11} MB")
    total = sum(row.seconds for row in latest.values())
    echo(f"{'total':38}{total:>10.1f} s{max(row.peak_mb for row in latest.values()):>11} MB")
