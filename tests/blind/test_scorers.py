import os
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from blind_scores import score_columns
from hypothesis import given
from hypothesis import strategies as st
from random_rows import make_random_rows

from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scorer_specs import list_scorers
from caramel.blind.scorers import compute_percentile_ranks
from caramel.blind.scores import score_pairs
from caramel.errors import BackendError, DataError
from caramel.interfaces.scorer import create_model_free_spec
from caramel.refine.rows import compute_row_gaps
from caramel.registry import SCORERS
from caramel.schemas.contracts import check_table
from caramel.schemas.scores import SCORES
from caramel.utils.hashing import assign_folds, compute_stable_keys
from caramel.utils.resampling import CrossValidation
from caramel.utils.text import extract_words

ALL = tuple(found.name for found in list_scorers() if found.missing is None and not found.sees_both)
DATA = os.environ.get("CARAMEL_DATA")


def images(rows: int) -> list[str]:
    return [f"i{i}" for i in range(rows)]


@pytest.mark.parametrize("name", ALL)
def test_a_scorer_ties_on_equal_texts(name):
    scorer = SCORERS[name].load("")
    positive, negative = scorer(["A cat."] * 9, ["A cat."] * 9, CrossValidation(images(9), 3, 3))
    assert (positive == negative).all()


@pytest.mark.parametrize("name", [found.name for found in list_scorers() if found.missing is None])
def test_what_is_learned_elsewhere_knows_nothing_of_the_labels_that_it_judges(name):
    pairs, negatives = make_random_rows(60)
    sides, train_only = (
        [pairs["caption"].tolist(), negatives["negative_caption"].tolist()],
        np.arange(60) < 40,
    )
    groups = [f"i{i}" for i in range(50)] + [
        f"i{i}" for i in range(30, 40)
    ]  # ten rows share a training one's image
    scorer = SCORERS[name].load("")
    found = np.stack(score_columns(scorer, *sides, groups, folds=3, seed=3, train_only=train_only))
    turned = [
        [b if i >= 40 else a for i, (a, b) in enumerate(zip(*order, strict=True))]
        for order in (sides, sides[::-1])
    ]
    again = np.stack(score_columns(scorer, *turned, groups, folds=3, seed=3, train_only=train_only))
    assert again[:, ~train_only] == pytest.approx(found[::-1, ~train_only], abs=1e-6)
    assert ((found >= 0) & (found <= 1)).all()


def test_an_image_is_in_one_fold_and_folds_are_even():
    groups = [f"g{i % 50}" for i in range(500)]
    fold = assign_folds(groups, folds=5, seed=1)
    assert np.bincount(fold).tolist() == [100] * 5
    assert all(len(set(fold[np.array(groups) == g])) == 1 for g in groups)
    assert (fold != assign_folds(groups, folds=5, seed=2)).any()


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30), st.integers(2, 6), st.integers(0, 3))
def test_folds_do_not_depend_on_the_order_of_rows(groups, folds, seed):
    fold = assign_folds(groups, folds=folds, seed=seed)
    assert (assign_folds(groups[::-1], folds=folds, seed=seed) == fold[::-1]).all()
    assert len(set(fold.tolist())) == min(folds, len(set(groups)))


def test_keys_are_the_same_on_every_machine():
    assert compute_stable_keys(["a", "b"], 3).tolist() == [17144405879716790563, 13977322118911783109]


def test_share_below_counts_ties_half():
    assert compute_percentile_ranks(np.array([3.0, 1.0, 1.0, 7.0])).tolist() == [0.625, 0.25, 0.25, 0.875]


def test_words_only_ignores_case_space_and_punctuation():
    assert extract_words(" A  cat's, hat!") == extract_words("a CAT'S hat") == ("a", "cat's", "hat")


def test_every_scorer_gives_a_score_in_range_for_every_negative():
    pairs, negatives = make_random_rows(140)
    scores = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    check_table(SCORES, scores, "test")
    assert len(scores) == 140 * len(ALL)
    values = scores[["positive_score", "negative_score"]].to_numpy()
    assert ((values >= 0) & (values <= 1)).all()
    assert (values == values.round(6)).all()


def test_scores_do_not_depend_on_the_order_of_rows():
    pairs, negatives = make_random_rows(140)
    mixed = negatives.sample(frac=1, random_state=1), pairs.sample(frac=1, random_state=2)
    first = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    second = score_pairs(mixed[1], mixed[0], scorers=ALL, folds=5, seed=3)
    keys = ["scorer", "negative_id"]
    pd.testing.assert_frame_equal(*(s.sort_values(keys, ignore_index=True) for s in (first, second)))


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_too_few_rows_to_learn_from_are_scored_all_the_same(rows):
    pairs, negatives = make_random_rows(rows)
    scores = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    assert len(scores) == rows * len(ALL)


