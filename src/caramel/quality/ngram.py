"""Blind scorer ``ngram``: how likely a text is as a true caption, by a trigram language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from caramel.quality.blind import Floats, Ints, assign_folds, places, share_below, tokens

DISCOUNT = 0.75  # the customary absolute discount
START, END, UNKNOWN = 0, 1, 2
SPECIAL = 3


def ngram(
    positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str], *, folds: int, seed: int
) -> tuple[Floats, Floats]:
    """Score texts by a model of the other folds' positives; see ``blind.Scorer``.

    The mean log-probability per token orders the texts of a fold; a score is the share of the
    fold's distinct texts that are less likely, those that are equally likely counted half. So the
    scores are spread evenly over [0, 1].

    A text that is to be scored never stands in the training part, and neither does another caption
    of its image. A caption counts once per image, however many negatives it has.
    """
    texts, sides = places(positives, negatives)
    fold = assign_folds(groups, folds=folds, seed=seed)
    image = np.unique(np.array(groups, dtype=object), return_inverse=True)[1]
    corpus, scores = Corpus.of(texts), np.empty(sides.shape)
    for k in np.unique(fold):
        here = fold == k
        scored = np.unique(sides[:, here])
        captions = np.unique(np.stack([sides[0], image])[:, ~here], axis=1)[0]
        model = Model.fit(corpus.trigrams(captions[~np.isin(captions, scored)]), corpus.words)
        logs = np.log(model.probability(corpus.trigrams(scored)))
        mean = np.add.reduceat(logs, corpus.starts(scored)) / corpus.lengths[scored]
        scores[:, here] = share_below(mean)[np.searchsorted(scored, sides[:, here])]
    return scores[0], scores[1]


@dataclass(frozen=True)
class Corpus:
    """Texts as the numbers of their words, with two starts before and one end behind each.

    ``flat`` holds the trigrams of all texts, one after the other, as numbers in [0, words³);
    text i has ``lengths[i]`` of them, from ``offsets[i]``.
    """

    flat: Ints
    offsets: Ints
    lengths: Ints
    words: int

    @classmethod
    def of(cls, texts: Sequence[str]) -> Corpus:
        """Return the corpus of the texts."""
        split = [tokens(text) for text in texts]
        number = {w: i for i, w in enumerate(sorted({w for ws in split for w in ws}), SPECIAL)}
        ids = [i for ws in split for i in (START, START, *(number[w] for w in ws), END)]
        stream, lengths = (
            np.array(ids, dtype=np.int64),
            np.array([len(ws) + 1 for ws in split], dtype=np.int64),
        )
        words = SPECIAL + len(number)
        assert words < 2**21  # so that three words fit into one 64-bit number
        flat = (stream[:-2] * words + stream[1:-1]) * words + stream[2:]
        ends = np.cumsum(lengths + 2)
        inner = np.ones(len(flat) + 2, dtype=bool)
        inner[ends - 1] = inner[ends - 2] = False  # trigrams that would run into the next text
        return cls(flat[inner[:-2]], np.cumsum(lengths) - lengths, lengths, words)

    def starts(self, which: Ints) -> Ints:
        """Return where the trigrams of each text start in ``trigrams(which)``. (n,)."""
        lengths = self.lengths[which]
        return np.asarray(np.cumsum(lengths) - lengths)

    def trigrams(self, which: Ints) -> Ints:
        """Return the trigrams of the texts numbered in ``which``, one text after the other. (m,)."""
        lengths = self.lengths[which]
        shift = np.repeat(self.offsets[which] - self.starts(which), lengths)
        return np.asarray(self.flat[shift + np.arange(lengths.sum())])


@dataclass(frozen=True)
class Level:
    """Counts of the n-grams of one order, and of the contexts that they continue; keys sorted."""

    keys: Ints
    counts: Ints
    contexts: Ints
    totals: Ints  # sum of the counts that continue each context
    kinds: Ints  # number of different words that continue it

    @classmethod
    def of(cls, keys: Ints, counts: Ints, words: int) -> Level:
        """Return the level of sorted n-gram keys, the last word in the last digit to base ``words``."""
        contexts, at, kinds = np.unique(keys // words, return_inverse=True, return_counts=True)
        totals = np.zeros(len(contexts), dtype=np.int64)
        np.add.at(totals, at, counts)
        return cls(keys, counts, contexts, totals, kinds)

    def probability(self, keys: Ints, lower: Floats, words: int) -> Floats:
        """Return the discounted probability of each n-gram, interpolated with the lower order's."""
        count = _look_up(self.keys, self.counts, keys)
        total = _look_up(self.contexts, self.totals, keys // words)
        kinds = _look_up(self.contexts, self.kinds, keys // words)
        mixed = (np.maximum(count - DISCOUNT, 0) + DISCOUNT * kinds * lower) / np.maximum(total, 1)
        return np.where(total > 0, mixed, lower)


def _look_up(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    """Return the value of each wanted key; 0 where it is not among the sorted keys."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


@dataclass(frozen=True)
class Model:
    """Interpolated Kneser–Ney trigram model with one discount (Chen & Goodman 1999, section 2.8).

    Trigrams are counted; of bigrams and words the different words before them are. The words of
    the training part and one unknown word share what the discount leaves, evenly.
    """

    levels: tuple[Level, Level, Level]  # words, bigrams, trigrams
    known: Ints
    words: int

    @classmethod
    def fit(cls, trigrams: Ints, words: int) -> Model:
        """Return the model of a training part, given as trigram keys. (m,)."""
        keys, counts = np.unique(trigrams, return_counts=True)
        third = Level.of(keys, counts, words)
        keys, counts = np.unique(keys % words**2, return_counts=True)
        second = Level.of(keys, counts, words)
        keys, counts = np.unique(keys % words, return_counts=True)
        return cls((Level.of(keys, counts, words), second, third), keys, words)

    def probability(self, trigrams: Ints) -> Floats:
        """Return P(third word | first two) of each trigram, in (0, 1]. (m,) -> (m,)."""
        words, result = self.words, np.full(len(trigrams), 1 / (len(self.known) + 1))
        last = trigrams % words
        strange = _look_up(self.known, np.ones_like(self.known), last) == 0
        keys = trigrams - last + np.where(strange, UNKNOWN, last)
        for order, level in enumerate(self.levels, 1):
            result = level.probability(keys % words**order, result, words)
        return result
