import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.blind.cross_validation import fit_pair_weights, group_folds, score_out_of_fold
from caramel.blind.scorers import deduplicate_texts
from caramel.utils.hashing import assign_folds
from caramel.utils.resampling import CrossValidation


def drawn(seed: int = 0, rows: int = 200) -> tuple[list[str], list[str], list[str]]:
    rng = np.random.default_rng(seed)
    positives = [f"p{i} q{i % 7}" for i in rng.integers(80, size=rows)]
    negatives = [f"n{i} q{i % 5}" for i in rng.integers(120, size=rows)]
    return positives, negatives, [f"i{i}" for i in rng.integers(60, size=rows)]


def test_an_item_and_a_group_never_stand_on_both_sides():
    positives, negatives, groups = drawn()
    texts, sides = deduplicate_texts(positives, negatives)
    fold = assign_folds(groups, folds=5, seed=3)
    seen = []

    def learn(learned, scored):
        seen.append((learned, scored))
        return np.zeros(len(scored))

    score_out_of_fold(texts, sides, CrossValidation(groups, 5, 3), learn, cap=10**6)
    images = {}
    for group, pair in zip(groups, map(tuple, sides.T.tolist()), strict=True):
        images.setdefault(pair, set()).add(group)
    for k, (learned, scored) in enumerate(seen):
        held_out = {group for group, at in zip(groups, fold, strict=True) if at == k}
        assert learned.size
        assert scored.tolist() == sorted(set(sides[:, fold == k].ravel().tolist()))
        assert not np.isin(learned, scored).any()
        assert all(images[pair] - held_out for pair in map(tuple, learned.T.tolist()))


def test_it_learns_from_so_many_pairs_at_most():
    positives, negatives, groups = drawn()
    texts, sides = deduplicate_texts(positives, negatives)
    sizes = []

    def learn(learned, scored):
        sizes.append(learned.shape[1])
        return np.zeros(len(scored))

    score_out_of_fold(texts, sides, CrossValidation(groups, 5, 3), learn, cap=20)
    assert sizes == [20] * 5


def test_weights_are_those_at_which_the_loss_is_least():
    """Against a plain minimiser of the penalised loss on rescaled features."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    differences = rng.normal(size=(60, 4)) * [1, 5, 0.1, 1] + [0.3, 0, 0.05, 0]
    scale = np.sqrt((differences**2).mean(0))

    def loss(weights):
        return 0.5 * np.logaddexp(0, -(differences / scale) @ weights).sum() + weights @ weights / 2

    expected = minimize(loss, np.zeros(4), tol=1e-10).x / scale
    assert fit_pair_weights(differences, cost=0.5) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_features_without_a_difference_and_too_few_pairs_have_no_weight():
    assert fit_pair_weights(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), cost=1.0)[1] == 0
    assert fit_pair_weights(np.zeros((0, 3)), cost=1.0).tolist() == [0, 0, 0]
    assert fit_pair_weights(np.ones((1, 3)), cost=1.0).tolist() == [0, 0, 0]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=20), st.integers(2, 5))
def test_nobody_is_judged_by_what_was_learned_from_his_own_group(rows, folds):
    groups, train_only = [g for g, _ in rows], np.array([t for _, t in rows], dtype=bool)
    for given_train_only in (None, train_only):
        parts = group_folds(CrossValidation(groups, folds, 1, given_train_only))
        judged = np.sum([part.test for part in parts], axis=0) if parts else np.zeros(len(rows))
        expected = np.ones(len(rows)) if given_train_only is None else ~train_only
        assert (judged == expected).all()
        for here, learned in parts:
            mine = {groups[i] for i in np.flatnonzero(here)}
            may = np.ones(len(rows), dtype=bool) if given_train_only is None else train_only
            fold = {groups[i] for i in np.flatnonzero(may & ~learned)}
            assert not mine & {groups[i] for i in np.flatnonzero(learned)}
            assert fold <= mine  # nothing else is left out
    if train_only.any() and not {g for g, t in rows if t} & {g for g, t in rows if not t}:
        assert len(group_folds(CrossValidation(groups, folds, 1, train_only))) == int((~train_only).any())
