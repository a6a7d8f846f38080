"""Count the corrections of paraphrases: how often a failed draft was sent back, and how often the answer passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

CORRECTION_COLUMNS = ("reason", "corrections", "accepted")


def count_corrections(drafts: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return, by what was wrong before, how many drafts corrected it and how many of these passed.

    Args:
        drafts: for each draft the reason against the one that it corrects ("" if it was written anew), and the
            reason against itself ("" if it passed).

    Returns:
        Columns ``CORRECTION_COLUMNS``, the most frequent reason first.
    """
    corrected = [(corrects, not reason) for corrects, reason in drafts if corrects]
    counts = Counter(corrects for corrects, _ in corrected)
    accepted = Counter(corrects for corrects, passed in corrected if passed)
    rows = [(reason, count, accepted[reason]) for reason, count in counts.most_common()]
    return pd.DataFrame(rows, columns=list(CORRECTION_COLUMNS))
