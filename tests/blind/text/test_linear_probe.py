import numpy as np
import pytest
from blind_scores import score_columns

from caramel.blind.text import linear_probe as probes
from caramel.blind.text.linear_probe import (
    extract_edits,
    score_with_char_probe,
    score_with_edit_probe,
    score_with_probe,
)
from caramel.utils.hashing import assign_folds
from caramel.utils.resampling import CrossValidation


def planted(rows: int, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return texts of random words; each negative holds "purple", no positive does."""
    rng = np.random.default_rng(seed)
    words = [" ".join(f"w{i}" for i in rng.integers(60, size=6)) for _ in range(2 * rows)]
    return words[:rows], [f"purple {text}" for text in words[rows:]], [f"i{i // 2}" for i in range(rows)]


def share_right(scores: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.mean((scores[0] > scores[1]) + 0.5 * (scores[0] == scores[1])))


def test_a_word_that_only_negatives_have_gives_them_away():
    assert share_right(score_columns(score_with_probe, *planted(200), folds=5, seed=3)) > 0.98


def test_where_the_sides_are_drawn_by_lot_the_probe_is_at_chance():
    first, second, groups = planted(1200)
    heads = np.random.default_rng(1).random(1200) < 0.5
    positives = [a if h else b for a, b, h in zip(first, second, heads, strict=True)]
    negatives = [b if h else a for a, b, h in zip(first, second, heads, strict=True)]
    assert share_right(
        score_with_probe(positives, negatives, CrossValidation(groups, 5, 3))
    ) == pytest.approx(0.5, abs=0.06)


def test_texts_that_repeat_on_other_images_cannot_be_learned_by_heart():
    positive, negative = score_with_probe(
        ["a cat"] * 30, ["a dog"] * 30, CrossValidation([str(i) for i in range(30)], 5, 3)
    )
    assert (positive == negative).all()


def test_a_caption_and_an_image_never_stand_on_both_sides(monkeypatch):
    rng = np.random.default_rng(0)
    positives = [f"p{i}" for i in rng.integers(80, size=200)]
    negatives = [f"n{i}" for i in rng.integers(120, size=200)]
    groups = [f"i{i}" for i in rng.integers(60, size=200)]
    _, sides = probes.deduplicate_texts(positives, negatives)
    fold = assign_folds(groups, folds=5, seed=3)
    learned = []

    cross_fitted = probes.score_out_of_fold

    def spy(names, sides, groups, learn, **how):
        def noted(pairs, scored):
            learned.append(pairs)
            return learn(pairs, scored)

        return cross_fitted(names, sides, groups, noted, **how)

    monkeypatch.setattr(probes, "score_out_of_fold", spy)
    score_with_probe(positives, negatives, CrossValidation(groups, 5, 3))
    rows = {
        (p, n): {g for g, a, b in zip(groups, *sides.tolist(), strict=True) if (a, b) == (p, n)}
        for p, n in sides.T.tolist()
    }
    for k, part in enumerate(learned):
        images = {g for g, f in zip(groups, fold, strict=True) if f == k}
        assert part.size
        assert not np.isin(part, sides[:, fold == k]).any()
        assert all(rows[pair] - images for pair in map(tuple, part.T.tolist()))


def test_a_large_set_is_learned_from_a_random_part(monkeypatch):
    sizes = []

    def spy(features, sides, cost, seed):
        sizes.append(sides.shape[1])
        return np.zeros(features.shape[1])

    monkeypatch.setattr(probes, "CAP", 50)
    monkeypatch.setattr(probes, "fit_weights", spy)
    score_columns(score_with_probe, *planted(200), folds=5, seed=3)
    assert sizes == [50] * 5


def test_equal_input_gives_equal_scores_in_any_order():
    positives, negatives, groups = planted(100)
    first = score_with_probe(positives, negatives, CrossValidation(groups, 5, 3))
    order = np.random.default_rng(2).permutation(100)
    mixed = ([column[i] for i in order] for column in (positives, negatives, groups))
    second = score_columns(score_with_probe, *mixed, folds=5, seed=3)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a[order], b)


def test_misspelt_words_that_were_never_seen_give_themselves_away_by_their_signs():
    positives = [f"walking and running {i}" for i in range(80)]
    negatives = [text.replace("ing", "ign", 1) + str(i) for i, text in enumerate(positives)]
    groups = [str(i) for i in range(80)]
    assert share_right(score_with_char_probe(positives, negatives, CrossValidation(groups, 5, 3))) > 0.98


def edited(rows: int, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return pairs of which the false one has a word more: near the start, or in the second half by lot.

    Where the word is added only the pair of texts says; the words themselves are drawn from one list.
    """
    rng = np.random.default_rng(seed)
    positives, negatives = [], []
    for _ in range(rows):
        text = [f"w{i}" for i in rng.integers(30, size=10)]
        late = [*text[:9], f"w{rng.integers(30)}", *text[9:]]
        early = [text[0], f"w{rng.integers(30)}", *text[1:]]
        sides = (late, text) if rng.random() < 0.5 else (text, early)
        positives.append(" ".join(sides[0]))
        negatives.append(" ".join(sides[1]))
    return positives, negatives, [f"i{i}" for i in range(rows)]


def test_the_place_of_the_edit_tells_what_the_texts_alone_do_not():
    """An added word is true near the end and false near the start: length and words say nothing."""
    assert share_right(score_columns(score_with_edit_probe, *edited(600), folds=5, seed=3)) > 0.95
    assert share_right(score_columns(score_with_probe, *edited(600), folds=5, seed=3)) < 0.8


def test_where_the_sides_are_drawn_by_lot_edits_are_at_chance():
    first, second, groups = edited(800)
    heads = np.random.default_rng(1).random(800) < 0.5
    positives = [a if h else b for a, b, h in zip(first, second, heads, strict=True)]
    negatives = [b if h else a for a, b, h in zip(first, second, heads, strict=True)]
    assert share_right(
        score_with_edit_probe(positives, negatives, CrossValidation(groups, 5, 3))
    ) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize(
    ("mine", "other", "found"),
    [
        ("a cat sits", "a dog sits", ["cat", "after a: cat", "before sits: cat", "edit of 1"]),
        ("a big cat", "a cat", ["big", "after a: big", "before cat: big", "edit of 1"]),
        ("a cat", "a big cat", ["after a: ", "before cat: ", "edit of 0"]),
        ("b a", "a b", ["b", "a", "after <s>: b", "before </s>: a", "edit of 2"]),
        ("a a a", "a a", ["a", "after a: a", "before </s>: a", "edit of 1"]),
        ("same", "Same", ["after </s>: ", "before : ", "edit of 0"]),
    ],
)
def test_an_edit_is_what_differs_between_the_two_texts(mine, other, found):
    *terms, place = extract_edits((mine, other))
    assert terms == found
    assert place.startswith(f"{found[-1]} in tenth ")


def test_texts_that_repeat_in_other_pairs_are_not_learned_from_by_edits():
    """A negative that stands against another caption elsewhere is the same text: it is left out."""
    positives = [f"a cat {i}" for i in range(30)]
    scores = score_with_edit_probe(
        positives, ["a dog"] * 30, CrossValidation([str(i) for i in range(30)], 5, 3)
    )
    assert len(np.unique(scores)) == 1
