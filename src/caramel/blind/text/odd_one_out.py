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

from caramel.blind.cross_validation import cross_fitted
from caramel.blind.text.linear_probe import CAP, Items, learn
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.text import tokens

ODD = "odd_one_out"
COST = 0.1  # inverse strength of the L2 penalty
MOST = 4  # words that are counted one by one
Among = tuple[str, str, str]  # a text and its two companions, these sorted


def among(text: str, companion: str, other: str) -> Among:
    """Return a text with those that it stands among; which of them is which is not said."""
    first, second = sorted((companion, other))
    return text, first, second


def odd_one_out(
    positives: Sequence[Among],
    negatives: Sequence[Among],
    groups: Sequence[str],
    *,
    folds: int,
    seed: int,
    taught: Bools | None = None,
) -> tuple[Floats, Floats]:
    """Score each text by how it stands to both others of its row; see ``Scorer``, whose texts these are."""
    items = sorted({*positives, *negatives})
    number = {item: i for i, item in enumerate(items)}
    sides = np.array([[number[item] for item in side] for side in (positives, negatives)], dtype=np.int64)
    places = Items.of(items, [text for text, _, _ in items], sides)
    features = Terms.of(items, terms_among).of_items(np.arange(len(items)))

    def values(learned: Ints, scored: Ints) -> Floats:
        found: Floats = features[scored] @ learn(features, learned, COST, seed)
        return found

    names = ["\n".join(item) for item in items]
    return cross_fitted(
        names,
        sides,
        groups,
        values,
        folds=folds,
        seed=seed,
        cap=CAP,
        texts=places.text,
        taught=taught,
    )


@functools.lru_cache(100_000)  # of a cross-validation within another each is asked for many times
def terms_among(item: Among) -> list[str]:
    """Return what a text has, in words and in pairs of neighbouring words, that its companions have or lack, as terms.

    ``near`` is the companion with which it shares more words, ``far`` the other one.
    """
    mine, *others = (tokens(text) for text in item)
    near, far = sorted(others, key=lambda other: -_shared(mine, other))
    found = [f"{'closer' if _likeness(mine, near) >= _likeness(near, far) else 'farther'} than both others"]
    for size, of in (("words", list), ("pairs", lambda words: list(pairwise(words)))):
        own, close, apart = (Counter(of(words)) for words in (mine, near, far))
        gained = (own - close) & apart  # what sets it off from the near one, and the far one has as well
        lost = (close - own) & apart
        alone = own - close - apart
        found += [
            f"{size} backed {_upto(gained.total())}",
            f"{size} unbacked {_upto(lost.total())}",
            f"{size} backed less unbacked {_upto(gained.total() - lost.total())}",
            f"{size} alone {_upto(alone.total())}",
            f"{size} lacking {_upto(((close & apart) - own).total())}",
        ]
        if size == "words":
            found += [f"alone: {word}" for word in alone]
    return found


def _shared(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of words and pairs of neighbours that two texts have in common, in [0, 1]."""
    return _likeness(a, b) + _likeness(list(pairwise(a)), list(pairwise(b)))


def _likeness(a: Sequence[object], b: Sequence[object]) -> float:
    """Return how many items two sequences have in common, by how many there are in both. In [0, 1]."""
    one, two = Counter(a), Counter(b)
    return (one & two).total() / max(1, (one | two).total())


def _upto(count: int) -> int:
    return max(-MOST, min(MOST, count))
