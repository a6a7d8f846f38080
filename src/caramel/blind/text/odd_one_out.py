"""Which of three texts is the negative, for whoever sees all three: the task that caption, paraphrase and negative set.

The negative is made from the caption, word by word; the paraphrase is written anew. So two of the three stand close
together, and of these two the paraphrase tells apart which has what it says. That is learned here, with words
and all, as ``probe`` learns: a logistic regression on the terms of a text among its two companions.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from caramel.blind.cross_validation import score_out_of_fold
from caramel.blind.text.linear_probe import CAP, Items, fit_weights
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import tokenize_text

ODD = "odd_one_out"
COST = 0.1  # inverse strength of the L2 penalty
MOST = 4  # words that are counted one by one
Triple = tuple[str, str, str]  # a text and its two companions, these sorted


def build_triple(text: str, companion: str, other: str) -> Triple:
    """Return a text with those that it stands among; which of them is which is not said."""
    first, second = sorted((companion, other))
    return text, first, second


def score_triples(
    positives: Sequence[Triple],
    negatives: Sequence[Triple],
    cv: CrossValidation,
) -> tuple[Floats, Floats]:
    """Score each text by how it stands to both others of its row; see ``Scorer``, whose texts these are."""
    items = sorted({*positives, *negatives})
    number = {item: i for i, item in enumerate(items)}
    sides = np.array([[number[item] for item in side] for side in (positives, negatives)], dtype=np.int64)
    item_table = Items.from_values(items, [text for text, _, _ in items], sides)
    features = Terms.from_items(items, extract_triple_terms).count_terms(np.arange(len(items)))

    def fit_predict(learned: Ints, scored: Ints) -> Floats:
        scores: Floats = features[scored] @ fit_weights(features, learned, COST, cv.seed)
        return scores

    names = ["\n".join(item) for item in items]
    return score_out_of_fold(
        names,
        sides,
        cv,
        fit_predict,
        cap=CAP,
        texts=item_table.text,
    )


@functools.lru_cache(100_000)  # of a cross-validation within another each is asked for many times
def extract_triple_terms(item: Triple) -> list[str]:
    """Return what a text has, in words and in pairs of neighbouring words, that its companions have or lack, as terms.

    ``near`` is the companion with which it shares more words, ``far`` the other one.
    """
    text_tokens, *others = (tokenize_text(text) for text in item)
    near, far = sorted(others, key=lambda other: -_compute_overlap(text_tokens, other))
    terms = [
        f"{'closer' if _compute_jaccard(text_tokens, near) >= _compute_jaccard(near, far) else 'farther'} than both others"
    ]
    for size, of in (("words", list), ("pairs", lambda words: list(pairwise(words)))):
        text_counts, near_counts, far_counts = (Counter(of(words)) for words in (text_tokens, near, far))
        gained = (
            text_counts - near_counts
        ) & far_counts  # what sets it off from the near one, and the far one has as well
        lost = (near_counts - text_counts) & far_counts
        alone = text_counts - near_counts - far_counts
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


def _compute_overlap(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of words and pairs of neighbours that two texts have in common, in [0, 1]."""
    return _compute_jaccard(a, b) + _compute_jaccard(list(pairwise(a)), list(pairwise(b)))


def _compute_jaccard(a: Sequence[object], b: Sequence[object]) -> float:
    """Return how many items two sequences have in common, by how many there are in both. In [0, 1]."""
    one, two = Counter(a), Counter(b)
    return (one & two).total() / max(1, (one | two).total())


def _cap_count(count: int) -> int:
    return max(-MOST, min(MOST, count))
