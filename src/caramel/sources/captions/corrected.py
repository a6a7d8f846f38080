"""Paraphrases that people corrected: SugarCrepe++ (2.1) has two experts, and a third view of what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pandas as pd

from caramel.annotation.agreement.decision_files import find_outdated, read_decisions
from caramel.annotation.content import hash_judged
from caramel.errors import DataError, format_items
from caramel.interfaces.writer import WrittenCaption
from caramel.io.validators import format_value
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS

NAME = "people"
SKIPPED, NO_DRAFT = "people skipped the paraphrase", "people were given no paraphrase to correct"


def read_corrected_paraphrases(pairs: pd.DataFrame, *, annotations: str, **unused: object) -> WrittenCaption:
    """Return the corrected paraphrase of each pair; there are no negatives.

    A pair whose paraphrase people skipped is a reject with their reasons as text, and so is a pair that was in no task:
    its first writer wrote no paraphrase that people could correct, or it was not sampled.

    Args:
        pairs: table ``pairs``.
        annotations: folder with people's decisions of task ``correct``.
        unused: arguments of other backends.

    Raises:
        DataError: a paraphrase has no answer or too few, experts corrected it differently, the caption was another one, or
            no pair is decided.
    """
    decisions = read_decisions(annotations, "correct")
    contents = {name: hash_judged([caption]) for name, caption in pairs[["pair_id", "caption"]].to_numpy()}
    outdated = find_outdated(decisions, contents)
    by_pair = decisions.set_index("item_id").reindex(pairs["pair_id"])
    is_open = by_pair["votes"].notna() & by_pair["decision"].isna() & by_pair["skipped"].isna()
    current = by_pair[is_open & ~by_pair.index.isin(outdated)]
    _require_decisions(len(pairs), outdated, current["votes"].map(lambda votes: len(json.loads(votes))))
    decided = by_pair[by_pair["decision"].notna()]
    if decided.empty:
        raise DataError(
            f"People have corrected the paraphrase of none of {len(pairs)} pairs. Make items with `caramel annotate make "
            "correct`, have them answered, and run `caramel annotate decide`."
        )
    paraphrases = [
        {"pair_id": pair_id, "caption2": caption, "generator": NAME, "attempts": 1}
        for pair_id, caption in decided["decision"].items()
    ]
    rejects = [
        {
            "id": f"{pair_id}:paraphrase",
            "stage": "negatives",
            "reason": SKIPPED if isinstance(skipped, str) else NO_DRAFT,
            "text": skipped if isinstance(skipped, str) else None,
        }
        for pair_id, skipped in by_pair.loc[by_pair["decision"].isna(), "skipped"].items()
    ]
    return WrittenCaption(
        build_frame(NEGATIVES, []), build_frame(PARAPHRASES, paraphrases), build_frame(REJECTS, rejects)
    )


def _require_decisions(number: int, outdated: list[str], texts: pd.Series[int]) -> None:
    """Raise a DataError for pairs whose decision is on another caption, or that are undecided.

    Args:
        number: number of all pairs.
        outdated: pairs that were corrected for another caption.
        texts: number of different texts of each other undecided pair, by pair_id.
    """
    answer = (
        "Have them answered with `caramel annotate`, and write the answers with `caramel annotate answers`."
    )
    problems: list[tuple[Iterable[str], str, str]] = [
        (
            outdated,
            "were corrected for another caption than the current one, and these decisions do not count",
            "Set negatives.paraphrases to a writer, run `dvc repro negatives`, and make items with `caramel annotate make "
            "correct`.",
        ),
        (texts.index[texts == 0], "have no answer", answer),
        (
            texts.index[texts == 1],
            "have fewer answers than --min-answers of `caramel annotate decide`",
            f"{answer} Or lower --min-answers.",
        ),
        (
            texts.index[texts > 1],
            "were corrected differently",
            "Make items of them with `caramel annotate make resolve`.",
        ),
    ]
    parts = [
        f"{len(names)} {what}:\n{format_items([format_value(name) for name in names])}\n{advice}"
        for names, what, advice in ((sorted(pairs), *how) for pairs, *how in problems)
        if names
    ]
    if parts:
        text = "\n".join(parts)
        raise DataError(
            f"People have not decided on the paraphrases of {len(outdated) + len(texts)} of {number} pairs. {text}\nThen run "
            "`caramel annotate decide`."
        )