def test_an_unknown_scorer_names_the_choices():
    with pytest.raises(BackendError, match=r"'ngran'.*'ngram'"):
        score_pairs(*make_random_rows(5), scorers=["ngran"], folds=2, seed=3)


def test_a_negative_without_its_pair_is_an_error():
    pairs, negatives = make_random_rows(5)
    with pytest.raises(DataError, match="'p4:swap_att'"):
        score_pairs(pairs[:4], negatives, scorers=["length"], folds=2, seed=3)


def test_scores_of_who_learned_from_other_rows_are_those_of_the_scorer_type_by_type():
    pairs, negatives = make_random_rows(60)
    train_only = negatives.iloc[1::2].query("type != 'add'")  # which is then learned from all others
    judged = negatives.iloc[::2]
    found = score_pairs(pairs, judged, scorers=["probe", "length"], folds=3, seed=1, train_only=train_only)
    assert found["negative_id"].tolist() == judged["negative_id"].tolist() * 2
    both = pd.concat([judged, train_only]).merge(pairs, on="pair_id")
    for kind in judged["type"].unique():
        mine = both["negative_id"].isin(train_only["negative_id"]) & (
            (both["type"] == kind) | ~(train_only["type"] == kind).any()
        )
        rows = both[mine | (both["negative_id"].isin(judged["negative_id"]) & (both["type"] == kind))]
        is_train_only = rows["negative_id"].isin(train_only["negative_id"]).to_numpy()
        columns = (rows[c].tolist() for c in ("caption", "negative_caption", "image_id"))
        positive, _ = score_columns(
            SCORERS["probe"].load(""), *columns, folds=3, seed=1, train_only=is_train_only
        )
        expected = dict(zip(rows["negative_id"], positive, strict=True))
        for name in rows.loc[~is_train_only, "negative_id"]:
            one = found[(found["scorer"] == "probe") & (found["negative_id"] == name)]
            assert one["positive_score"].item() == pytest.approx(expected[name], abs=1e-6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            [0.5, float("nan"), 2.0],
            r"'mine' gives nan for the text 'a b'. Its scores of 2 of 3 texts are not",
        ),
        ([0.5, 0.1, -1.0], r"'mine' gives -1.0 for the text 'c'. Its scores of 1 of 3"),
        ([0.5], r"'mine' gives scores of shape \(1,\) for 3 texts"),
        (None, r"'mine' returns None, not the scores of both sides"),
        (["high", 1, 1], r"'mine' gives \['high'.*not numbers"),
    ],
)
def test_a_scorer_of_ones_own_that_gives_no_score_is_named_with_text_and_value(given, said, monkeypatch):
    module = types.ModuleType("mine")
    score = lambda positives, negatives, cv: given and ([0.5] * len(positives), given)  # noqa: E731
    module.MINE = create_model_free_spec("mine", "of a test", score)
    monkeypatch.setitem(sys.modules, "mine", module)
    monkeypatch.setitem(SCORERS.targets, "mine", "mine:MINE")
    pairs, negatives = make_random_rows(3)
    negatives = negatives.assign(type="swap", negative_caption=["a", "a b", "c"])
    with pytest.raises(BackendError, match=said):
        score_pairs(pairs, negatives, scorers=["mine"], folds=2, seed=3)
    rows = negatives.merge(pairs, on="pair_id").assign(caption2=None)
    with pytest.raises(BackendError, match=said):
        compute_row_gaps(rows, ["mine"], folds=2, seed=3)


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
def test_simple_rules_and_the_probe_solve_much_of_the_released_sugarcrepe_without_images():
    from caramel.sources.sugarcrepe_files import read_captions

    rows = read_captions(Path(str(DATA)) / "sugarcrepe")
    pairs = rows[["pair_id", "image_id", "caption"]]
    negatives = rows[["pair_id", "subtype", "negative_caption"]].assign(
        negative_id=rows["pair_id"], type=rows["subtype"].str.partition("_")[0]
    )
    scores = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    found = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=5)
    assert found["length"]["add"]["ci_low"] > 0.98
    assert found["final_punctuation"]["all"]["ci_low"] > 0.55
    assert found["ngram"]["all"]["ci_low"] > 0.6
    assert found["probe"]["all"]["ci_low"] > 0.8
