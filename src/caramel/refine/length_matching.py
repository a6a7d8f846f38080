"""Compute differences in length, for length matching.

Length matching keeps as many pairs whose negative is longer by k words as
pairs whose negative is shorter by k words.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.utils.arrays import Ints
from caramel.utils.text import extract_words


def compute_length_gaps(rows: pd.DataFrame) -> Ints:
    """Return the number of words of the true caption minus that of the negative. (n,).

    If a row has a paraphrase, the mean number of words of caption and paraphrase is used. The difference is rounded
    half to even.
    """
    first, negative = (_count_words(rows[c]) for c in ("caption", "negative_caption"))
    second = np.where(rows["caption2"].notna(), _count_words(rows["caption2"].fillna("")), first)
    return np.rint((first + second) / 2 - negative).astype(np.int64)


def _count_words(texts: pd.Series[str]) -> Ints:
    return np.array([len(extract_words(text)) for text in texts], dtype=np.int64)
