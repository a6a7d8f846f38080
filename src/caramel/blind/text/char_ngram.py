"""Blind scorer ``char_ngram``: how likely a text is as a true caption, by a language model of its signs."""

from __future__ import annotations

from collections.abc import Sequence

from caramel.blind.text.kneser_ney import score_by_likelihood
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Floats
from caramel.utils.resampling import CrossValidation

ORDER = 6


def score_with_char_ngrams(
    positives: Sequence[str],
    negatives: Sequence[str],
    cv: CrossValidation,
    *,
    corpus: Sequence[str] | None = None,
) -> tuple[Floats, Floats]:
    """Score texts by a modified Kneser–Ney model of six signs, case and space included.

    See ``kneser_ney.likelihoods``.
    """
    return score_by_likelihood(
        positives,
        negatives,
        cv,
        split=list,
        order=ORDER,
        corpus=corpus,
    )


CHAR_NGRAM = create_model_free_spec("char_ngram", "Kneser–Ney model of six signs", score_with_char_ngrams)
