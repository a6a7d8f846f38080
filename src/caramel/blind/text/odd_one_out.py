"""Score which of caption, paraphrase and negative is the negative, for an attacker that sees all three together.

The negative is the caption with some words edited; the paraphrase is worded differently. So caption and
negative are close to each other, and the paraphrase shows which of the two agrees with it. The attacker
trains as ``probe`` does: a logistic regression on terms that compare a text with its two companions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from caramel.blind.cross_validation import score_out_of_fold
from caramel.blind.scorers import ScoreRows, TextScorer
from caramel.blind.text.linear_probe import CAP, Items, fit_weights
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import tokenize_text

ODD = "odd_one_out"
COST = 0.1  # inverse strength of the L2 penalty
MOST = 4  # counts of words are capped at this
Triple = tuple[str, str, str]  # a text and its two companions; the companions are sorted


def build_triple(text: str, companion: str, other: str) -> Triple:
    """Return a text with its two companions, sorted so that their order does not reveal their roles."""
    first, second = sorted((companion, other))
    return text, first, second


def bind_triples(positives: Sequence[Triple], negatives: Sequence[Triple]) -> ScoreRows:
    """Return a function that scores each text by how it relates to both other texts of its row; see ``TextScorer``."""
    items = sorted({*positives, *negatives})
    number = {item: i for i, item in enumerate(items)}
    sides = np.array([[number[item] for item in side] for side in (positives, negatives)], dtype=np.int64)
    item_table = Items.from_values(items, [text for text, _, _ in items], sides)
    features = Terms.from_items(items, extract_triple_terms).count_terms(np.arange(len(items)))
    names = ["\n".join(item) for item in items]

    def score_rows(rows: Ints, cv: CrossValidation) -> tuple[Floats, Floats]:
        def fit_predict(learned: Ints, scored: Ints) -> Floats:
            scores: Floats = features[scored] @ fit_weights(features, learned, COST, cv.seed)
            return scores

        return score_out_of_fold(names, sides[:, rows], cv, fit_predict, cap=CAP, texts=item_table.text)

    return score_rows


score_triples = TextScorer(bind_triples)


def extract_triple_terms(item: Triple) -> list[str]:
    """Return terms that compare the words and word bigrams of a text with those of its companions.

    ``near`` is the companion that shares more words and bigrams with the text, ``far`` the other companion.
    """
    text, *others = (_count_tokens(part) for part in item)
    # The sums of the Jaccard similarities of words and of bigrams, in [0, 2].
    near, far = sorted(others, key=lambda other: -sum(map(_compute_jaccard, text, other)))
    is_closer = _compute_jaccard(text[0], near[0]) >= _compute_jaccard(near[0], far[0])
    terms = [f"{'closer' if is_closer else 'farther'} than both others"]
    for size, text_counts, near_counts, far_counts in zip(("words", "pairs"), text, near, far, strict=True):
        beyond_near = text_counts - near_counts
        # in the text and in the far companion, but not in the near one
        gained = beyond_near & far_counts
        lost = (near_counts - text_counts) & far_counts
        alone = beyond_near - far_counts
        terms += [
            f"{size} backed {_cap_count(gained.total())}",
            f"{size} unbacked {_cap_count(lost.total())}",
            f"{size} backed less unbacked {_cap_count(gained.total() - lost.total())}",
            f"{size} alone {_cap_count(alone.total())}",
            f"{size} lacking {_cap_count(((near_counts & far_counts) - text_counts).total())}",
        ]
        if size == "words":
            terms += [f"alone: {word}" for word in alone]
    return terms


def _count_tokens(text: str) -> tuple[Counter[Any], Counter[Any]]:
    """Return the counts of a text's words and of its word bigrams."""
    tokens = tokenize_text(text)
    return Counter(tokens), Counter(pairwise(tokens))


def _compute_jaccard(one: Counter[Any], two: Counter[Any]) -> float:
    """Return the Jaccard similarity of two multisets, in [0, 1]."""
    shared = sum(min(count, two[term]) for term, count in one.items() if term in two)
    return shared / max(1, one.total() + two.total() - shared)


def _cap_count(count: int) -> int:
    return max(-MOST, min(MOST, count))
