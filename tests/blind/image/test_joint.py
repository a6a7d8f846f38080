"""The joint attacker against the metrics' definitions, one instance at a time."""

import numpy as np
import pytest

from caramel.blind.image.joint import METRICS, compute_hit_shares, compute_joint_hits
from caramel.utils.stats import share_interval, variance_factor


def definition(t0, t1, p0, p1):
    """Return I2T, T2I, Group and GroupMatch of s(c, i) = a(c) · b(i), less the instance's means, as their authors define them."""

    def s(text, picture):
        return (text - (t0 + t1) / 2) * (picture - (p0 + p1) / 2)

    i2t = s(t0, p0) > s(t1, p0) and s(t1, p1) > s(t0, p1)
    t2i = s(t0, p0) > s(t0, p1) and s(t1, p1) > s(t1, p0)
    matched = s(t0, p0) + s(t1, p1) > s(t1, p0) + s(t0, p1)
    return i2t, t2i, i2t and t2i, matched


def test_group_and_its_parts_hold_exactly_where_groupmatch_does():
    scores = np.random.default_rng(0).choice([0.0, 0.25, 0.5, 0.75, 1.0], (4, 300))
    found = compute_joint_hits((scores[0], scores[1]), (scores[2], scores[3]))
    assert list(found) == list(METRICS) == ["group_match"]
    for hit, each in zip(found["group_match"], scores.T, strict=True):
        assert set(definition(*each)) == {bool(hit)}


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_texts_and_pictures_that_both_tell_match_whatever_their_level(level):
    """Both captions may look true, as those of one set do: what tells them is which looks truer."""
    texts = np.full(50, level), np.full(50, level - 0.05)
    pictures = np.full(50, 1.0), np.full(50, 0.6)
    assert compute_joint_hits(texts, pictures)["group_match"].mean() == 1


def test_one_alone_tells_nothing():
    yes, no, half = np.array([0.9]), np.array([0.1]), np.array([0.5])
    assert compute_joint_hits((yes, no), (half, half)).iloc[0].tolist() == [0]
    assert compute_joint_hits((half, half), (yes, no)).iloc[0].tolist() == [0]
    scores = np.random.default_rng(1).random((2, 40_000))
    pictures = np.ones(40_000), np.zeros(40_000)
    assert compute_joint_hits((scores[0], scores[1]), pictures)["group_match"].mean() == pytest.approx(
        0.5, abs=0.01
    )


def test_what_is_not_scored_is_neither_right_nor_wrong():
    side = np.array([0.9, np.nan]), np.array([0.1, 0.2])
    assert np.isnan(compute_joint_hits(side, (np.ones(2), np.zeros(2))).iloc[1]).all()


def test_shares_have_the_interval_of_the_project_and_say_what_is_unscored():
    hits = np.array([1.0, 0.0, 1.0, 0.5, np.nan, np.nan])
    clusters = np.array([4, 4, 7, 9, 9, 2])
    subsets = {"all": np.arange(6), "lost": np.array([4, 5])}
    found = compute_hit_shares(hits, subsets, clusters, folds=4, value="accuracy")
    expected = share_interval(
        hits[:4], np.zeros(4, dtype=int), np.array([0, 0, 1, 2]), factor=variance_factor(4)
    )
    assert [found["all"][k] for k in ("accuracy", "ci_low", "ci_high")] == pytest.approx(expected, abs=1e-6)
    assert (found["all"]["n"], found["all"]["unscored"]) == (4, 2)
    assert found["lost"] == {"accuracy": None, "ci_low": None, "ci_high": None, "n": 0, "unscored": 2}
