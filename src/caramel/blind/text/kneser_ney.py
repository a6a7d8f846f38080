"""Kneser–Ney language models of any order, over words or characters, and blind scorer ``kneser_ney``.

Interpolated Kneser–Ney smoothing, with one discount or with three (modified Kneser–Ney), as in Chen &
Goodman 1999, sections 2.8 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from caramel.blind.cross_validation import group_folds
from caramel.blind.scorers import ScoreRows, compute_percentile_ranks, deduplicate_texts
from caramel.blind.text.ngram_counts import BLOCK, Terms
from caramel.interfaces.scorer import create_model_free_spec
from caramel.utils.arrays import Bools, Floats, Ints
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import tokenize_text

START, END, UNKNOWN = 0, 1, 2
SPECIAL = 3
ORDER = 3
CAP = 100_000  # maximum number of training captions per fold; more make it slower and hardly stronger

Discounts = tuple[float, float, float]  # of counts 1, 2, and 3 or more


@dataclass(frozen=True)
class LikelihoodScorer:
    """A ``Scorer`` by the likelihood of texts under a language model of the other folds' positives.

    The mean log-probability per token orders the texts of a fold. A score is the share of the fold's distinct
    texts that are less likely; equally likely texts count half. So the scores are spread evenly over [0, 1].

    The training captions contain no text that is scored and no other caption of its image. A caption counts
    once per image, however many negatives it has. With more than ``CAP`` captions, a fold trains on a random
    sample of them.

    Attributes:
        split: function that returns the tokens of a text.
        order: order of the model, 1 for single tokens.
        discounts: discounts of the model; None: they are estimated from the training captions.
    """

    split: Callable[[str], Sequence[str]]
    order: int
    discounts: Discounts | None = None

    def __call__(
        self,
        positives: Sequence[str],
        negatives: Sequence[str],
        cv: CrossValidation,
        corpus: Sequence[str] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the scores of both sides. (n,), (n,).

        Args:
            positives: n true captions.
            negatives: n hard negatives.
            cv: folds of images. Its seed is also used for sampling.
            corpus: texts to train on instead of the other folds, without the texts that are scored.
        """
        if corpus is None:
            return self.bind_texts(positives, negatives)(np.arange(len(positives)), cv)
        texts, sides = deduplicate_texts(positives, negatives)
        given = sorted(set(corpus) - set(texts))
        grams = Corpus.from_texts([*texts, *given], split=self.split, order=self.order)
        model = Model.fit(grams, np.arange(len(texts), len(texts) + len(given)), self.discounts)
        return _score_by_fold(grams, sides, cv, lambda learned, scored: model)

    def bind_texts(self, positives: Sequence[str], negatives: Sequence[str]) -> ScoreRows:
        """Return a function that scores rows of the texts; see ``TextScorer``."""
        texts, sides = deduplicate_texts(positives, negatives)
        tokens = Terms.from_items(texts, self.split)

        def score_rows(rows: Ints, cv: CrossValidation) -> tuple[Floats, Floats]:
            used = np.isin(np.arange(len(texts)), sides[:, rows])
            row_sides = (np.cumsum(used) - 1)[sides[:, rows]]
            grams = Corpus.from_terms(tokens, used, self.order)
            keys = compute_stable_keys([texts[i] for i in np.flatnonzero(used).tolist()], cv.seed)
            image = np.unique(np.array(cv.groups, dtype=object), return_inverse=True)[1]
            images = int(image.max(initial=0)) + 1

            def fit(learned: Bools, scored: Ints) -> Model:
                captions = np.unique((row_sides[0] * images + image)[learned]) // images
                usable = captions[~np.isin(captions, scored)]
                drawn = usable[np.argsort(keys[usable], kind="stable")[:CAP]]
                return Model.fit(grams, drawn, self.discounts)

            return _score_by_fold(grams, row_sides, cv, fit)

        return score_rows


def _score_by_fold(
    grams: Corpus, sides: Ints, cv: CrossValidation, fit: Callable[[Bools, Ints], Model]
) -> tuple[Floats, Floats]:
    """Return the scores of both sides, (n,) and (n,), under the model of each fold.

    Args:
        grams: the distinct texts.
        sides: (2, n) indices of both sides' texts.
        cv: the folds.
        fit: (mask of the training rows, indices of the scored texts) -> model.
    """
    scores = np.full(sides.shape, 0.5)
    for here, learned in group_folds(cv):
        scored = np.unique(sides[:, here])
        mean = fit(learned, scored).compute_mean_log_probs(grams, scored)
        scores[:, here] = compute_percentile_ranks(mean)[np.searchsorted(scored, sides[:, here])]
    return scores[0], scores[1]


