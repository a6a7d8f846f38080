"""What a run of the tests left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def format_left_out(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return a line for each reason for which tests were skipped, the most frequent first; none where none was."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if isinstance(report.longrepr, tuple)
    )
    return [f"{count} left out: {reason}" for reason, count in reasons.most_common()]
