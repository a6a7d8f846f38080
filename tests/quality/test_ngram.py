import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.quality import ngram as ngrams
from caramel.quality.ngram import DISCOUNT, UNKNOWN, Corpus, Model, ngram

SENTENCES = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=8
)


def trained(texts: list[str]) -> tuple[Corpus, Model]:
    corpus = Corpus.of(texts)
    return corpus, Model.fit(corpus.trigrams(np.arange(len(texts))), corpus.words)


@settings(max_examples=60, deadline=None)
@given(texts=SENTENCES, context=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_the_words_after_any_context_share_all_of_the_probability(texts, context):
    corpus, model = trained([*texts, "a b c d"])
    start = (context[0] * corpus.words + context[1]) * corpus.words
    after = model.probability(start + np.append(model.known, UNKNOWN))
    assert after.sum() == pytest.approx(1)
    assert (after > 0).all()


def test_probabilities_are_those_worked_out_by_hand():
    """One text, "a b": trigrams (· · a), (· a b), (a b end), each once; three words and an unknown one."""
    corpus, model = trained(["a b"])
    assert len(model.known) == 3
    kept = 1 - DISCOUNT
    unigram = kept / 3 + DISCOUNT * 3 / 3 / 4  # (1 − D) / 3 bigrams + D · 3 kinds / 3 · uniform 1/4
    bigram = kept + DISCOUNT * unigram
    trigram = kept + DISCOUNT * bigram
    assert model.probability(corpus.trigrams(np.array([0]))).tolist() == pytest.approx([trigram] * 3)


def test_an_unknown_word_is_the_least_likely():
    corpus = Corpus.of(["a b", "a c"])
    model = Model.fit(corpus.trigrams(np.array([0])), corpus.words)
    known, unknown = (model.probability(corpus.trigrams(np.array([i])))[1] for i in (0, 1))
    assert unknown < known


def test_trigrams_of_texts_come_one_after_the_other():
    corpus = Corpus.of(["a", "b a b", "c"])
    parts = [corpus.trigrams(np.array([i])) for i in (2, 0, 2)]
    assert np.array_equal(corpus.trigrams(np.array([2, 0, 2])), np.concatenate(parts))
    assert corpus.lengths.tolist() == [2, 4, 2]
    assert corpus.starts(np.array([2, 0, 2])).tolist() == [0, 2, 4]


def test_captions_in_the_usual_order_of_words_beat_shuffled_ones():
    rng = np.random.default_rng(0)
    parts = [["red", "blue", "old"], ["cat", "dog", "man"], ["on", "under"], ["mat", "box", "bed", "sofa"]]
    lines = [[str(rng.choice(p)) for p in parts] + [str(i)] for i in range(200)]
    positives = [f"A {' '.join(words)}." for words in lines]
    negatives = [f"A {' '.join(rng.permutation(words[:4]))} {words[4]}." for words in lines]
    scores = ngram(positives, negatives, [str(i) for i in range(200)], folds=5, seed=3)
    differ = np.array([p != n for p, n in zip(positives, negatives, strict=True)])
    assert np.mean(scores[0][differ] > scores[1][differ]) > 0.95


def test_nothing_is_learned_from_a_text_that_is_to_be_scored_or_its_image(monkeypatch):
    texts = [f"w{i} x." for i in range(12)]
    positives, groups = [*texts, *texts[:6]], [f"i{i % 9}" for i in range(18)]
    learned = []
    fit = Model.fit

    def spy(trigrams, words):
        learned.append(set((trigrams % words).tolist()))
        return fit(trigrams, words)

    monkeypatch.setattr(ngrams.Model, "fit", spy)
    ngram(positives, ["n y."] * 18, groups, folds=3, seed=3)
    fold = ngrams.assign_folds(groups, folds=3, seed=3)
    corpus = Corpus.of(sorted({*positives, "n y."}))
    first = {
        t: int(corpus.trigrams(np.array([i]))[0] % corpus.words)
        for i, t in enumerate(sorted({*positives, "n y."}))
    }
    for k, words in enumerate(learned):
        scored = {p for p, f in zip(positives, fold, strict=True) if f == k}
        images = {g for g, f in zip(groups, fold, strict=True) if f == k}
        others = {p for p, g in zip(positives, groups, strict=True) if g not in images} - scored
        assert words & set(first.values()) == {first[text] for text in others}