@dataclass(frozen=True)
class Corpus:
    """Texts as n-grams of token ids, with ``order`` − 1 start tokens before and one end token after each text.

    Attributes:
        flat: n-grams of all texts, one text after the other, as integers in [0, words^order).
        offsets: (n,) index of each text's first n-gram in ``flat``.
        lengths: (n,) number of n-grams of each text.
        words: number of token ids.
        order: tokens per n-gram.
    """

    flat: Ints
    offsets: Ints
    lengths: Ints
    words: int
    order: int

    @classmethod
    def from_texts(cls, texts: Sequence[str], *, split: Callable[[str], Sequence[str]], order: int) -> Corpus:
        """Return the corpus of the texts; see ``from_terms``."""
        return cls.from_terms(Terms.from_items(texts, split), np.ones(len(texts), dtype=bool), order)

    @classmethod
    def from_terms(cls, tokens: Terms, used: Bools, order: int) -> Corpus:
        """Return the corpus of the texts in a mask, from the tokens of all.

        Tokens are numbered by frequency, those of equal frequency in the order in which they first occur. If an
        n-gram of this order does not fit into a 64-bit integer, the rarest tokens share the id of the unknown
        token.
        """
        ids, lengths = tokens.select_ids(used)
        counts = np.bincount(ids, minlength=len(tokens.names))
        first = np.full(len(counts), len(ids))
        for start in range(0, len(ids), BLOCK):
            part = ids[start : start + BLOCK]
            np.minimum.at(first, part, np.arange(start, start + len(part)))
        words = SPECIAL + min(int((counts > 0).sum()), int(2 ** (62 / order)) - SPECIAL)
        rank = np.empty(len(counts), dtype=np.int32)
        rank[np.lexsort((first, -counts))] = np.arange(len(counts)) + SPECIAL
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
        del stream  # for millions of texts, each of these arrays takes hundreds of megabytes
        inner = np.ones(len(flat) + order - 1, dtype=bool)
        for i in range(1, order):
            inner[ends - i] = False  # n-grams that would run into the next text
        sizes = lengths + 1
        return cls(flat[inner[: len(flat)]], np.cumsum(sizes) - sizes, sizes, words, order)

    def compute_starts(self, which: Ints) -> Ints:
        """Return where the n-grams of each text start in ``get_ngrams(which)``. (n,)."""
        lengths = self.lengths[which]
        return np.asarray(np.cumsum(lengths) - lengths)

    def get_ngrams(self, which: Ints) -> Ints:
        """Return the n-grams of the texts with the indices ``which``, one text after the other. (m,)."""
        lengths = self.lengths[which]
        shift = np.repeat(self.offsets[which] - self.compute_starts(which), lengths)
        return np.asarray(self.flat[shift + np.arange(lengths.sum())])


@dataclass(frozen=True)
class Level:
    """Counts of the n-grams of one order and of their contexts; keys are sorted."""

    keys: Ints
    counts: Ints
    contexts: Ints
    totals: Ints  # sum of the counts that continue each context
    left: Floats  # sum of the discounts of these counts
    discounts: Floats  # (4,) discounts of counts 0, 1, 2, and 3 or more

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
    """Return the discounts of counts 1, 2, and 3 or more (Chen & Goodman 1999, equation 26).

    With few n-grams some counts do not occur, and the estimates need not be within (0, count). So numbers of
    n-grams are at least 1, and discounts are kept 0.1 away from either end.
    """
    one, two, three, four = (max(1, int((counts == n).sum())) for n in (1, 2, 3, 4))
    share = one / (one + 2 * two)
    estimates = (1 - 2 * share * two / one, 2 - 3 * share * three / two, 3 - 4 * share * four / three)
    first, second, third = (min(max(d, 0.1), n - 0.1) for n, d in enumerate(estimates, 1))
    return first, second, third


def _find_positions(keys: Ints, wanted: Ints) -> Ints:
    """Return the index of each wanted key among the sorted keys; −1 if it is missing."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


@dataclass(frozen=True)
class Model:
    """Interpolated Kneser–Ney model.

    The highest order uses the counts of n-grams. Lower orders count the distinct tokens that precede an
    n-gram. The probability that the last discount leaves is shared equally by the tokens of the training
    texts and one unknown token.
    """

    levels: tuple[Level, ...]  # of single tokens, pairs, …
    known: Ints
    words: int

    @classmethod
    def fit(cls, corpus: Corpus, which: Ints, discounts: Discounts | None = None) -> Model:
        """Return the model of the texts with the indices ``which``."""
        words, levels = corpus.words, []
        keys, counts = np.unique(corpus.get_ngrams(which), return_counts=True)
        for n in range(corpus.order, 0, -1):
            levels.append(Level.from_counts(keys, counts, words, discounts))
            if n > 1:
                keys, counts = np.unique(keys % words ** (n - 1), return_counts=True)
        return cls(tuple(levels[::-1]), keys, words)

    def compute_probability(self, grams: Ints) -> Floats:
        """Return P(last token | preceding tokens) of each n-gram, in (0, 1]. (m,) -> (m,)."""
        words, result = self.words, np.full(len(grams), 1 / (len(self.known) + 1))
        last = grams % words
        keys = grams - last + np.where(_find_positions(self.known, last) < 0, UNKNOWN, last)
        for n, level in enumerate(self.levels, 1):
            result = level.compute_probability(keys % words**n, result, words)
        return result

    def compute_mean_log_probs(self, corpus: Corpus, which: Ints) -> Floats:
        """Return the mean log-probability per token of each text with an index in ``which``. (n,)."""
        grams, at = np.unique(corpus.get_ngrams(which), return_inverse=True)
        logs = np.log(self.compute_probability(grams))[at]
        return np.asarray(np.add.reduceat(logs, corpus.compute_starts(which)) / corpus.lengths[which])


score_with_kneser_ney = LikelihoodScorer(tokenize_text, ORDER)
KNESER_NEY = create_model_free_spec(
    "kneser_ney", "modified Kneser–Ney trigram model of words", score_with_kneser_ney
)
