"""Blind scorer ``ngram``: likelihood of a text under a trigram model of words with one discount."""

from __future__ import annotations

from caramel.blind.text.kneser_ney import ORDER, LikelihoodScorer
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.text import tokenize_text

DISCOUNT = 0.75  # the customary absolute discount

score_with_ngrams = LikelihoodScorer(tokenize_text, ORDER, (DISCOUNT, DISCOUNT, DISCOUNT))
NGRAM = create_model_free_spec("ngram", "trigram model of words, one discount", score_with_ngrams)
