import numpy as np
import pytest

from caramel.blind.text import surface
from caramel.utils.hashing import assign_folds
from caramel.utils.resampling import CrossValidation

RULES = ["length", "words", "tokens", "final_punctuation", "casing", "digits", "articles"]


def share_right(scores: tuple[np.ndarray, np.ndarray]) -> float:
    positive, negative = scores
    return float(np.mean((positive > negative) + 0.5 * (positive == negative)))


def images(rows: int) -> list[str]:
    return [f"i{i}" for i in range(rows)]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("rule", "plain", "marked"),
    [
        ("length", "A cat.", "A cart."),
        ("words", "A cat.", "A c at"),
        ("tokens", "A cat.", "A, c at"),
        ("tokens", "A cat", "A cat."),
        ("final_punctuation", "A cat", "A cat."),
        ("final_punctuation", "A cat!", "A cat."),
        ("casing", "a cat.", "A cat."),
        ("casing", "A CAT.", "A cat."),
        ("digits", "A cat.", "4 cats."),
        ("articles", "A cat.", "One cat."),
        ("articles", "The cat and the dog", "The cat and dog"),
    ],
)
def test_a_rule_finds_its_artefact_on_either_side(rule, plain, marked, swapped):
    first, second = (marked, plain) if swapped else (plain, marked)
    scores = getattr(surface, rule)([first] * 20, [second] * 20, CrossValidation(images(20), 5, 3))
    assert share_right(scores) == 1


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("length", "A cat.", " A cow. "),
        ("words", "A cat.", "A long-tailed, cow"[:5]),
        ("tokens", "A cat.", "A dog!"),
        ("casing", "A cat.", "A dog, a cow!"),
        ("digits", "Four cats", "Two dogs"),
        ("articles", "A cat sees the dog.", "The dog sees a cat."),
    ],
)
def test_a_rule_does_not_see_other_things(rule, first, second):
    positive, negative = getattr(surface, rule)([first] * 9, [second] * 9, CrossValidation(images(9), 3, 3))
    assert (positive == negative).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("text", ["", " ", ".", "A", "1" * 2000, "é" * 50, "THE THE"])
def test_a_property_is_in_range(rule, text):
    assert 0 <= getattr(surface, rule).measure(text) <= 1


def test_the_direction_of_a_rule_is_learned_on_other_images_only():
    """One image favours long texts, all others short ones: on that image the rule is wrong."""
    short, long = "A cat.", "A cat on a mat."
    positives, negatives = [long, *[short] * 30], [short, *[long] * 30]
    positive, negative = surface.length(positives, negatives, CrossValidation(images(31), 5, 3))
    assert positive[0] < negative[0]
    assert (positive[1:] > negative[1:]).all()


@pytest.mark.parametrize("swapped", [False, True])
def test_rare_words_are_found_though_each_is_another_one(swapped):
    rng = np.random.default_rng(0)
    common = [" ".join(rng.choice(["cat", "dog", "sees", "the", "a"], size=5)) for _ in range(60)]
    rare = [f"{text.rsplit(' ', 1)[0]} x{i}" for i, text in enumerate(common)]
    sides = (rare, common) if swapped else (common, rare)
    assert share_right(surface.score_with_rare_words(*sides, CrossValidation(images(60), 5, 3))) == 1


def test_how_common_a_word_is_is_counted_in_the_texts_of_other_folds():
    """ "zap" stands in all texts of one fold and in no other: there, and only there, it is rare."""
    groups = images(40)
    fold = assign_folds(groups, folds=2, seed=3)
    positives = [f"cat {i}" for i in range(40)]
    negatives = [f"{'zap' if f else 'cat'} {i + 100}" for i, f in enumerate(fold)]
    positive, negative = surface.score_with_rare_words(positives, negatives, CrossValidation(groups, 2, 3))
    inside = fold == 1
    assert (positive[inside] != negative[inside]).all()
    assert (positive[~inside] == negative[~inside]).all()


def test_where_the_sides_are_drawn_by_lot_rare_words_tell_nothing():
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in rng.geometric(0.05, size=6)) for _ in range(2000)]
    found = surface.score_with_rare_words(texts[:1000], texts[1000:], CrossValidation(images(1000), 5, 3))
    assert share_right(found) == pytest.approx(0.5, abs=0.06)
