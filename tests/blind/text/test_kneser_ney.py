from collections import Counter

import numpy as np
import pytest
from blind_scores import score_columns
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.blind.text import kneser_ney as models
from caramel.blind.text.kneser_ney import (
    UNKNOWN,
    Corpus,
    LikelihoodScorer,
    Model,
    estimate_discounts,
    score_with_kneser_ney,
)
from caramel.blind.text.ngram_counts import Terms
from caramel.utils.hashing import assign_folds
from caramel.utils.resampling import CrossValidation

TEXTS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=5), min_size=1, max_size=8)
SINGLE = (0.75, 0.75, 0.75)


def trained(texts, order=3, discounts=None):
    corpus = Corpus.from_texts([" ".join(t) for t in texts], split=str.split, order=order)
    return corpus, Model.fit(corpus, np.arange(len(texts)), discounts)


class Oracle:
    """Modified Kneser–Ney straight from its definition, with dictionaries and sets."""

    def __init__(self, texts, order, discounts):
        self.order, self.counts = order, {}
        padded = [["<s>"] * (order - 1) + list(t) + ["</s>"] for t in texts]
        grams = [tuple(p[i : i + order]) for p in padded for i in range(len(p) - order + 1)]
        self.counts[order] = Counter(grams)
        for n in range(order - 1, 0, -1):
            before = {g[-n - 1 :] for g in grams}
            self.counts[n] = Counter(g[1:] for g in before)
        self.words = {g[-1] for g in grams}
        self.discounts = {
            n: discounts or estimate_discounts(np.array(list(c.values()))) for n, c in self.counts.items()
        }

    def probability(self, word, context):
        lower = 1 / (len(self.words) + 1) if len(context) == 0 else self.probability(word, context[1:])
        counts, discount = self.counts[len(context) + 1], self.discounts[len(context) + 1]
        following = {g[-1]: c for g, c in counts.items() if g[:-1] == context}
        total = sum(following.values())
        if not total:
            return lower
        taken = {w: discount[min(c, 3) - 1] for w, c in following.items()}
        kept = following.get(word, 0) - taken.get(word, 0)
        return (kept + sum(taken.values()) * lower) / total


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 4), st.sampled_from([None, SINGLE]))
def test_probabilities_are_those_of_the_definition(learned, asked, order, discounts):
    corpus = Corpus.from_texts([" ".join(t) for t in [*learned, *asked]], split=str.split, order=order)
    model = Model.fit(corpus, np.arange(len(learned)), discounts)
    oracle = Oracle(learned, order, discounts)
    known = {w for t in learned for w in t}
    for i, text in enumerate(asked, len(learned)):
        padded = ["<s>"] * (order - 1) + text + ["</s>"]
        expected = [
            oracle.probability(w if w in known or w == "</s>" else "<unk>", tuple(padded[j : j + order - 1]))
            for j, w in enumerate(padded[order - 1 :])
        ]
        which = np.array([i])
        assert model.compute_probability(corpus.get_ngrams(which)) == pytest.approx(np.array(expected))
        assert model.compute_mean_log_probs(corpus, which) == pytest.approx(np.log(expected).mean())


