"""Build items about texts: compare two negatives, correct a paraphrase, decide between two corrections.

Sources: SugarCrepe (Hsieh et al. 2023, E.2) for comparisons; SugarCrepe++ (Dumpala et al. 2024, 2.1) for corrections by
two experts and the resolution of what differs.
"""

from __future__ import annotations

import pandas as pd

from caramel.annotation.items import Item, Option, Question
from caramel.errors import DataError, format_items
from caramel.utils.hashing import compute_stable_keys


def build_compare_items(
    first: pd.DataFrame, second: pd.DataFrame, *, per_type: int | None = None, seed: int = 0
) -> list[Item]:
    """Return one item per pair of negatives of one caption and type: more plausible, more grammatical.

    Equal negatives are left out. If a caption has several negatives of a type, the first of each set by name counts.

    Args:
        first, second: id, caption, type, negative_caption.
        per_type: items to sample of each type; None takes all.

    Raises:
        DataError: the sets share no caption with negatives of one type, or an id contains `|`.
    """
    _check_separator([*first["id"], *second["id"]])
    one, two = (
        rows.sort_values("id").drop_duplicates(["caption", "type"]).set_index(["caption", "type"])
        for rows in (first, second)
    )
    both = one.join(two, how="inner", lsuffix="_a", rsuffix="_b")
    both = both[both["negative_caption_a"] != both["negative_caption_b"]].sort_values(["id_a", "id_b"])
    if both.empty:
        raise DataError(
            f"The two sets ({len(first)} and {len(second)} rows) have no differing negatives of one caption and type. "
            "Captions are compared letter by letter."
        )
    if per_type is not None:
        both = both.assign(key=compute_stable_keys(both["id_a"] + "|" + both["id_b"], seed)).sort_values(
            "key"
        )
        both = both.groupby("type").head(per_type).sort_values(["id_a", "id_b"])
    items = []
    for row in both.to_dict("records"):
        options = (Option("first", row["negative_caption_a"]), Option("second", row["negative_caption_b"]))
        questions = (
            Question("plausible", "Which caption is more plausible?", options),
            Question("grammatical", "Which caption is more grammatical?", options),
        )
        items.append(Item(f"{row['id_a']}|{row['id_b']}", questions))
    return items


def build_correct_items(paraphrases: pd.DataFrame, pairs: pd.DataFrame) -> list[Item]:
    """Return one item per paraphrase: its text, to be corrected beside the original caption."""
    captions = pairs.set_index("pair_id")["caption"]
    return [
        Item(
            row["pair_id"],
            (
                Question(
                    "text",
                    "Correct the second caption so that it says the same as the first.",
                    (Option("draft", row["caption2"]),),
                    caption=captions[row["pair_id"]],
                    editable=True,
                ),
            ),
        )
        for row in paraphrases.sort_values("pair_id").to_dict("records")
    ]


def build_resolve_items(corrections: pd.DataFrame, pairs: pd.DataFrame) -> list[Item]:
    """Return one item per paraphrase that two annotators corrected differently.

    Args:
        corrections: rows of table `annotations` of task `correct`; skipped rows are left out.

    Raises:
        DataError: no two corrections of a paraphrase differ, or a paraphrase is unknown.
    """
    captions = pairs.set_index("pair_id")["caption"]
    answered = corrections[corrections["answer"].notna()]
    if unknown := sorted(set(answered["item_id"]) - set(captions.index)):
        raise DataError(
            f"{len(unknown)} corrected paraphrases are not in the table of pairs:\n{format_items(unknown)}"
        )
    items = []
    for item_id, rows in answered.groupby("item_id", sort=True):
        texts = sorted(set(rows["answer"]))
        if len(texts) > 1:
            question = Question(
                "text",
                "Choose the better correction, and edit it if needed.",
                tuple(Option(str(number), text) for number, text in enumerate(texts)),
                caption=captions[str(item_id)],
                editable=True,
            )
            items.append(Item(str(item_id), (question,)))
    if not items:
        raise DataError(
            f"None of the {answered['item_id'].nunique()} corrected paraphrases has two different corrections: nothing is "
            "left to decide."
        )
    return items


def _check_separator(names: list[str]) -> None:
    if bad := sorted({name for name in names if "|" in name}):
        raise DataError(f"{len(bad)} ids contain `|`, which joins two ids. Rename them:\n{format_items(bad)}")
