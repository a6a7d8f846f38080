import numpy as np
from blind_scores import score_columns

from caramel.blind.text.char_ngram import score_with_char_ngrams
from caramel.blind.text.ngram import score_with_ngrams
from caramel.utils.resampling import CrossValidation

WORDS = ["walking", "running", "jumping", "sitting", "sleeping", "reading", "eating", "singing"]


def captions(rows, seed=0):
    rng = np.random.default_rng(seed)
    return [f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i}" for i in range(rows)]


def test_misspelt_words_that_were_never_seen_are_told_by_their_signs():
    """Each negative has a new misspelling: to a model of words all of them are unknown alike."""
    positives = captions(150)
    negatives = [text.replace("ing", "ign", 1) for text in positives]
    groups = [str(i) for i in range(150)]
    positive, negative = score_with_char_ngrams(positives, negatives, CrossValidation(groups, 5, 3))
    assert np.mean(positive > negative) > 0.95


def test_case_and_space_count_for_signs_and_not_for_words():
    positives = captions(100)
    shouted = [text.upper() for text in positives]
    groups = [str(i) for i in range(100)]
    positive, negative = score_with_char_ngrams(positives, shouted, CrossValidation(groups, 5, 3))
    assert np.mean(positive > negative) > 0.95
    positive, negative = score_with_ngrams(positives, shouted, CrossValidation(groups, 5, 3))
    assert np.array_equal(positive, negative)


def test_a_given_corpus_is_learned_from():
    groups = [str(i) for i in range(40)]
    columns = captions(40), captions(40, seed=1), groups
    english = score_columns(score_with_char_ngrams, *columns, folds=5, seed=3, corpus=captions(200, seed=2))
    other = score_columns(score_with_char_ngrams, *columns, folds=5, seed=3, corpus=["xyz"] * 3)
    assert not np.array_equal(english, other)
