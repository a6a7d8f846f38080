"""Paraphrases that people corrected: SugarCrepe++ (2.1) has two experts, and a third view of what differs."""

from __future__ import annotations

import pandas as pd

from caramel.annotation.agreement.decision_files import read_decisions
from caramel.errors import DataError, format_items
from caramel.interfaces.writer import WrittenCaption
from caramel.io.validators import format_value
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS

NAME = "people"


def read_corrected_paraphrases(pairs: pd.DataFrame, *, annotations: str, **unused: object) -> WrittenCaption:
    """Return the corrected paraphrase of each pair; there are no negatives.

    Args:
        pairs: table ``pairs``.
        annotations: folder with people's decisions of task ``correct``.
        unused: arguments of other backends.

    Raises:
        DataError: a pair has no decision, or its experts did not agree.
    """
    decisions = read_decisions(annotations, "correct").set_index("item_id")["decision"]
    captions = pairs["pair_id"].map(decisions)
    undecided = pairs.loc[captions.isna(), "pair_id"]
    if len(undecided):
        differing = int(undecided.isin(decisions.index).sum())
        raise DataError(
            f"People have not decided on the paraphrases of {len(undecided)} of {len(pairs)} pairs:\n"
            f"{format_items([format_value(name) for name in undecided])}\n{len(undecided) - differing} were not "
            f"corrected: make items with `caramel annotate make correct`. {differing} were corrected differently: make "
            f"items of them with `caramel annotate make resolve`. Then run `caramel annotate decide`."
        )
    rows = pd.DataFrame(
        {"pair_id": pairs["pair_id"], "caption2": captions, "generator": NAME, "attempts": 1}
    ).reset_index(drop=True)
    return WrittenCaption(
        build_frame(NEGATIVES, []), build_frame(PARAPHRASES, rows), build_frame(REJECTS, [])
    )
