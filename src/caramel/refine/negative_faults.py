"""Find what is wrong with the text of a negative: a copy of its caption, a question, a fragment, or a duplicate."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd

from caramel.refine.adversarial import NO_WORDS, WORDLESS, Reasons, build_duplicate_mask, number_texts
from caramel.sources.captions.formatting import CLOSERS
from caramel.utils.arrays import Bools, iter_texts
from caramel.utils.text import normalise_text

MIN_SIMILARITY = 0.999  # least similarity of near copies
NEARBY = 1024  # captions whose words are remembered

QUESTION = "the negative is a question"
UNFINISHED = "the negative has no final stop"
TWICE = "the negative stands elsewhere already"


def find_text_faults(rows: pd.DataFrame) -> Reasons:
    """Return the fault of each row's negative, or ""; duplicates are checked last. (n,)."""
    (words,) = number_texts(rows["negative_caption"])
    written = zip(iter_texts(rows["negative_caption"]), (words != WORDLESS).tolist(), strict=True)
    faults: Reasons = np.fromiter((_find_fault(*one) for one in written), object, len(rows))
    good = np.flatnonzero(faults == "")
    faults[good[build_duplicate_mask(rows["pair_id"], good, words[good])]] = TWICE
    return faults


def _find_fault(text: str, has_words: bool) -> str:
    """Return the fault of a negative by itself, or ""."""
    end = text.rstrip().rstrip(CLOSERS)[-1:]
    if not has_words:
        return NO_WORDS
    if end == "?":
        return QUESTION
    return UNFINISHED if end != "." else ""


def build_near_copy_mask(captions: pd.Series[str], negatives: pd.Series[str]) -> Bools:
    """Return which negatives have nearly the words of their caption; without words they have not. (n,)."""
    from rapidfuzz.distance import Levenshtein

    def is_near_copy(caption: str, negative: str) -> bool:
        other = normalise_text(negative)
        return (
            bool(other)
            and Levenshtein.normalized_similarity(
                normalise_caption(caption), other, score_cutoff=MIN_SIMILARITY
            )
            >= MIN_SIMILARITY
        )

    normalise_caption = lru_cache(NEARBY)(normalise_text)  # the negatives of a caption are often neighbours
    return np.fromiter(
        map(is_near_copy, iter_texts(captions), iter_texts(negatives)), np.bool_, len(captions)
    )
