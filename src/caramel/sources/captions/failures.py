"""Count why texts of a language model failed: rejected drafts, and texts without any accepted draft.

Failures of paraphrases are counted in the five classes of SugarCrepe++ (Dumpala et al. 2024, C.5). These rows
are always present, also with a count of 0.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from caramel.sources.captions.error_rates import CHANGED, PARAPHRASE
from caramel.sources.captions.llm.checks import CLASSES

FAILURE_COLUMNS = ("part", "reason", "drafts", "rejects")


def count_failures(verdicts: pd.DataFrame, rejects: pd.DataFrame) -> pd.DataFrame:
    """Return how often each part failed for each reason: ``FAILURE_COLUMNS``.

    Args:
        verdicts: table ``verdicts``.
        rejects: table ``rejects``, limited to the texts that the model was asked for.

    Returns:
        One row for each part (a subtype, or ``paraphrase``) and reason: the number of ``drafts`` rejected for
        the reason, and the number of texts that are rejects and whose last draft, if any, failed for it.
    """
    drafts, lost = (
        Counter(_list_part_reasons(rows)) for rows in (verdicts.dropna(subset=["reason"]), rejects)
    )
    always = [(PARAPHRASE, reason) for reason in CLASSES]
    records = [(*key, drafts[key], lost[key]) for key in dict.fromkeys([*always, *drafts, *lost])]
    order = {part: index for index, part in enumerate((*CHANGED, PARAPHRASE))}
    records.sort(key=lambda row: (order[row[0]], -row[2], -row[3], row[1]))
    return pd.DataFrame(records, columns=list(FAILURE_COLUMNS))


def _list_part_reasons(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the part and the reason of each row."""
    return [
        (name.rpartition(":")[2], reason) for name, reason in zip(rows["id"], rows["reason"], strict=True)
    ]
