import numpy as np
import pandas as pd
import pytest
from encoders import CountingEncoder

from caramel.errors import BackendError, ConfigError, DataError
from caramel.refine import negative_faults, selection
from caramel.refine.adversarial import NO_WORDS, UNBALANCED
from caramel.refine.selection import find_reasons, select_rows
from caramel.schemas.contracts import check_table
from caramel.schemas.rejects import REJECTS

TWO = ("vera", "cola")


def rows(negatives, subtypes=None, captions=None) -> pd.DataFrame:
    n = len(negatives)
    return pd.DataFrame(
        {
            **{"pair_id": [f"p{i:03d}" for i in range(n)], "subtype": subtypes or ["swap_obj"] * n},
            **{"caption": captions or ["A cat sat here."] * n, "negative_caption": negatives},
        }
    )


def selected(data, positive, negative, *, percentile=64.5, cell=0.02, similarity=None):
    why = find_reasons(
        data,
        np.asarray(positive, dtype=float),
        np.asarray(negative, dtype=float),
        scorers=TWO,
        cell=cell,
        within="all",
        seed=1,
        percentile=percentile,
        similarity=similarity,
    )
    found = select_rows(data, why)
    assert len(found.rows) + len(found.rejects) == len(data)
    check_table(REJECTS, found.rejects, "test")
    return found


def reasons(found) -> dict[str, str]:
    return dict(zip(found.rejects["id"], found.rejects["reason"], strict=True))


