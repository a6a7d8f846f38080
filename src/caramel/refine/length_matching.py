"""Length matching: as many pairs whose negative is longer by so many words as pairs where it is shorter by as many."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.utils.arrays import Ints
from caramel.utils.text import extract_words


def compute_length_gaps(rows: pd.DataFrame) -> Ints:
    """Return the words of the true caption less those of the negative. (n,).

    With a paraphrase the true caption's are the mean of both, rounded to the even side.
    """
    first, negative = (_count_words(rows[c]) for c in ("caption", "negative_caption"))
    second = np.where(rows["caption2"].notna(), _count_words(rows["caption2"].fillna("")), first)
    return np.rint((first + second) / 2 - negative).astype(np.int64)


def _count_words(texts: pd.Series[str]) -> Ints:
    return np.array([len(extract_words(text)) for text in texts], dtype=np.int64)
