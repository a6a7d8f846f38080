"""Blind scorers that are surface rules: length, final punctuation, casing, digits, articles, rare words.

A rule measures one property of a text. The direction is learned: on each fold it is the one that is right
more often on the other folds. So a rule is a fair attacker whichever side an artifact favours, and it never
uses the rows that it is tested on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from caramel.blind.cross_validation import Fold, group_folds
from caramel.blind.scorers import (
    DECIMALS,
    ScoreRows,
    TextScorer,
    compute_percentile_ranks,
    deduplicate_texts,
)
from caramel.blind.text.ngram_counts import Terms
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import extract_words
from caramel.utils.text import tokenize_text as token_list

_ARTICLES = frozenset({"a", "an", "the"})


@dataclass(frozen=True)
class Rule:
    """A blind scorer that measures one property; see ``Scorer``.

    Attributes:
        measure: function that returns the property of a text, in [0, 1].
    """

    measure: Callable[[str], float]

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
    ) -> tuple[Floats, Floats]:
        """Return the property of both sides, reversed on the folds where the other folds favour the reverse."""
        parts = group_folds(cv)
        return orient_scores(self.measure_texts(positives, negatives), parts)

    def measure_texts(self, positives: Sequence[str], negatives: Sequence[str]) -> Floats:
        """Return the property of the positives and of the negatives, not reversed. (2, n)."""
        texts, sides = deduplicate_texts(positives, negatives)
        values: Floats = np.array([self.measure(text) for text in texts], dtype=float).round(DECIMALS)
        return values[sides]


def orient_scores(sides: Floats, parts: Sequence[Fold]) -> tuple[Floats, Floats]:
    """Return scores in [0, 1], (n,) and (n,), reversed (s to 1 − s) on folds whose training rows favour the reverse.

    Args:
        sides: (2, n) values of the positives and of the negatives.
        parts: the folds.
    """
    lead = np.sign(sides[0] - sides[1])
    turned = sides.copy()
    for here, learned in parts:
        if lead[learned].sum() < 0:
            turned[:, here] = 1 - sides[:, here]
    turned = turned.round(DECIMALS)
    return turned[0], turned[1]


def _compute_brevity(count: int, usual: int) -> float:
    """Return a number in (0, 1] that falls with the count and is one half at the usual count."""
    return 1 / (1 + count / usual)


def _score_open_end(text: str) -> float:
    end = text.rstrip()[-1:]
    return 0.0 if end == "." else 0.5 if end in ("!", "?") else 1.0


def _score_odd_casing(text: str) -> float:
    """Return k / (1 + k) for k odd letters: capital letters after the start, and a lowercase letter at the start."""
    start = text.lstrip()
    odd = sum(map(str.isupper, start[1:])) + start[:1].islower()
    return odd / (1 + odd)


def _score_digits(text: str) -> float:
    count = sum(map(str.isdigit, text))
    return count / (1 + count)


def _score_articles(text: str) -> float:
    """Return the share of articles among the words."""
    words = extract_words(text)
    return sum(word in _ARTICLES for word in words) / max(1, len(words))


length = Rule(lambda text: _compute_brevity(len(text.strip()), 100))
words = Rule(lambda text: _compute_brevity(len(extract_words(text)), 20))
tokens = Rule(lambda text: _compute_brevity(len(token_list(text)), 20))
final_punctuation = Rule(_score_open_end)
casing = Rule(_score_odd_casing)
digits = Rule(_score_digits)
articles = Rule(_score_articles)


def bind_words(positives: Sequence[str], negatives: Sequence[str]) -> ScoreRows:
    """Return a function that scores rows of texts by how common their words are; see ``TextScorer``.

    The property is the mean over words of ln(1 + the word's count in the texts of the other folds, true
    captions and negatives alike). It orders the texts of a fold. A score is the share of the fold's distinct
    texts with a lower value; texts with the same value count half.
    """
    texts, sides = deduplicate_texts(positives, negatives)
    terms = Terms.from_items(texts, extract_words)
    lengths = np.diff(terms.ends, prepend=0)
    owner = np.repeat(np.arange(len(texts)), lengths)

    def score_rows(rows: Ints, cv: CrossValidation) -> tuple[Floats, Floats]:
        parts, row_sides = group_folds(cv), sides[:, rows]
        scores = np.full(row_sides.shape, 0.5)
        for here, learned in parts:
            used = np.bincount(row_sides[:, learned].ravel(), minlength=len(texts))
            word_counts = np.bincount(terms.flat, used[owner], minlength=len(terms.names))
            totals = np.bincount(owner, np.log1p(word_counts)[terms.flat], minlength=len(texts))
            scored = np.unique(row_sides[:, here])
            mean = totals[scored] / np.maximum(lengths[scored], 1)
            scores[:, here] = compute_percentile_ranks(mean)[np.searchsorted(scored, row_sides[:, here])]
        return orient_scores(scores, parts)

    return score_rows


score_with_rare_words = TextScorer(bind_words)


LENGTH = create_model_free_spec("length", "number of characters", length)
WORDS = create_model_free_spec("words", "number of words", words)
TOKENS = create_model_free_spec("tokens", "number of words and punctuation marks", tokens)
FINAL_PUNCTUATION = create_model_free_spec("final_punctuation", "the last character", final_punctuation)
CASING = create_model_free_spec("casing", "capital letters in unusual positions", casing)
DIGITS = create_model_free_spec("digits", "number of digits", digits)
ARTICLES = create_model_free_spec("articles", "share of articles", articles)
RARE_WORDS = create_model_free_spec("rare_words", "how common the words are", score_with_rare_words)
