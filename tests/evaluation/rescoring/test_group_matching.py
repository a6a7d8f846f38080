"""Wrappers that use a benchmark's groups gain what they should, and nothing where groups say nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caramel.benchmarks.content import hash_texts
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.evaluation.rescoring import matching
from caramel.evaluation.rescoring.matching import DISJOINT, GROUP_MATCH, NONE, TEST_TIME, TRANSDUCTIVE
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.utils.resampling import Bootstrap

WORDS = ("red", "blue", "green", "dog", "cat", "egg")
BOOTSTRAP = Bootstrap(100, 3)


def build_task(texts: list[tuple[str, str]]) -> Comparisons:
    rows: list[dict[str, object]] = [
        {"instance_id": f"i-{n}", "image_id": f"image-{n}", "subsets": [], "image": 0, "negative_image": 1,
         "caption": first, "negative_caption": second}
        for n, (first, second) in enumerate(texts)
    ]  # fmt: skip
    return build_comparisons(rows, [ImageFile("a.png"), ImageFile("b.png")])


def build_similarities(task: Comparisons, scores: np.ndarray) -> pd.DataFrame:
    """Return the similarities (n, caption, image) as rows of a table."""
    columns = dict(zip(matching.SCORES, scores.reshape(len(scores), 4).T, strict=True))
    return task.rows.assign(model="m", benchmark="winoground", texts_hash=hash_texts(task), **columns)


def compute_gains(texts: list[tuple[str, str]], scores: np.ndarray) -> pd.DataFrame:
    task = build_task(texts)
    gains = matching.compute_matching_gains(build_similarities(task, scores), task, bootstrap=BOOTSTRAP)
    return gains.set_index(["wrapper", "setting"])


@settings(max_examples=40, deadline=None)
@given(data=st.data(), n=st.integers(5, 14))
def test_no_wrapper_gains_on_permuted_groups_whatever_the_scores(data: st.DataObject, n: int) -> None:
    scores = data.draw(arrays(float, (n, 2, 2), elements=st.floats(-1, 1, width=16)))
    captions = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
    gains = compute_gains(data.draw(st.lists(st.tuples(captions, captions), min_size=n, max_size=n)), scores)
    np.testing.assert_allclose(gains["permuted"], 0.5)
    np.testing.assert_allclose(gains["permuted_gain"], 0, atol=1e-12)


def test_the_control_shows_a_wrapper_that_uses_the_position_of_a_caption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = matching.compute_leans

    def leak(groups: matching.Groups, seed: int) -> list[np.ndarray]:
        alone, match, *others = honest(groups, seed)
        return [alone, match + np.array([5.0, -5.0]), *others]

    monkeypatch.setattr(matching, "compute_leans", leak)
    scores = np.random.default_rng(0).normal(size=(40, 2, 2))
    gains = compute_gains([(f"a {n}", f"b {n}") for n in range(40)], scores)
    assert gains.loc[(GROUP_MATCH, TRANSDUCTIVE), "permuted_gain"] == pytest.approx(0.5)


def test_group_match_is_the_published_metric_and_the_raw_choice_is_that_of_each_image() -> None:
    scores = np.array([[[0.9, 0.8], [0.5, 0.7]], [[0.1, 0.5], [0.2, 0.9]], [[0.3, 0.4], [0.6, 0.2]]] * 2)
    gains = compute_gains([("x", "y")] * 6, scores)["value"]
    # Margins .9 + .7 - .8 - .5 > 0, .1 + .9 - .5 - .2 > 0 and .3 + .2 - .4 - .6 < 0.
    assert gains[GROUP_MATCH, TRANSDUCTIVE] == pytest.approx(2 / 3)
    # Images of the first and third column: right and wrong, wrong and right, wrong and wrong.
    assert gains[NONE, DISJOINT] == pytest.approx(1 / 3)


def test_what_is_learned_of_words_helps_groups_that_were_not_used() -> None:
    rng = np.random.default_rng(1)
    texts = [(f"red {a}", f"blue {a}")[:: rng.choice((1, -1))] for a in rng.choice(WORDS[3:], 200)]
    liked = np.array([[1.0 * ("red" in text) for text in pair] for pair in texts])
    scores = 0.3 * np.eye(2) + liked[:, :, None] + 0.05 * rng.normal(size=(200, 2, 2))
    gains = compute_gains(texts, scores)
    assert gains.loc[(NONE, DISJOINT), "value"] == pytest.approx(0.5), "the liked word decides"
    assert gains.loc[(TEST_TIME, DISJOINT), "gain_low"] > 0.3
    assert gains.loc[(TEST_TIME, TRANSDUCTIVE), "gain_low"] > 0.3


@pytest.mark.parametrize("unknown", [None, np.nan])
def test_texts_whose_hash_is_unknown_are_matched_by_their_ids(unknown: object) -> None:
    task = build_task([(f"red {n}", f"blue {n}") for n in range(8)])
    rows = build_similarities(task, np.random.default_rng(0).normal(size=(8, 2, 2)))
    expected = matching.compute_matching_gains(rows, task, bootstrap=BOOTSTRAP)
    rows = rows.assign(texts_hash=pd.array([unknown] * 8, dtype=object))
    found = matching.compute_matching_gains(rows, task, bootstrap=BOOTSTRAP)
    pd.testing.assert_frame_equal(found, expected)


def test_instances_with_one_image_or_of_other_texts_are_refused() -> None:
    task = build_task([("x", "y")] * 6)
    similarities = build_similarities(task, np.zeros((6, 2, 2)))
    with pytest.raises(DataError, match="0 instances with two captions and two images"):
        matching.compute_matching_gains(similarities.assign(s_c0_i1=np.nan), task, bootstrap=BOOTSTRAP)
    with pytest.raises(DataError, match="not those of --data: 6"):
        matching.compute_matching_gains(similarities, build_task([("x", "z")] * 6), bootstrap=BOOTSTRAP)
