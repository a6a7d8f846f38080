"""Texts of a language model that stand in their pair's split: it knows nothing of splits, and writes what another one has."""

from __future__ import annotations

import pandas as pd

from caramel.interfaces.writer import Written
from caramel.sources.world.compounds import split_of
from caramel.sources.world.grammar import read
from caramel.utils.text import normalise_text

ELSEWHERE = "its words stand in another split"


def in_own_split(written: Written, pairs: pd.DataFrame) -> Written:
    """Return what was written without the texts that may not stand in their pair's split; these are rejects.

    Such are texts of the same words as a caption, or an earlier text, of another split; and of the world, where captions
    are split by their words, all that say words of another split.

    Args:
        written: what a writer returned.
        pairs: table ``pairs``.
    """
    split: dict[str, str] = dict(zip(pairs["pair_id"], pairs["split"], strict=True))
    of_world = dict(zip(pairs["pair_id"], pairs["scene"].notna(), strict=True))
    home: dict[str, str] = {}
    for pair_id, caption in zip(pairs["pair_id"], pairs["caption"], strict=True):
        home.setdefault(normalise_text(caption), split[pair_id])

    def stays(pair_id: str, text: str) -> bool:
        said = read(text) if of_world[pair_id] else None
        if said is not None and split_of(said.whole.mentions) != split[pair_id]:
            return False
        return home.setdefault(normalise_text(text), split[pair_id]) == split[pair_id]

    def staying(rows: pd.DataFrame, column: str) -> pd.Series:
        found = [stays(p, text) for p, text in zip(rows["pair_id"], rows[column], strict=True)]
        return pd.Series(found, index=rows.index, dtype=bool)

    negatives, paraphrases = written.negatives, written.paraphrases
    kept = staying(negatives, "negative_caption"), staying(paraphrases, "caption2")
    gone = negatives[~kept[0]], paraphrases[~kept[1]]
    names = pd.concat([gone[0]["negative_id"], gone[1]["pair_id"] + ":paraphrase"])
    texts = pd.concat([gone[0]["negative_caption"], gone[1]["caption2"]])
    rejects = pd.DataFrame({"id": names, "stage": "negatives", "reason": ELSEWHERE, "text": texts})
    return written._replace(
        negatives=negatives[kept[0]].reset_index(drop=True),
        paraphrases=paraphrases[kept[1]].reset_index(drop=True),
        rejects=pd.concat([written.rejects, rejects], ignore_index=True),
    )
