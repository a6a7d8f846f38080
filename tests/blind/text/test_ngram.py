import numpy as np
from blind_scores import score_columns

from caramel.blind.text.kneser_ney import LikelihoodScorer
from caramel.blind.text.ngram import DISCOUNT, score_with_ngrams
from caramel.utils.resampling import CrossValidation


def test_the_model_is_of_three_words_with_one_discount():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdef"), size=5)) for _ in range(120)]
    columns = texts[:60], texts[60:], [f"i{i // 2}" for i in range(60)]
    found = score_columns(score_with_ngrams, *columns, folds=5, seed=3)
    expected = score_columns(
        LikelihoodScorer(str.split, 3, (DISCOUNT, DISCOUNT, DISCOUNT)), *columns, folds=5, seed=3
    )
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, score_columns(LikelihoodScorer(str.split, 3), *columns, folds=5, seed=3))


def test_captions_in_the_usual_order_of_words_beat_shuffled_ones():
    rng = np.random.default_rng(0)
    parts = [["red", "blue", "old"], ["cat", "dog", "man"], ["on", "under"], ["mat", "box", "bed", "sofa"]]
    lines = [[str(rng.choice(p)) for p in parts] + [str(i)] for i in range(200)]
    positives = [f"A {' '.join(words)}." for words in lines]
    negatives = [f"A {' '.join(rng.permutation(words[:4]))} {words[4]}." for words in lines]
    scores = score_with_ngrams(positives, negatives, CrossValidation([str(i) for i in range(200)], 5, 3))
    differ = np.array([p != n for p, n in zip(positives, negatives, strict=True)])
    assert np.mean(scores[0][differ] > scores[1][differ]) > 0.95
