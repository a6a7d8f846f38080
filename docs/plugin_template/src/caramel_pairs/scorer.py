"""A blind scorer: how common the first word of a text is among the true captions of the other folds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from caramel.blind.cross_validation import group_folds
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation


def score_first_words(
    positives: Sequence[str], negatives: Sequence[str], cv: CrossValidation
) -> tuple[Floats, Floats]:
    """Return the share of the other folds' true captions that begin with the same word; (n,) and (n,), in [0, 1]."""
    scores = np.zeros((2, len(positives)))
    for fold in group_folds(cv):
        first_words = Counter(
            positives[row].split()[0].lower() for row in np.flatnonzero(fold.train).tolist()
        )
        for row in np.flatnonzero(fold.test).tolist():
            for side, text in enumerate((positives[row], negatives[row])):
                scores[side, row] = first_words[text.split()[0].lower()] / first_words.total()
    return scores[0], scores[1]


FIRST_WORD = create_model_free_spec("first_word", "how common the first word is", score_first_words)
