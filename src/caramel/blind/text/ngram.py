"""Blind scorer ``ngram``: how likely a text is as a true caption, by a trigram language model."""

from __future__ import annotations

from collections.abc import Sequence

from caramel.blind.text.kneser_ney import ORDER, score_by_likelihood
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import tokenize_text

DISCOUNT = 0.75  # the customary absolute discount


def score_with_ngrams(
    positives: Sequence[str],
    negatives: Sequence[str],
    cv: CrossValidation,
    *,
    corpus: Sequence[str] | None = None,
) -> tuple[Floats, Floats]:
    """Score texts by a trigram model of words with one discount; see ``kneser_ney.likelihoods``."""
    return score_by_likelihood(
        positives,
        negatives,
        cv,
        split=tokenize_text,
        order=ORDER,
        discounts=(DISCOUNT, DISCOUNT, DISCOUNT),
        corpus=corpus,
    )


NGRAM = create_model_free_spec("ngram", "trigram model of words, one discount", score_with_ngrams)
