import itertools
import random

import numpy as np
import pytest

from caramel.utils import minhash
from caramel.utils.minhash import (
    Index,
    build_shingles,
    choose_bands,
    compute_band_keys,
    compute_jaccard,
    compute_signatures,
    hash_functions,
)


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    """Return random sentences; each but the first is new, or an earlier one with a few words changed."""
    draw, found = random.Random(seed), [["a"]]
    vocabulary = [f"w{n}" for n in range(200)]
    while len(found) < count:
        if draw.random() < 0.3:
            words = draw.choices(vocabulary, k=draw.randint(1, 14))
        else:
            words = list(draw.choice(found))
            for _ in range(draw.randint(0, 2)):
                words.insert(draw.randint(0, len(words)), draw.choice(vocabulary))
        found.append(words)
    return found


def pairs_of(words: list[str]) -> set[tuple[str, ...]]:
    return set(itertools.pairwise(words)) if len(words) > 1 else {tuple(words)}


def brute(one: list[str], other: list[str]) -> float:
    a, b = pairs_of(one), pairs_of(other)
    return len(a & b) / len(a | b)


def test_shingles_are_the_distinct_word_pairs_of_each_text():
    texts = [["a", "b", "a", "b"], ["a"], ["b", "a"], ["a", "b"], ["b"], ["a"]]
    found = build_shingles(texts)
    assert np.diff(found.starts).tolist() == [len(pairs_of(text)) for text in texts]
    sets = [set(found.values[low:high].tolist()) for low, high in itertools.pairwise(found.starts)]
    assert sets[0] == sets[2] | sets[3]
    assert sets[1] == sets[5]
    assert len(sets[1] | sets[2] | sets[3] | sets[4]) == 4


def test_jaccard_is_that_of_the_sets_of_word_pairs():
    ours, theirs = sentences(60, 1), sentences(80, 2)
    mine, its = (side.ravel() for side in np.meshgrid(np.arange(60), np.arange(80), indexing="ij"))
    found = compute_jaccard(build_shingles(ours), build_shingles(theirs), mine, its)
    assert found.tolist() == [brute(ours[i], theirs[j]) for i, j in zip(mine, its, strict=True)]
    same = np.arange(60)
    assert (compute_jaccard(build_shingles(ours), build_shingles(ours), same, same) == 1).all()


def test_signatures_agree_as_often_as_texts_are_similar():
    texts = sentences(150, 3)
    found = compute_signatures(build_shingles(texts), hash_functions(2000, 5))
    pairs = [(i, j) for i in range(150) for j in range(i) if brute(texts[i], texts[j]) > 0]
    errors = [(found[:, i] == found[:, j]).mean() - brute(texts[i], texts[j]) for i, j in pairs]
    assert len(pairs) > 300
    assert max(map(abs, errors)) < 0.06  # five standard deviations of 2,000 draws
    assert abs(np.mean(errors)) < 0.01


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95, 1.0])
def test_bands_are_the_longest_that_keep_the_recall(threshold):
    size, count = choose_bands(threshold, 128)

    def recall(size: int) -> float:
        return 1 - (1 - threshold**size) ** (128 // size)

    assert size * count <= 128
    assert recall(size) >= minhash.RECALL
    assert size == 128 or recall(size + 1) < minhash.RECALL


@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_the_index_gives_each_pair_that_shares_a_band_once(monkeypatch, most):
    monkeypatch.setattr(minhash, "MOST_PAIRS", most)
    draw = np.random.default_rng(2)
    keys = draw.integers(0, 6, (3, 20)).astype(np.uint64)
    table = draw.integers(0, 8, (3, 30)).astype(np.uint64)
    parts = list(Index(keys).iter_pairs(table))
    found = [pair for mine, its in parts for pair in zip(mine.tolist(), its.tolist(), strict=True)]
    expected = {(i, j) for i in range(20) for j in range(30) if (keys[:, i] == table[:, j]).any()}
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert len(parts) == (1 if most == 10_000 else len({j for _, j in expected}))


def test_band_keys_are_equal_where_whole_bands_are():
    draw = np.random.default_rng(4)
    least = draw.integers(0, 3, (6, 40)).astype(np.uint64)
    keys = compute_band_keys(least, 2)
    assert keys.shape == (3, 40)
    for band in range(3):
        rows = least[[2 * band, 2 * band + 1]]
        same = (rows[:, :, None] == rows[:, None, :]).all(axis=0)
        assert ((keys[band][:, None] == keys[band][None, :]) == same).all()
