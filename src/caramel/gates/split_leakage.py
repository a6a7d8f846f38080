"""Find texts that occur in two splits, by their words and by their meaning."""

from __future__ import annotations

from itertools import compress

import numpy as np
import pandas as pd

from caramel.schemas.stored import ColumnSource
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES
from caramel.utils.arrays import Bools, Ints, factorize_texts, find_indices, iter_texts
from caramel.utils.text import extract_words, normalise_text

CONTENT = frozenset((*NOUNS, *COLOURS, *SIZES))
NOWHERE = -1  # key of a text that equals no other text


def list_text_uses(pairs: ColumnSource, negatives: ColumnSource, paraphrases: ColumnSource) -> pd.DataFrame:
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
    parts = [rows[["pair_id", name]].set_axis(["pair_id", "text"], axis=1) for name, rows in sources.items()]
    uses = pd.concat(parts, ignore_index=True)
    origin = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    del parts
    known = pairs[["pair_id", "split", "scene"]]
    at, split = find_indices(uses["pair_id"], known["pair_id"]), pd.Categorical(known["split"])
    uses = uses.assign(
        used_in=pd.Categorical.from_codes(origin, pd.Index(list(sources))),
        split=pd.Categorical.from_codes(np.append(split.codes, -1)[at], split.categories),
        scene_known=np.append(known["scene"].notna(), False)[at],
    ).dropna(subset=["text", "split"])
    del at, known, origin, split
    scene = uses["scene_known"].to_numpy(dtype=bool)
    content = np.full(len(uses), NOWHERE)
    content[scene] = factorize_texts(map(extract_content_words, compress(iter_texts(uses["text"]), scene)))
    # Parsing is slow, and texts of equal meaning have equal content words: most texts need no parsing.
    read_these = _find_in_two_splits(uses["split"], content)
    meanings = np.full(len(uses), NOWHERE)
    meanings[read_these] = pd.factorize(uses["text"][read_these].map(parse_meaning))[0]
    return uses.assign(
        same_words_in=find_in_other_split(
            uses, "text", factorize_texts(map(normalise_text, iter_texts(uses["text"])))
        ),
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
    # Few of millions of texts occur in two splits: only these are merged.
    met = _find_in_two_splits(uses["split"], key)
    keyed = uses.loc[met, ["split", column]].assign(key=key[met]).rename_axis("use").reset_index()
    keyed["split"] = keyed["split"].astype("str")
    firsts = keyed[["key", "split", column]].drop_duplicates(["key", "split"])
    candidates = keyed[["use", "key", "split"]].merge(firsts, on="key", suffixes=("", "_there"))
    matches = candidates[candidates["split"] != candidates["split_there"]].drop_duplicates("use")
    labels: pd.Series = matches["split_there"] + ": " + matches[column]
    return labels.set_axis(matches["use"]).reindex(uses.index)


def _find_in_two_splits(splits: pd.Series, key: Ints) -> Bools:
    """Return whether a row of another split has an equal key, for each row. (n,)."""
    # Grouping millions of rows in pandas would take gigabytes. ``NOWHERE`` is the place behind all other keys.
    codes = pd.factorize(splits)[0].astype(np.int16)
    lowest, highest = (np.full(key.max(initial=NOWHERE) + 2, fill, np.int16) for fill in (2**15 - 1, -1))
    np.minimum.at(lowest, key, codes)
    np.maximum.at(highest, key, codes)
    in_two: Bools = (key != NOWHERE) & (lowest != highest)[key]
    return in_two
