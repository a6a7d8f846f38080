"""Which texts of one split stand in another: by their words, and by what they say in whatever words."""

from __future__ import annotations

import pandas as pd

from caramel.sources.world.language import read
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES
from caramel.texts import same_words

CONTENT = frozenset((*NOUNS, *COLOURS, *SIZES))


def text_uses(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> pd.DataFrame:
    """Return one row per text of a pair, and where another split has it too.

    Args:
        pairs, negatives, paraphrases: tables of those names. What belongs to no pair is in no split, and left out.

    Returns:
        pair_id, used_in (its column), split, text; ``scene_known``: it is the world's; ``same_words_in``,
        ``same_meaning_in``: "SPLIT: TEXT" of the first in another split that is equal, null if none is. Words are equal
        up to case, space and punctuation. Meanings are known of sentences of the world on a scene of it.
    """
    sources = {"caption": pairs, "caption2": paraphrases, "negative_caption": negatives}
    uses = pd.concat(
        [
            rows[["pair_id", column]].rename(columns={column: "text"}).assign(used_in=column)
            for column, rows in sources.items()
        ],
        ignore_index=True,
    )
    of_pair = pairs.drop_duplicates("pair_id").set_index("pair_id")
    worlds = of_pair.index[of_pair["scene"].notna()]
    uses = uses.assign(
        split=uses["pair_id"].map(of_pair["split"]), scene_known=uses["pair_id"].isin(worlds)
    ).dropna(subset=["text", "split"])
    words = uses["text"].map(same_words)
    content = words.where(uses["scene_known"]).map(
        lambda said: " ".join(sorted(CONTENT.intersection(said.split()))), na_action="ignore"
    )
    # Reading is slow, and who says the same has the same words of content: most texts need not be read.
    read_these = uses["text"].where(elsewhere(uses, "text", content).notna())
    return uses.assign(
        same_words_in=elsewhere(uses, "text", words),
        same_meaning_in=elsewhere(uses, "text", read_these.map(meaning, na_action="ignore")),
    )


def meaning(text: str) -> str | None:
    """Return what a sentence of the world says, equal for equal meanings; None: it is no sentence of the world.

    That nothing else is there every caption says.
    """
    said = read(text)
    return None if said is None else repr(said.whole.canonical())


def elsewhere(uses: pd.DataFrame, column: str, keys: pd.Series) -> pd.Series:
    """Return "SPLIT: WHAT" of the first use in another split of what has an equal key, null where there is none.

    Args:
        uses: rows with ``split`` and what is used in it.
        column: what is used.
        keys: of each use; null is equal to nothing.
    """
    key, split = pd.factorize(keys)[0], pd.factorize(uses["split"])[0]
    of_key = pd.Series(split).groupby(key)
    # Of millions of texts few stand in two splits: only these are put together.
    met = (key >= 0) & (of_key.transform("min") != of_key.transform("max")).to_numpy()
    keyed = uses.loc[met, ["split", column]].assign(key=key[met]).rename_axis("use").reset_index()
    firsts = keyed[["key", "split", column]].drop_duplicates(["key", "split"])
    there = keyed[["use", "key", "split"]].merge(firsts, on="key", suffixes=("", "_there"))
    found = there[there["split"] != there["split_there"]].drop_duplicates("use")
    return (found["split_there"] + ": " + found[column]).set_axis(found["use"]).reindex(uses.index)
