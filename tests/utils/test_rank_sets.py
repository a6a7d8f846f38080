import numpy as np
import pytest

from caramel.utils.rank_sets import compute_rank_bounds, find_paired_order, find_published_order, group_ties


def draw_totals(accuracies: list[float], images: int = 400, seed: int = 0) -> np.ndarray:
    """Return each image's contribution to each model's accuracy."""
    rng = np.random.default_rng(seed)
    hits = rng.random((images, 1)) * 0.5 + rng.random((images, len(accuracies))) * 0.5
    return (hits < np.array(accuracies)) / images


def test_models_far_apart_have_one_rank_each_and_one_letter_each() -> None:
    better = find_paired_order(draw_totals([0.2, 0.9, 0.5]), seed=1)
    best, worst = compute_rank_bounds(better)
    assert best.tolist() == worst.tolist() == [3, 1, 2]
    assert group_ties(better, [1, 2, 0]) == ["c", "a", "b"]


def test_equal_models_are_never_separated() -> None:
    totals = np.repeat(draw_totals([0.7]), 4, axis=1)
    better = find_paired_order(totals, seed=1)
    assert not better.any()
    best, worst = compute_rank_bounds(better)
    assert best.tolist() == [1] * 4
    assert worst.tolist() == [4] * 4
    assert group_ties(better, range(4)) == ["a"] * 4


def test_a_model_between_two_shares_a_letter_with_both() -> None:
    better = np.zeros((3, 3), bool)
    better[0, 2] = True
    assert group_ties(better, [0, 1, 2]) == ["a", "ab", "b"]


def test_two_models_share_a_letter_exactly_if_their_order_is_not_shown() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        values = rng.permutation(6)
        better = (values[:, None] > values[None] + rng.integers(0, 3)) & (rng.random((6, 6)) < 0.7)
        letters = group_ties(better, np.argsort(-values).tolist())
        for j, k in np.argwhere(~np.eye(6, dtype=bool)):
            shared = bool(set(letters[j]) & set(letters[k]))
            assert shared == (not better[j, k] and not better[k, j])


def test_two_models_are_separated_as_by_the_exact_sign_test() -> None:
    """Five clusters that all favour one model give p = 2 / 32; six give 2 / 64."""
    for clusters, shown in ((5, False), (6, True)):
        totals = np.zeros((50, 2))
        totals[:clusters, 0] = 1
        assert find_paired_order(totals, seed=3)[0, 1] == shown


def test_the_order_does_not_depend_on_the_columns_order() -> None:
    totals = draw_totals([0.3, 0.5, 0.6, 0.8])
    better, turned = find_paired_order(totals, seed=1), find_paired_order(totals[:, ::-1], seed=1)
    assert (better == turned[::-1, ::-1]).all()


def test_an_order_that_follows_from_two_others_is_shown() -> None:
    better = find_paired_order(draw_totals([0.3, 0.5, 0.7]), seed=1)
    assert better[2, 1]
    assert better[1, 0]
    assert better[2, 0]


def test_paired_sets_are_narrower_than_those_of_shares_alone() -> None:
    totals = draw_totals([0.60, 0.66], images=1000)
    n = np.array([1000, 1000])
    assert find_paired_order(totals, seed=1)[1, 0]
    assert not find_published_order(totals.sum(axis=0), n, 0.0).any() or totals.sum(axis=0)[1] > 0.66


def test_published_shares_separate_only_models_far_enough_apart() -> None:
    better = find_published_order(np.array([0.60, 0.61, 0.75]), np.array([600] * 3), 0.00005)
    assert better[2, 0]
    assert better[2, 1]
    assert not better[1, 0]


def test_rounding_makes_sets_wider() -> None:
    values, n = np.array([0.600, 0.606]), np.array([10**5] * 2)
    assert find_published_order(values, n, 0.00005)[1, 0]
    assert not find_published_order(values, n, 0.003).any()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_seed_determines_the_sets(seed: int) -> None:
    totals = draw_totals([0.6, 0.62, 0.64, 0.66])
    assert (find_paired_order(totals, seed) == find_paired_order(totals, seed)).all()
