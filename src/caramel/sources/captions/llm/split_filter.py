"""Reject texts of a language model that belong to another split: the model knows nothing of splits."""

from __future__ import annotations

import pandas as pd

from caramel.interfaces.writer import WrittenCaption
from caramel.sources.world.compounds import assign_split
from caramel.sources.world.grammar import parse_caption
from caramel.utils.text import normalise_text

ELSEWHERE = "its words stand in another split"


def filter_by_split(written: WrittenCaption, pairs: pd.DataFrame) -> WrittenCaption:
    """Return the captions without texts that may not be in their pair's split; those become rejects.

    A text is rejected in two cases:

    - It has the same words as a caption, or an earlier text, of another split.
    - The pair is of the world, where captions are split by their words, and the text's words belong to
      another split.

    Args:
        written: the captions that a writer returned.
        pairs: table ``pairs``.
    """
    split: dict[str, str] = dict(zip(pairs["pair_id"], pairs["split"], strict=True))
    of_world = dict(zip(pairs["pair_id"], pairs["scene"].notna(), strict=True))
    home: dict[str, str] = {}
    for pair_id, caption in zip(pairs["pair_id"], pairs["caption"], strict=True):
        home.setdefault(normalise_text(caption), split[pair_id])

    def is_in_split(pair_id: str, text: str) -> bool:
        reading = parse_caption(text) if of_world[pair_id] else None
        if reading is not None and assign_split(reading.whole.mentions) != split[pair_id]:
            return False
        return home.setdefault(normalise_text(text), split[pair_id]) == split[pair_id]

    def compute_split_mask(rows: pd.DataFrame, column: str) -> pd.Series:
        flags = [is_in_split(p, text) for p, text in zip(rows["pair_id"], rows[column], strict=True)]
        return pd.Series(flags, index=rows.index, dtype=bool)

    negatives, paraphrases = written.negatives, written.paraphrases
    masks = compute_split_mask(negatives, "negative_caption"), compute_split_mask(paraphrases, "caption2")
    gone = negatives[~masks[0]], paraphrases[~masks[1]]
    names = pd.concat([gone[0]["negative_id"], gone[1]["pair_id"] + ":paraphrase"])
    texts = pd.concat([gone[0]["negative_caption"], gone[1]["caption2"]])
    rejects = pd.DataFrame({"id": names, "stage": "negatives", "reason": ELSEWHERE, "text": texts})
    return written._replace(
        negatives=negatives[masks[0]].reset_index(drop=True),
        paraphrases=paraphrases[masks[1]].reset_index(drop=True),
        rejects=pd.concat([written.rejects, rejects], ignore_index=True),
    )
