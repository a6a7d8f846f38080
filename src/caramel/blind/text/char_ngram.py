"""Blind scorer ``char_ngram``: likelihood of a text under a Kneser–Ney model of order six over characters.

Case and spaces count.
"""

from __future__ import annotations

from caramel.blind.text.kneser_ney import LikelihoodScorer
from caramel.interfaces.scorer import create_model_free_spec

ORDER = 6

score_with_char_ngrams = LikelihoodScorer(list, ORDER)
CHAR_NGRAM = create_model_free_spec(
    "char_ngram", "Kneser–Ney model of six characters", score_with_char_ngrams
)
