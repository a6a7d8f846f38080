import os
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from blind_scores import score_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from caramel.blind.scorer_specs import list_scorers
from caramel.blind.scorers import compute_percentile_ranks
from caramel.blind.scores import compute_blind_accuracy, score_pairs
from caramel.blind.text.attack_results import compute_attack_metrics
from caramel.errors import BackendError, DataError
from caramel.gates.blind_expectation import compute_accuracies
from caramel.interfaces.scorer import create_model_free_spec
from caramel.refine.rows import compute_row_gaps
from caramel.registry import SCORERS
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.contracts import check_table
from caramel.schemas.scores import SCORES
from caramel.utils.hashing import assign_folds, compute_stable_keys
from caramel.utils.resampling import CrossValidation
from caramel.utils.stats import share_interval, wilson_interval
from caramel.utils.text import extract_words

ALL = tuple(found.name for found in list_scorers() if found.missing is None and not found.sees_both)
DATA = os.environ.get("CARAMEL_DATA")
NOUNS, VERBS = ["cat", "dog", "car", "bus", "cup", "hat"], ["sees", "likes", "has", "finds"]


def frames(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return pairs (two per image) and one negative each, of three types, at random."""
    rng = np.random.default_rng(seed)

    def text() -> str:
        return f"A {rng.choice(NOUNS)} {rng.choice(VERBS)} the {rng.choice(NOUNS)} {rng.integers(99)}."

    names = [f"p{i}" for i in range(rows)]
    pairs = pd.DataFrame(
        {
            "pair_id": names,
            "image_id": [f"i{i // 2}" for i in range(rows)],
            "caption": [text() for _ in names],
        }
    )
    subtypes = [SUBTYPES[i % 7] for i in range(rows)]
    negatives = pd.DataFrame(
        {
            "negative_id": [f"{n}:{s}" for n, s in zip(names, subtypes, strict=True)],
            "pair_id": names,
            "type": [s.split("_")[0] for s in subtypes],
            "subtype": subtypes,
            "negative_caption": [text() for _ in names],
        }
    )
    return pairs, negatives


def images(rows: int) -> list[str]:
    return [f"i{i}" for i in range(rows)]


@pytest.mark.parametrize("name", ALL)
def test_a_scorer_ties_on_equal_texts(name):
    scorer = SCORERS[name].load("")
    positive, negative = scorer(["A cat."] * 9, ["A cat."] * 9, CrossValidation(images(9), 3, 3))
    assert (positive == negative).all()


@pytest.mark.parametrize("name", [found.name for found in list_scorers() if found.missing is None])
def test_what_is_learned_elsewhere_knows_nothing_of_the_labels_that_it_judges(name):
    pairs, negatives = frames(60)
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
    pairs, negatives = frames(140)
    scores = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    check_table(SCORES, scores, "test")
    assert len(scores) == 140 * len(ALL)
    values = scores[["positive_score", "negative_score"]].to_numpy()
    assert ((values >= 0) & (values <= 1)).all()
    assert (values == values.round(6)).all()


def test_scores_do_not_depend_on_the_order_of_rows():
    pairs, negatives = frames(140)
    mixed = negatives.sample(frac=1, random_state=1), pairs.sample(frac=1, random_state=2)
    first = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    second = score_pairs(mixed[1], mixed[0], scorers=ALL, folds=5, seed=3)
    keys = ["scorer", "negative_id"]
    pd.testing.assert_frame_equal(*(s.sort_values(keys, ignore_index=True) for s in (first, second)))


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_too_few_rows_to_learn_from_are_scored_all_the_same(rows):
    pairs, negatives = frames(rows)
    scores = score_pairs(pairs, negatives, scorers=ALL, folds=5, seed=3)
    assert len(scores) == rows * len(ALL)


def test_an_unknown_scorer_names_the_choices():
    with pytest.raises(BackendError, match=r"'ngran'.*'ngram'"):
        score_pairs(*frames(5), scorers=["ngran"], folds=2, seed=3)


def test_a_negative_without_its_pair_is_an_error():
    pairs, negatives = frames(5)
    with pytest.raises(DataError, match="'p4:swap_att'"):
        score_pairs(pairs[:4], negatives, scorers=["length"], folds=2, seed=3)


def test_blind_accuracy_counts_ties_half_and_averages_subtypes():
    pairs, negatives = frames(14)
    negatives = negatives.assign(subtype=["swap_obj"] * 12 + ["swap_att"] * 2, type="swap")
    positive = np.array([0.9] * 6 + [0.5] * 4 + [0.1] * 2 + [0.9] * 2)
    scores = pd.DataFrame(
        {
            "negative_id": negatives["negative_id"],
            "scorer": "m",
            "positive_score": positive,
            "negative_score": 0.5,
        }
    )
    found = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=5)["m"]
    assert list(found) == ["all", "macro", "swap", "swap_obj", "swap_att"]
    assert found["swap_obj"] | {"ci_low": 0, "ci_high": 1} == {
        **{"accuracy": round(8 / 12, 6), "strict": 0.5, "n": 12, "ties": 4},
        **{"ci_low": 0, "ci_high": 1},
    }
    assert found["all"]["accuracy"] == round(10 / 14, 6)
    assert found["macro"]["accuracy"] == round((8 / 12 + 1) / 2, 6)
    for one in found.values():
        assert 0 <= one["ci_low"] <= one["accuracy"] <= one["ci_high"] <= 1


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_the_interval_is_wilsons_where_rows_are_independent(hits):
    values, zeros = np.array(hits, dtype=float), np.zeros(len(hits), dtype=np.int64)
    share, low, high = share_interval(values, zeros, np.arange(len(hits)), factor=1)
    assert share == pytest.approx(values.mean())
    expected = wilson_interval(share, len(hits))
    if 0 < share < 1:  # the variance is estimated, where there is any
        expected = wilson_interval(share, len(hits) - 1, t.ppf(0.975, len(hits) - 1))
    assert (low, high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("images", [2, 3, 10])
def test_few_images_that_happen_to_agree_show_nothing(images):
    """Hits of an image depend on each other: its rows share a probability, which is drawn."""
    rng = np.random.default_rng(0)
    image, zeros = np.arange(images).repeat(100), np.zeros(images * 100, dtype=np.int64)
    held = []
    for _ in range(1500):
        hits = rng.random(image.size) < np.clip(rng.normal(0.5, 0.15, images), 0, 1)[image]
        _, low, high = share_interval(hits.astype(float), zeros, image, factor=1)
        held.append(low <= 0.5 <= high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)


def test_of_one_image_nothing_is_known_of_the_spread():
    ones = np.zeros(9, dtype=np.int64)
    assert share_interval(np.eye(9)[0], ones, ones, factor=1) == (pytest.approx(1 / 9), 0, 1)


def test_scores_of_who_learned_from_other_rows_are_those_of_the_scorer_type_by_type():
    pairs, negatives = frames(60)
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


def test_the_interval_is_wider_where_rows_of_an_image_agree():
    values, zeros = np.tile([0.0, 1.0], 50).repeat(4), np.zeros(400, dtype=np.int64)
    _, low, high = share_interval(values, zeros, np.arange(400), factor=1)
    _, wide_low, wide_high = share_interval(values, zeros, np.arange(400) // 4, factor=1)
    assert wide_low < low < 0.5 < high < wide_high


@pytest.mark.parametrize("folds", [2, 5, 20])
def test_the_interval_is_one_and_the_same_in_file_gate_and_audit_for_any_number_of_folds(folds):
    pairs, negatives = frames(120)
    scores = score_pairs(pairs, negatives, scorers=["ngram"], folds=folds, seed=3)
    rows = negatives.merge(pairs, on="pair_id").merge(scores, on="negative_id")
    gaps = (rows["positive_score"] - rows["negative_score"]).to_numpy()
    image = np.unique(rows["image_id"], return_inverse=True)[1]
    file = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=folds)["ngram"]["all"]
    audit = compute_attack_metrics(rows, {"ngram": gaps}, image, folds=folds, seed=0)["ngram"]["overall"]
    gate = compute_accuracies(
        rows.assign(ngram_gap=gaps),
        column_caption="caption",
        column_negative="negative_caption",
        column_group="image_id",
        column_type=None,
        scorers=["ngram"],
        folds=folds,
        seed=0,
    )[0]
    hits, zeros = (gaps > 0) + 0.5 * (gaps == 0), np.zeros(len(rows), dtype=np.int64)
    _, low, high = share_interval(hits, zeros, image, factor=1 + folds / (folds - 1))
    for found in (
        (file["ci_low"], file["ci_high"]),
        (audit["ci_low"], audit["ci_high"]),
        (gate.low, gate.high),
    ):
        assert found == pytest.approx((low, high), abs=1e-6)


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
    pairs, negatives = frames(3)
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
