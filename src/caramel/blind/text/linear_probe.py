"""Blind scorers that are linear probes: logistic regressions trained to tell the true caption from the negative.

All train on the pairs of the other folds: P(the first text is true) = σ(w·x₁ − w·x₂), so that terms in both
captions cancel out. w·x orders the texts of a fold. A score is the share of the fold's distinct texts with a
lower w·x; texts with an equal w·x count half.

A pair is not trained on if either of its texts is scored in the fold, or if its image is scored in the fold.
With more than ``CAP`` training pairs, a fold trains on a random sample of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from caramel.blind.cross_validation import fit_sparse_pair_weights, score_out_of_fold
from caramel.blind.scorers import ScoreRows, TextScorer, deduplicate_texts
from caramel.blind.text.ngram_counts import Terms
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Floats, Ints
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import tokenize_text

CAP = 20_000  # maximum number of training pairs per fold; more make it slower and hardly stronger
COUNTED = 50_000  # items whose terms are counted at a time
COST = 1.0  # inverse strength of the L2 penalty, for words
SHRUNK_COST = 0.02  # for a few hundred rows, where individual words would overfit
CHAR_COST = 0.1  # for character n-grams, which are many and correlated
CHARS = (3, 4, 5)
TOLERANCE = 1e-3
START, END = "<s>", "</s>"


def bind_terms(
    positives: Sequence[str],
    negatives: Sequence[str],
    *,
    terms: Callable[[str], list[str]],
    cost: float,
) -> ScoreRows:
    """Return a function that scores rows of texts by a linear model of their term counts; see ``TextScorer``.

    Args:
        positives, negatives: see ``Scorer``.
        terms: returns the terms of a text.
        cost: inverse strength of the L2 penalty.
    """
    texts, sides = deduplicate_texts(positives, negatives)
    return _bind_items(Items.from_values(texts, texts, sides), terms, cost)


def bind_edits(positives: Sequence[str], negatives: Sequence[str]) -> ScoreRows:
    """Return a function that scores each text of a pair by where and how it differs from the other; see ``TextScorer``.

    Unlike a ``Scorer`` it sees both candidates, as anyone who takes the test does: a text's score depends on
    the other text of the pair. The position of the difference is the same for both texts, so it cannot tell
    them apart by itself. It counts together with the words at this position.
    """
    pairs = list(zip(positives, negatives, strict=True))
    items = sorted({*pairs, *((n, p) for p, n in pairs)})
    number = {item: i for i, item in enumerate(items)}
    sides = np.array([[number[p, n] for p, n in pairs], [number[n, p] for p, n in pairs]], dtype=np.int64)
    texts = [text for text, _ in items]
    return _bind_items(Items.from_values(items, texts, sides), extract_edits, COST)


@dataclass(frozen=True)
class Items:
    """The items that are scored: texts, or texts together with the other texts of their row.

    Attributes:
        values: the distinct items.
        text: (items,) index of the text of each item.
        sides: (2, n) indices of the true and of the false item of each pair.
    """

    values: Sequence[Any]
    text: Ints
    sides: Ints

    @classmethod
    def from_values(cls, values: Sequence[Any], texts: Sequence[str], sides: Ints) -> Items:
        """Return the items with the given texts; equal texts have the same index."""
        return cls(values, np.unique(np.array(texts, dtype=object), return_inverse=True)[1], sides)


def extract_words(text: str) -> list[str]:
    """Return the words of a text, its word bigrams and its length, as terms."""
    words = [START, *tokenize_text(text), END]
    return [*words, *(f"{a} {b}" for a, b in itertools.pairwise(words)), f"length {len(words)}"]


def extract_char_ngrams(text: str) -> list[str]:
    """Return the character n-grams of a text, as terms."""
    padded = f" {text} ".ljust(CHARS[0])  # an empty text has a term too
    return [padded[i : i + n] for n in CHARS for i in range(len(padded) - n + 1)]


def extract_edits(pair: tuple[str, str]) -> list[str]:
    """Return terms of the words of the first text where it differs from the second.

    The terms are:

    - the words where the texts differ
    - the first and the last of these words with their neighbours outside
    - the number of these words
    - this number with the tenth of the text where they begin
    """
    text_tokens, other = ([START, *tokenize_text(text), END] for text in pair)
    before = _count_common_prefix(text_tokens, other, min(len(text_tokens), len(other)))
    after = _count_common_prefix(text_tokens[::-1], other[::-1], min(len(text_tokens), len(other)) - before)
    end = len(text_tokens) - after
    inner = text_tokens[before:end]
    first, last = (inner[0], inner[-1]) if inner else ("", "")
    left, right = text_tokens[before - 1] if before else "", text_tokens[end] if after else ""
    tenth = 10 * before // len(text_tokens)
    around = [f"after {left}: {first}", f"before {right}: {last}"]
    return [*inner, *around, f"edit of {len(inner)}", f"edit of {len(inner)} in tenth {tenth}"]


def _count_common_prefix(a: Sequence[str], b: Sequence[str], most: int) -> int:
    """Return how many tokens are equal from the start, at most ``most``."""
    return next((i for i in range(most) if a[i] != b[i]), most)


def _bind_items(items: Items, terms: Callable[[Any], list[str]], cost: float) -> ScoreRows:
    """Return a function that scores both sides of rows of the items, trained on the other folds."""
    counts = Terms.from_items(items.values, terms).sort_ids()
    names = [str(value) for value in items.values]

    def score_rows(rows: Ints, cv: CrossValidation) -> tuple[Floats, Floats]:
        def fit_predict(learned: Ints, scored: Ints) -> Floats:
            used, sides = np.unique(learned, return_inverse=True)
            weights = fit_weights(counts.count_terms(used), sides.reshape(learned.shape), cost, cv.seed)
            # In parts, because the counts of millions of texts take gigabytes.
            parts = (scored[start : start + COUNTED] for start in range(0, len(scored), COUNTED))
            return np.concatenate([np.zeros(0), *(counts.count_terms(part) @ weights for part in parts)])

        return score_out_of_fold(names, items.sides[:, rows], cv, fit_predict, cap=CAP, texts=items.text)

    return score_rows


def fit_weights(features: Any, sides: Ints, cost: float, seed: int) -> Floats:
    """Return the weights (terms,) that tell the first of two items from the second. sides: (2, n)."""
    differences = features[sides[0]] - features[sides[1]]
    return fit_sparse_pair_weights(differences, cost=cost, tolerance=TOLERANCE, seed=seed)


score_with_probe = TextScorer(partial(bind_terms, terms=extract_words, cost=COST))
score_with_shrunk_probe = TextScorer(partial(bind_terms, terms=extract_words, cost=SHRUNK_COST))
score_with_char_probe = TextScorer(partial(bind_terms, terms=extract_char_ngrams, cost=CHAR_COST))
score_with_edit_probe = TextScorer(bind_edits)

PROBE = create_model_free_spec("probe", "learned on words and word bigrams", score_with_probe)
SHRUNK_PROBE = create_model_free_spec(
    "shrunk_probe", "the same, more regularised; for small sets", score_with_shrunk_probe
)
CHAR_PROBE = create_model_free_spec("char_probe", "learned on character n-grams", score_with_char_probe)
EDIT_PROBE = create_model_free_spec(
    "edit_probe", "learned on where and how captions differ", score_with_edit_probe, sees_both=True
)
