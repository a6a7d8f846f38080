"""Find texts that occur in two splits, by their words and by their meaning."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES
from caramel.utils.arrays import Ints, factorize_texts, find_indices
from caramel.utils.text import extract_words, normalise_text

CONTENT = frozenset((*NOUNS, *COLOURS, *SIZES))
NOWHERE = -1  # key of a text that equals no other text


def list_text_uses(pairs: pd.DataFrame, negatives: pd.DataFrame, paraphrases: pd.DataFrame) -> pd.DataFrame:
    """Return one row per text of a pair, with its first duplicate in another split.

    Args:
        pairs, negatives, paraphrases: tables of those names. A text without a pair has no split and is left out.

    Returns:
        A table with these columns:

        - ``pair_id``, ``split``, ``text``, and ``used_in``: the text's column in its table;
        - ``scene_known``: whether the pair has a scene of the embedded world;
        - ``same_words_in``: "SPLIT: TEXT" of the first text in another split with equal words, null if there is
          none. Case, white space and punctuation do not count.
        - ``same_meaning_in``: the same for equal meanings. Only sentences of the world on a scene of the world
          have a known meaning.
    """
    sources = {"caption": pairs, "caption2": paraphrases, "negative_caption": negatives}
    known = pairs.drop_duplicates("pair_id")
    split = pd.Categorical(known["split"])
    of_world = known["scene"].notna().to_numpy()
    names, parts = known["pair_id"].to_numpy(object), []
    for column, rows in sources.items():
        at = find_indices(rows["pair_id"], known["pair_id"])
        inside, at = at >= 0, at[at >= 0]
        # Python strings: copying a row then takes a few bytes, and Great Expectations copies often.
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
    # Parsing is slow, and texts of equal meaning have equal content words: most texts need no parsing.
    read_these = find_in_other_split(uses, "text", content).notna().to_numpy()
    meanings = np.full(len(uses), NOWHERE)
    meanings[read_these] = pd.factorize(use_texts[read_these].map(parse_meaning))[0]
    return uses.assign(
        same_words_in=find_in_other_split(uses, "text", factorize_texts(map(normalise_text, use_texts))),
        same_meaning_in=find_in_other_split(uses, "text", meanings),
    )


def extract_content_words(text: str) -> str:
    """Return the nouns, colours and sizes of a text, sorted and joined by spaces."""
    return " ".join(sorted(CONTENT.intersection(extract_words(text))))


def parse_meaning(text: str) -> str | None:
    """Return the meaning of a sentence of the world, as a text that is equal for equal meanings.

    None: the text is not a sentence of the world. The meaning leaves out that nothing else is in the image, since
    every caption says so.
    """
    parsed = parse_caption(text)
    return None if parsed is None else repr(parsed.whole.canonicalise())


def find_in_other_split(uses: pd.DataFrame, column: str, key: Ints) -> pd.Series:
    """Return for each row "SPLIT: VALUE" of the first row of another split with an equal key, null if there is none.

    Args:
        uses: n rows with the columns ``split`` and ``column``.
        column: the column that gives VALUE.
        key: (n,) key of each row, an index as ``factorize_texts`` gives; ``NOWHERE`` equals no other key.
    """
    # Grouping millions of rows in pandas would take gigabytes. ``NOWHERE`` is the place behind all other keys.
    codes = pd.factorize(uses["split"])[0].astype(np.int16)
    lowest, highest = (np.full(key.max(initial=NOWHERE) + 2, fill, np.int16) for fill in (2**15 - 1, -1))
    np.minimum.at(lowest, key, codes)
    np.maximum.at(highest, key, codes)
    # Few of millions of texts occur in two splits: only these are merged.
    met = (key != NOWHERE) & (lowest != highest)[key]
    keyed = uses.loc[met, ["split", column]].assign(key=key[met]).rename_axis("use").reset_index()
    keyed["split"] = keyed["split"].astype("str")
    firsts = keyed[["key", "split", column]].drop_duplicates(["key", "split"])
    candidates = keyed[["use", "key", "split"]].merge(firsts, on="key", suffixes=("", "_there"))
    matches = candidates[candidates["split"] != candidates["split_there"]].drop_duplicates("use")
    labels: pd.Series = matches["split_there"] + ": " + matches[column]
    return labels.set_axis(matches["use"]).reindex(uses.index)
