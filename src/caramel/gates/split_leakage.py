"""Which texts of one split stand in another: by their words, and by what they say in whatever words."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES
from caramel.utils.arrays import Ints, factorize_texts, find_indices
from caramel.utils.text import extract_words, normalise_text

CONTENT = frozenset((*NOUNS, *COLOURS, *SIZES))
NOWHERE = -1  # key of what is equal to nothing


def list_text_uses(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> pd.DataFrame:
    """Return one row per text of a pair, and where another split has it too.

    Args:
        pairs, negatives, paraphrases: tables of those names. What belongs to no pair is in no split, and left out.

    Returns:
        pair_id, used_in (its column), split, text; ``scene_known``: it is the world's; ``same_words_in``,
        ``same_meaning_in``: "SPLIT: TEXT" of the first in another split that is equal, null if none is. Words are equal
        up to case, space and punctuation. Meanings are known of sentences of the world on a scene of it.
    """
    sources = {"caption": pairs, "caption2": paraphrases, "negative_caption": negatives}
    known = pairs.drop_duplicates("pair_id")
    split = pd.Categorical(known["split"])
    of_world = known["scene"].notna().to_numpy()
    names, parts = known["pair_id"].to_numpy(object), []
    for column, rows in sources.items():
        at = find_indices(rows["pair_id"], known["pair_id"])
        inside, at = at >= 0, at[at >= 0]
        # As Python's texts: a copy of a row is a few bytes then, and Great Expectations makes many.
        texts = rows[column].to_numpy(object)[inside]
        used = {"pair_id": names[at], "text": texts, "split": split[at], "scene_known": of_world[at]}
        parts.append(pd.DataFrame(used).astype({"pair_id": object, "text": object}))
    uses = pd.concat(parts, ignore_index=True)
    origin = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    used_in = pd.Categorical.from_codes(origin, pd.Index(list(sources)))
    uses.insert(2, "used_in", pd.Series(used_in))
    uses = uses.dropna(subset=["text", "split"])
    scene, use_texts = uses["scene_known"].to_numpy(dtype=bool), uses["text"]
    content = np.full(len(uses), NOWHERE)
    content[scene] = factorize_texts(map(extract_content_words, use_texts[scene]))
    # Reading is slow, and who says the same has the same words of content: most texts need not be read.
    read_these = find_in_other_split(uses, "text", content).notna().to_numpy()
    meanings = np.full(len(uses), NOWHERE)
    meanings[read_these] = pd.factorize(use_texts[read_these].map(parse_meaning))[0]
    return uses.assign(
        same_words_in=find_in_other_split(uses, "text", factorize_texts(map(normalise_text, use_texts))),
        same_meaning_in=find_in_other_split(uses, "text", meanings),
    )


def extract_content_words(text: str) -> str:
    """Return the nouns, colours and sizes of a text."""
    return " ".join(sorted(CONTENT.intersection(extract_words(text))))


def parse_meaning(text: str) -> str | None:
    """Return what a sentence of the world says, equal for equal meanings; None: it is no sentence of the world.

    That nothing else is there every caption says.
    """
    parsed = parse_caption(text)
    return None if parsed is None else repr(parsed.whole.canonicalise())


def find_in_other_split(uses: pd.DataFrame, column: str, key: Ints) -> pd.Series:
    """Return "SPLIT: WHAT" of the first use in another split of what has an equal key, null where there is none.

    Args:
        uses: n rows with ``split`` and what is used in it.
        column: what is used.
        key: (n,) of each use; ``NOWHERE`` is equal to nothing.
    """
    of_key = pd.Series(pd.factorize(uses["split"])[0]).groupby(key)
    # Of millions of texts few stand in two splits: only these are put together.
    met = (key != NOWHERE) & (of_key.transform("min") != of_key.transform("max")).to_numpy()
    keyed = uses.loc[met, ["split", column]].assign(key=key[met]).rename_axis("use").reset_index()
    keyed["split"] = keyed["split"].astype("str")
    firsts = keyed[["key", "split", column]].drop_duplicates(["key", "split"])
    candidates = keyed[["use", "key", "split"]].merge(firsts, on="key", suffixes=("", "_there"))
    matches = candidates[candidates["split"] != candidates["split_there"]].drop_duplicates("use")
    labels: pd.Series = matches["split_there"] + ": " + matches[column]
    return labels.set_axis(matches["use"]).reindex(uses.index)