def test_negatives_below_the_percentile_of_their_subtype_are_dropped():
    n = 400
    rng = np.random.default_rng(0)
    data = rows([f"A dog of number {i}." for i in range(n)], ["swap_obj", "add_obj"] * (n // 2))
    scores = rng.random((n, 2)) * np.where(np.arange(n) % 2, 0.1, 1.0)[:, None]
    found = selected(data, scores, scores)  # all gaps are zero: the grid keeps everything
    kept = np.isin(data["pair_id"], found.rows["pair_id"])
    for subtype in ("swap_obj", "add_obj"):
        mine = (data["subtype"] == subtype).to_numpy()
        bounds = [sorted(scores[mine, c])[round(0.645 * (mine.sum() - 1) + 0.5)] for c in (0, 1)]
        assert (kept & mine).tolist() == (mine & (scores >= bounds).all(axis=1)).tolist()
        assert 0 < (kept & mine).sum() < 60
    low = scores[:, 0] < [
        np.percentile(scores[(data["subtype"] == s).to_numpy(), 0], 64.5) for s in data["subtype"]
    ]
    assert {name for name, reason in reasons(found).items() if reason.endswith("vera")} == set(
        data.loc[low, "pair_id"]
    )


def test_a_score_at_the_percentile_is_high_enough():
    data = rows(["A dog of one.", "A dog of two.", "A dog of three."])
    scores = np.array([[0.1, 0.5], [0.5, 0.5], [0.9, 0.5]])
    assert selected(data, scores, scores, percentile=50).rows["pair_id"].tolist() == ["p001", "p002"]


def test_every_negative_that_is_not_clean_is_dropped_with_its_reason():
    negatives = [
        "A dog sat here.",
        "Is it a dog?",
        "A dog sat here too",
        "a CAT, sat here .",
        "... ... ... ...",
        "a dog sat  here.",
        'He said "no."',
        "A dog sat here!",
    ]
    found = selected(rows(negatives), np.full((8, 2), 0.5), np.full((8, 2), 0.5))
    assert reasons(found) == {
        "p001": negative_faults.QUESTION,
        "p002": negative_faults.UNFINISHED,
        "p003": selection.AS_CAPTION,
        "p004": NO_WORDS,
        "p005": negative_faults.TWICE,
        "p007": negative_faults.UNFINISHED,
    }


def test_texts_of_a_similarity_of_0_999_are_as_good_as_the_same():
    long = "very " * 250 + "cat"
    captions = [f"{long}.", f"{long}.", "A cat sat here."]
    negatives = [f"{long[:-1]}p.", f"{long[:-2]}up.", "A bat sat here."]
    found = selected(rows(negatives, captions=captions), np.full((3, 2), 0.5), np.full((3, 2), 0.5))
    assert reasons(found) == {"p000": selection.AS_CAPTION}  # one of 1253 signs; two are too many


def test_what_is_as_good_as_its_caption_or_short_has_no_part_in_the_percentiles():
    """Of ten rows of one subtype five are no negatives: the median is that of the other five."""
    negatives = [f"A dog of number {i}." for i in range(10)]
    negatives[1], negatives[3] = "A bus sat.", "a cat SAT, here."
    scores = np.tile(np.array([0.95, 0.9, 0.9, 0.9, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5])[:, None], 2)
    similarity = np.array([0.9, 0.2, 0.999, 0.2, 1.0, 0.9989, 0.5, 0.5, -1.0, 0.0])
    data = rows(negatives)
    found = selected(data, scores, scores, percentile=50, similarity=similarity)
    assert reasons(found) == {
        "p001": selection.SHORT,
        "p002": selection.AS_CAPTION,
        "p003": selection.AS_CAPTION,
        "p004": selection.AS_CAPTION,
        "p005": "below the percentile of its subtype under vera",
        "p006": "below the percentile of its subtype under vera",
        "p007": "below the percentile of its subtype under vera",
    }  # the median of .95, .1, .2, .3, .4, .5 is .35
    assert "p002" not in reasons(selected(data, scores, scores, percentile=50))


@pytest.mark.parametrize(("text", "short"), [("A cat sat.", True), ("A cat sits.", False)])
def test_ten_signs_are_too_few(text, short):
    found = selected(rows([text]), np.full((1, 2), 0.5), np.full((1, 2), 0.5))
    assert (reasons(found) == {"p000": selection.SHORT}) == short


def test_cosines_are_those_of_the_models_texts(families, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = rows(
        ["A dog sat here.", "A cat sat here.", "A bus."], captions=["A cat.", "A cat sat here.", "A dog."]
    )
    found = selection.compute_cosines(data, "counting:8")
    vectors = [
        CountingEncoder(width=8).encode_texts(data[c].tolist(), None) for c in ("caption", "negative_caption")
    ]
    assert found == pytest.approx((vectors[0] * vectors[1]).sum(axis=1), abs=1e-6)
    assert found[1] >= negative_faults.MIN_SIMILARITY
    assert selection.compute_cosines(data[:0], "counting:8").shape == (0,)
    with pytest.raises(BackendError, match="'matching:4' does not embed texts"):
        selection.compute_cosines(data, "matching:4")


def test_of_equal_negatives_a_good_one_stays():
    data = rows(["A dog sat here", "A dog sat here.", "A DOG sat here."])
    found = selected(data, np.full((3, 2), 0.5), np.full((3, 2), 0.5))
    assert found.rows["pair_id"].tolist() == ["p001"]


def test_what_is_left_is_balanced_on_the_grid():
    data = rows([f"A dog of number {i}." for i in range(6)])
    gaps = np.array([[0.1, 0.2], [-0.1, -0.2], [0.1, 0.2], [0.3, 0.0], [-0.3, 0.0], [0.0, 0.0]])
    found = selected(data, 0.5 + gaps, np.full((6, 2), 0.5), percentile=0)
    assert set(reasons(found).values()) == {UNBALANCED}
    assert len(found.rows) == 5


def test_the_order_of_the_rows_changes_nothing():
    rng = np.random.default_rng(1)
    data = rows([f"A dog of number {i % 150}." for i in range(200)])
    positive, negative = rng.random((2, 200, 2))
    order = rng.permutation(200)
    first = selected(data, positive, negative, percentile=20, cell=0.5)
    second = selected(data.iloc[order], positive[order], negative[order], percentile=20, cell=0.5)
    assert len(first.rows) > 20
    for a, b, key in zip(first, second, ("pair_id", "id"), strict=True):
        pd.testing.assert_frame_equal(*(t.sort_values(key, ignore_index=True) for t in (a, b)))


@pytest.mark.parametrize(("bad", "said"), [(np.nan, "nan"), (1.5, "1.5"), (-0.1, "-0.1")])
def test_a_score_that_is_no_score_is_an_error(bad, said):
    scores = np.array([[0.5, 0.5], [0.5, bad]])
    with pytest.raises(DataError, match=said):
        selected(rows(["A dog.", "A bus."]), np.full((2, 2), 0.5), scores)


@pytest.mark.parametrize(
    ("similarity", "said"), [([0.5, np.nan], "not finite; the first is nan"), ([0.5], r"need \(2,\)")]
)
def test_a_similarity_that_is_none_is_an_error(similarity, said):
    data, scores = rows(["A dog sat here.", "A bus sat here."]), np.full((2, 2), 0.5)
    with pytest.raises(DataError, match=said):
        selected(data, scores, scores, similarity=np.array(similarity))


def test_senseless_settings_are_errors():
    data, scores = rows(["A dog sat here.", "A bus sat here."]), np.full((2, 2), 0.5)
    with pytest.raises(ConfigError, match="percentile = 101"):
        selected(data, scores, scores, percentile=101)
    with pytest.raises(DataError, match="shape"):
        selected(data, scores[:, :1], scores)
    assert selected(data[:0], scores[:0], scores[:0]).rows.empty
