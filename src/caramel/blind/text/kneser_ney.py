"""Kneser–Ney language models of any order, over words or signs, and blind scorer ``kneser_ney``.

Interpolated Kneser–Ney smoothing, with one discount or with three (modified Kneser–Ney), as in Chen &
Goodman 1999, sections 2.8 and 3.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from caramel.blind.cross_validation import group_folds
from caramel.blind.scorers import compute_percentile_ranks, deduplicate_texts
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.text import tokenize_text

START, END, UNKNOWN = 0, 1, 2
SPECIAL = 3
ORDER = 3
CAP = 100_000  # captions to learn from, per fold; more make it slower and hardly stronger

Discounts = tuple[float, float, float]  # of counts 1, 2, and 3 or more


def score_by_likelihood(
    positives: Sequence[str],
    negatives: Sequence[str],
    groups: Sequence[str],
    *,
    folds: int,
    seed: int,
    split: Callable[[str], Sequence[str]],
    order: int,
    discounts: Discounts | None = None,
    corpus: Sequence[str] | None = None,
    taught: Bools | None = None,
) -> tuple[Floats, Floats]:
    """Score texts by a language model of the other folds' positives. (n,), (n,).

    The mean log-probability per token orders the texts of a fold; a score is the share of the
    fold's distinct texts that are less likely, those that are equally likely counted half. So the
    scores are spread evenly over [0, 1].

    A text that is to be scored never stands in the training part, and neither does another caption
    of its image. A caption counts once per image, however many negatives it has. Folds with more
    than ``CAP`` captions learn from a random part of them.

    Args:
        positives: n true captions.
        negatives: n hard negatives.
        groups: n image names.
        folds: number of folds.
        seed: of the folds and of the draw.
        split: returns the tokens of a text.
        order: of the model, 1 for single tokens.
        discounts: None for those estimated from the training part.
        corpus: texts to learn from instead; none of those that are to be scored is used.
        taught: rows that are learned from and not judged; see ``Scorer``.
    """
    texts, sides = deduplicate_texts(positives, negatives)
    given = [] if corpus is None else sorted(set(corpus) - set(texts))
    grams = Corpus.from_texts([*texts, *given], split=split, order=order)
    keys = compute_stable_keys(texts, seed)
    image = np.unique(np.array(groups, dtype=object), return_inverse=True)[1]
    images = int(image.max(initial=0)) + 1
    scores = np.full(sides.shape, 0.5)
    fitted = (
        None
        if corpus is None
        else Model.fit(grams, np.arange(len(texts), len(texts) + len(given)), discounts)
    )
    for here, learned in group_folds(groups, folds=folds, seed=seed, taught=taught):
        scored = np.unique(sides[:, here])
        model = fitted
        if model is None:
            captions = np.unique((sides[0] * images + image)[learned]) // images
            usable = captions[~np.isin(captions, scored)]
            model = Model.fit(grams, usable[np.argsort(keys[usable], kind="stable")[:CAP]], discounts)
        mean = model.compute_mean_log_probs(grams, scored)
        scores[:, here] = compute_percentile_ranks(mean)[np.searchsorted(scored, sides[:, here])]
    return scores[0], scores[1]


@dataclass(frozen=True)
class Corpus:
    """Texts as the numbers of their tokens, with ``order`` − 1 starts before and one end behind each.

    ``flat`` holds the n-grams of all texts, one after the other, as numbers in [0, words^order);
    text i has ``lengths[i]`` of them, from ``offsets[i]``.
    """

    flat: Ints
    offsets: Ints
    lengths: Ints
    words: int
    order: int

    @classmethod
    def from_texts(cls, texts: Sequence[str], *, split: Callable[[str], Sequence[str]], order: int) -> Corpus:
        """Return the corpus of the texts.

        Tokens are numbered by how often they stand; those for which a 64-bit number has no room in
        n-grams of this order are one, the unknown one.
        """
        number: dict[str, int] = {}
        ids, lengths = array("i"), array("q")
        for text in texts:
            token_ids = [number.setdefault(token, len(number)) for token in split(text)]
            ids.extend(token_ids)
            lengths.append(len(token_ids))
        return cls._pack_ids(np.frombuffer(ids, np.int32), np.array(lengths, np.int64), len(number), order)

    @classmethod
    def _pack_ids(cls, ids: npt.NDArray[np.int32], lengths: Ints, vocab_size: int, order: int) -> Corpus:
        """Return the corpus of token numbers (m,) of texts of given lengths (n,)."""
        words = SPECIAL + min(vocab_size, int(2 ** (62 / order)) - SPECIAL)
        rank = np.empty(vocab_size, dtype=np.int32)
        rank[np.argsort(-np.bincount(ids, minlength=vocab_size), kind="stable")] = (
            np.arange(vocab_size) + SPECIAL
        )
        rank[rank >= words] = UNKNOWN
        ends = np.cumsum(lengths + order)
        stream = np.full(int(lengths.sum()) + order * len(lengths), START, dtype=np.int32)
        token = np.ones(len(stream), dtype=bool)
        for i in range(order - 1):
            token[ends - order - lengths + i] = False
        token[ends - 1] = False
        stream[token] = rank[ids]
        stream[ends - 1] = END
        del token
        flat = np.zeros(max(0, len(stream) - order + 1), dtype=np.int64)
        for i in range(order):
            flat *= words
            flat += stream[i : i + len(flat)]
        del stream  # of millions of texts each of these arrays is hundreds of megabytes
        inner = np.ones(len(flat) + order - 1, dtype=bool)
        for i in range(1, order):
            inner[ends - i] = False  # n-grams that would run into the next text
        sizes = lengths + 1
        return cls(flat[inner[: len(flat)]], np.cumsum(sizes) - sizes, sizes, words, order)

    def compute_starts(self, which: Ints) -> Ints:
        """Return where the n-grams of each text start in ``grams(which)``. (n,)."""
        lengths = self.lengths[which]
        return np.asarray(np.cumsum(lengths) - lengths)

    def get_ngrams(self, which: Ints) -> Ints:
        """Return the n-grams of the texts numbered in ``which``, one text after the other. (m,)."""
        lengths = self.lengths[which]
        shift = np.repeat(self.offsets[which] - self.compute_starts(which), lengths)
        return np.asarray(self.flat[shift + np.arange(lengths.sum())])


@dataclass(frozen=True)
class Level:
    """Counts of the n-grams of one order, and of the contexts that they continue; keys sorted."""

    keys: Ints
    counts: Ints
    contexts: Ints
    totals: Ints  # sum of the counts that continue each context
    left: Floats  # what the discounts take from those, in counts
    discounts: Floats  # (4,) of counts 0, 1, 2, and 3 or more

    @classmethod
    def from_counts(cls, keys: Ints, counts: Ints, words: int, discounts: Discounts | None) -> Level:
        """Return the level of sorted n-gram keys, the last word in the last digit to base ``words``."""
        contexts, at = np.unique(keys // words, return_inverse=True)
        totals = np.bincount(at, counts, minlength=len(contexts)).astype(np.int64)
        discount_by_count = np.array([0.0, *(estimate_discounts(counts) if discounts is None else discounts)])
        left: Floats = np.bincount(
            at, discount_by_count[np.minimum(counts, 3)], minlength=len(contexts)
        ).astype(float)
        return cls(keys, counts, contexts, totals, left, discount_by_count)

    def compute_probability(self, keys: Ints, lower: Floats, words: int) -> Floats:
        """Return the discounted probability of each n-gram, interpolated with the lower order's."""
        at = _find_positions(self.keys, keys)
        count = np.where(at < 0, 0, self.counts[at] if len(self.counts) else 0)
        at = _find_positions(self.contexts, keys // words)
        known = at >= 0
        if not known.any():
            return lower
        discounted = count - self.discounts[np.minimum(count, 3)]
        mixed = (discounted + self.left[at] * lower) / self.totals[at]
        return np.where(known, mixed, lower)


def estimate_discounts(counts: Ints) -> Discounts:
    """Return the discounts of counts 1, 2 and more (Chen & Goodman 1999, equation 26).

    With few n-grams, of which no count occurs, the estimates need not lie within (0, count): numbers
    of n-grams are taken as 1 at least, and discounts are kept 0.1 away from either end.
    """
    one, two, three, four = (max(1, int((counts == n).sum())) for n in (1, 2, 3, 4))
    share = one / (one + 2 * two)
    estimates = (1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three)
    first, second, third = (min(max(d, 0.1), n - 0.1) for n, d in enumerate(estimates, 1))
    return first, second, third


def _find_positions(keys: Ints, wanted: Ints) -> Ints:
    """Return the place of each wanted key among the sorted keys; −1 where it is not there."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


@dataclass(frozen=True)
class Model:
    """Interpolated Kneser–Ney model.

    The n-grams of the highest order are counted; of shorter ones the different tokens before them
    are. The tokens of the training part and one unknown token share what the last discount leaves,
    evenly.
    """

    levels: tuple[Level, ...]  # of single tokens, pairs, …
    known: Ints
    words: int

    @classmethod
    def fit(cls, corpus: Corpus, which: Ints, discounts: Discounts | None = None) -> Model:
        """Return the model of the texts numbered in ``which``."""
        words, levels = corpus.words, []
        keys, counts = np.unique(corpus.get_ngrams(which), return_counts=True)
        for n in range(corpus.order, 0, -1):
            levels.append(Level.from_counts(keys, counts, words, discounts))
            if n > 1:
                keys, counts = np.unique(keys % words ** (n - 1), return_counts=True)
        return cls(tuple(levels[::-1]), keys, words)

    def compute_probability(self, grams: Ints) -> Floats:
        """Return P(last token | those before) of each n-gram, in (0, 1]. (m,) -> (m,)."""
        words, result = self.words, np.full(len(grams), 1 / (len(self.known) + 1))
        last = grams % words
        keys = grams - last + np.where(_find_positions(self.known, last) < 0, UNKNOWN, last)
        for n, level in enumerate(self.levels, 1):
            result = level.compute_probability(keys % words**n, result, words)
        return result

    def compute_mean_log_probs(self, corpus: Corpus, which: Ints) -> Floats:
        """Return the mean log-probability per token of each text numbered in ``which``. (n,)."""
        grams, at = np.unique(corpus.get_ngrams(which), return_inverse=True)
        logs = np.log(self.compute_probability(grams))[at]
        return np.asarray(np.add.reduceat(logs, corpus.compute_starts(which)) / corpus.lengths[which])


score_with_kneser_ney = partial(score_by_likelihood, split=tokenize_text, order=ORDER)
KNESER_NEY = create_model_free_spec(
    "kneser_ney", "modified Kneser–Ney trigram model of words", score_with_kneser_ney
)
