import numpy as np
import pytest

from caramel.quality import probe as probes
from caramel.quality.probe import probe


def planted(rows: int, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return texts of random words; each negative holds "purple", no positive does."""
    rng = np.random.default_rng(seed)
    words = [" ".join(f"w{i}" for i in rng.integers(60, size=6)) for _ in range(2 * rows)]
    return words[:rows], [f"purple {text}" for text in words[rows:]], [f"i{i // 2}" for i in range(rows)]


def share_right(scores: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.mean((scores[0] > scores[1]) + 0.5 * (scores[0] == scores[1])))


def test_a_word_that_only_negatives_have_gives_them_away():
    assert share_right(probe(*planted(200), folds=5, seed=3)) > 0.98


def test_where_the_sides_are_drawn_by_lot_the_probe_is_at_chance():
    first, second, groups = planted(1200)
    heads = np.random.default_rng(1).random(1200) < 0.5
    positives = [a if h else b for a, b, h in zip(first, second, heads, strict=True)]
    negatives = [b if h else a for a, b, h in zip(first, second, heads, strict=True)]
    assert share_right(probe(positives, negatives, groups, folds=5, seed=3)) == pytest.approx(0.5, abs=0.06)


def test_texts_that_repeat_on_other_images_cannot_be_learned_by_heart():
    positive, negative = probe(["a cat"] * 30, ["a dog"] * 30, [str(i) for i in range(30)], folds=5, seed=3)
    assert (positive == negative).all()


def test_a_caption_and_an_image_never_stand_on_both_sides(monkeypatch):
    rng = np.random.default_rng(0)
    positives = [f"p{i}" for i in rng.integers(80, size=200)]
    negatives = [f"n{i}" for i in rng.integers(120, size=200)]
    groups = [f"i{i}" for i in rng.integers(60, size=200)]
    _, sides = probes.places(positives, negatives)
    fold = probes.assign_folds(groups, folds=5, seed=3)
    learned = []

    def spy(features, sides, seed):
        learned.append(sides)
        return np.zeros(features.shape[1])

    monkeypatch.setattr(probes, "_learn", spy)
    probe(positives, negatives, groups, folds=5, seed=3)
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

    def spy(features, sides, seed):
        sizes.append(sides.shape[1])
        return np.zeros(features.shape[1])

    monkeypatch.setattr(probes, "CAP", 50)
    monkeypatch.setattr(probes, "_learn", spy)
    probe(*planted(200), folds=5, seed=3)
    assert sizes == [50] * 5


def test_equal_input_gives_equal_scores_in_any_order():
    positives, negatives, groups = planted(100)
    first = probe(positives, negatives, groups, folds=5, seed=3)
    order = np.random.default_rng(2).permutation(100)
    mixed = ([column[i] for i in order] for column in (positives, negatives, groups))
    second = probe(*mixed, folds=5, seed=3)
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a[order], b)