@settings(max_examples=60, deadline=None)
@given(texts=TEXTS, context=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_the_words_after_any_context_share_all_of_the_probability(texts, context):
    corpus, model = trained([*texts, "abcd"])
    start = (context[0] * corpus.words + context[1]) * corpus.words
    after = model.compute_probability(start + np.append(model.known, UNKNOWN))
    assert after.sum() == pytest.approx(1)
    assert (after > 0).all()


def test_probabilities_are_those_worked_out_by_hand():
    """One text, "a b": trigrams (· · a), (· a b), (a b end), each once; three words and an unknown one."""
    corpus, model = trained(["ab"], discounts=SINGLE)
    assert len(model.known) == 3
    kept = 0.25
    unigram = kept / 3 + 0.75 * 3 / 3 / 4  # (1 − D) / 3 bigrams + D · 3 kinds / 3 · uniform 1/4
    bigram = kept + 0.75 * unigram
    trigram = kept + 0.75 * bigram
    assert model.compute_probability(corpus.get_ngrams(np.array([0]))).tolist() == pytest.approx(
        [trigram] * 3
    )


def test_discounts_are_estimated_from_the_counts_of_counts():
    """Four ones, two twos, a three and a four: Y = 4 / 8; 1 − 2Y·2/4, 2 − 3Y·1/2, 3 − 4Y·1/1."""
    assert estimate_discounts(np.array([1, 1, 1, 1, 2, 2, 3, 4])) == pytest.approx((0.5, 1.25, 1.0))


@given(st.lists(st.integers(1, 5), max_size=20))
def test_a_discount_is_never_more_than_the_count(counts):
    for n, discount in enumerate(estimate_discounts(np.array(counts, dtype=np.int64)), 1):
        assert 0 < discount < n


def test_texts_without_tokens_and_models_without_texts_have_a_probability():
    corpus = Corpus.from_texts(["", "a"], split=str.split, order=3)
    assert corpus.lengths.tolist() == [1, 2]
    nothing = Model.fit(corpus, np.zeros(0, dtype=np.int64))
    assert nothing.compute_probability(corpus.get_ngrams(np.array([0, 1]))).tolist() == [1, 1, 1]


def test_an_unknown_word_is_the_least_likely():
    corpus = Corpus.from_texts(["a b", "a c"], split=str.split, order=3)
    model = Model.fit(corpus, np.array([0]))
    known, unknown = (model.compute_probability(corpus.get_ngrams(np.array([i])))[1] for i in (0, 1))
    assert unknown < known


def test_grams_of_texts_come_one_after_the_other():
    corpus = Corpus.from_texts(["a", "b a b", "c"], split=str.split, order=3)
    parts = [corpus.get_ngrams(np.array([i])) for i in (2, 0, 2)]
    assert np.array_equal(corpus.get_ngrams(np.array([2, 0, 2])), np.concatenate(parts))
    assert corpus.lengths.tolist() == [2, 4, 2]
    assert corpus.compute_starts(np.array([2, 0, 2])).tolist() == [0, 2, 4]


@given(TEXTS, st.data())
def test_the_corpus_of_some_texts_is_the_same_from_the_tokens_of_all(texts, data):
    lines = [" ".join(text) for text in texts]
    used = np.array([data.draw(st.booleans()) for _ in lines], dtype=bool)
    selected = Corpus.from_terms(Terms.from_items(lines, str.split), used, 3)
    alone = Corpus.from_texts(
        [line for line, use in zip(lines, used, strict=True) if use], split=str.split, order=3
    )
    assert selected.words == alone.words
    for name in ("flat", "offsets", "lengths"):
        assert np.array_equal(getattr(selected, name), getattr(alone, name))


def test_tokens_are_numbered_by_frequency_and_then_by_their_first_occurrence():
    corpus = Corpus.from_texts(["d b a a c"], split=str.split, order=1)
    assert corpus.flat.tolist() == [models.SPECIAL + i for i in (1, 2, 0, 0, 3)] + [models.END]


def test_more_kinds_of_tokens_than_there_is_room_for_leave_the_rare_ones_unknown():
    signs = "".join(chr(0x4E00 + i) for i in range(2000))
    corpus = Corpus.from_texts([signs, signs[:50]], split=list, order=6)
    assert corpus.words**6 < 2**63
    last = corpus.get_ngrams(np.array([0])) % corpus.words
    assert (last == UNKNOWN).sum() == 2000 - (corpus.words - models.SPECIAL)
    assert UNKNOWN not in corpus.get_ngrams(np.array([1])) % corpus.words


def sentences(rows):
    rng = np.random.default_rng(0)
    parts = [["red", "blue", "old"], ["cat", "dog", "man"], ["on", "under"], ["mat", "box", "bed", "sofa"]]
    lines = [[str(rng.choice(p)) for p in parts] + [str(i)] for i in range(rows)]
    positives = [f"A {' '.join(words)}." for words in lines]
    negatives = [f"A {' '.join(rng.permutation(words[:4]))} {words[4]}." for words in lines]
    return positives, negatives, [str(i) for i in range(rows)]


def test_captions_in_the_usual_order_of_words_beat_shuffled_ones():
    positives, negatives, groups = sentences(200)
    scores = score_with_kneser_ney(positives, negatives, CrossValidation(groups, 5, 3))
    differ = np.array([p != n for p, n in zip(positives, negatives, strict=True)])
    assert np.mean(scores[0][differ] > scores[1][differ]) > 0.95


def test_a_given_corpus_is_learned_from_instead_of_the_other_folds():
    positives, negatives, groups = sentences(60)
    backwards = [" ".join(reversed(text.rstrip(".").split())) for text in positives]
    plain = score_with_kneser_ney(
        positives, negatives, CrossValidation(groups, 5, 3), corpus=sentences(300)[0][60:]
    )
    turned = score_with_kneser_ney(positives, backwards, CrossValidation(groups, 5, 3), corpus=backwards[:30])
    assert np.mean(plain[0] > plain[1]) > 0.85
    assert np.mean(turned[0] > turned[1]) < 0.5


def test_a_text_of_the_corpus_that_is_to_be_scored_is_not_learned_from(monkeypatch):
    learned = []
    fit = Model.fit

    def spy(corpus, which, discounts=None):
        learned.append(which.tolist())
        return fit(corpus, which, discounts)

    monkeypatch.setattr(models.Model, "fit", spy)
    score_with_kneser_ney(
        ["a b", "c"], ["d", "e"], CrossValidation(["i", "j"], 2, 3), corpus=["a b", "e", "f g", "f g"]
    )
    assert learned == [[4]]  # texts a b, c, d, e; then the one of the corpus that is none of them


def test_large_folds_are_learned_from_in_part(monkeypatch):
    sizes = []
    fit = Model.fit

    def spy(corpus, which, discounts=None):
        sizes.append(len(which))
        return fit(corpus, which, discounts)

    monkeypatch.setattr(models, "CAP", 7)
    monkeypatch.setattr(models.Model, "fit", spy)
    score_columns(score_with_kneser_ney, *sentences(50), folds=5, seed=3)
    assert sizes == [7] * 5


def test_nothing_is_learned_from_a_text_that_is_to_be_scored_or_its_image(monkeypatch):
    texts = [f"w{i} x." for i in range(12)]
    positives, groups = [*texts, *texts[:6]], [f"i{i % 9}" for i in range(18)]
    everything = sorted({*positives, "n y."})
    learned = []
    fit = Model.fit

    def spy(corpus, which, discounts=None):
        learned.append({everything[i] for i in which.tolist()})
        return fit(corpus, which, discounts)

    monkeypatch.setattr(models.Model, "fit", spy)
    LikelihoodScorer(str.split, 3)(positives, ["n y."] * 18, CrossValidation(groups, 3, 3))
    fold = assign_folds(groups, folds=3, seed=3)
    for k, found in enumerate(learned):
        scored = {p for p, f in zip(positives, fold, strict=True) if f == k}
        images = {g for g, f in zip(groups, fold, strict=True) if f == k}
        others = {p for p, g in zip(positives, groups, strict=True) if g not in images} - scored
        assert found == others
