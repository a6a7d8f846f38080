"""Blind columns against the definitions, one instance at a time, and against the scores."""

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from blind_scores import score_columns

from caramel.benchmarks.metrics import compute_outcomes
from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe
from caramel.benchmarks.tasks import build_comparisons
from caramel.blind.blind_accuracy import compute_blind_accuracy
from caramel.blind.scorer_specs import list_scorers
from caramel.blind.scores import score_pairs
from caramel.blind.text.attack import load_attacker
from caramel.blind.text.model_adapter import load_blind
from caramel.evaluation.scores import blind_columns as blind
from caramel.evaluation.scores.blind_columns import compute_blind_columns
from caramel.evaluation.scores.ranking import COLUMNS
from caramel.interfaces.benchmark import RANKING_COLUMNS, Comparisons, ImageFile, Rankings, Task
from caramel.interfaces.model import Floats
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.sources.sugarcrepe_files import read_captions

DATA = os.environ.get("CARAMEL_DATA")
NAN = math.nan
SCORERS = tuple(found.name for found in list_scorers() if found.missing is None)


class Hashing:
    """A blind model whose score of a text is known, and coarse, so that there are ties.

    ``calls`` holds the contests of each call: (image, true, false).
    """

    name = "hashing"
    sees_both = False

    def __init__(self) -> None:
        self.calls: list[set[tuple[str, str, str]]] = []

    def score_texts(
        self, positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str]
    ) -> tuple[Floats, Floats]:
        self.calls.append(set(zip(groups, positives, negatives, strict=True)))
        true, false = ([hashed(g, t) for g, t in zip(groups, s, strict=True)] for s in (positives, negatives))
        return np.array(true), np.array(false)


class HashingBoth:
    """A blind model whose gap of two texts is known and depends on both, with ties; its scores of a text differ."""

    name, sees_both = "hashing_both", True

    def score_texts(
        self, positives: Sequence[str], negatives: Sequence[str], groups: Sequence[str]
    ) -> tuple[Floats, Floats]:
        contests = zip(groups, positives, negatives, strict=True)
        gaps = np.array([gap(*contest) for contest in contests])
        return (1 + gaps) / 2, (1 - gaps) / 2


def gap(image: str, true: str, false: str) -> float:
    return (hashlib.sha256(f"{image}/{true}/{false}".encode()).digest()[0] % 5 - 2) / 4


def hashed(image: str, text: str) -> float:
    return hashlib.sha256(f"{image}/{text}".encode()).digest()[0] % 4 / 4


def files(count: int) -> list[ImageFile]:
    return [ImageFile(f"{i}.jpg") for i in range(count)]


def instance(number: int, image: str, *subsets: str, **more: object) -> dict[str, object]:
    return {"instance_id": f"i{number}", "image_id": image, "subsets": list(subsets), "image": 0, **more}


def scored(task: Task, columns: dict[str, Floats]) -> pd.DataFrame:
    rows = task.rows[["instance_id", "image_id", "subsets"]]
    return build_frame(SIMILARITIES, rows.assign(model="m", benchmark="b", **columns))


def test_a_caption_scores_the_same_for_both_images_and_an_absent_item_has_no_score():
    task = build_comparisons(
        [
            instance(0, "x", "swap", caption="a", negative_caption="b", caption2="c"),
            instance(1, "x", "swap", caption="a", negative_caption="d", negative_image=1),
            instance(2, "y", "swap", caption="e"),
        ],
        files(2),
    )
    found = compute_blind_columns(task, Hashing())
    expected = {
        "s_c0_i0": [hashed("x", "a"), hashed("x", "a"), 0.5],
        "s_c1_i0": [hashed("x", "b"), hashed("x", "d"), NAN],
        "s_c2_i0": [hashed("x", "c"), NAN, NAN],
        "s_c0_i1": [NAN, hashed("x", "a"), NAN],
        "s_c1_i1": [NAN, hashed("x", "d"), NAN],
    }
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    assert scored(task, found)[["t_p1_p2", "t_p1_n", "t_p2_n"]].isna().all(axis=None)


def test_of_a_scorer_that_sees_both_each_pair_keeps_its_own_gap():
    rng = np.random.default_rng(0)
    rows = []
    for n in range(60):
        caption, negative, second = (f"{word} {rng.integers(4)}" for word in "abc")
        texts = {"caption": caption, "negative_caption": negative, "caption2": second if n % 3 else None}
        rows.append(instance(n, f"{n % 5}", "swap", **texts, negative_image=1))
    rows.append(instance(60, "0", "swap", caption="alone"))
    task = build_comparisons(rows, files(2))
    metrics = ("accuracy", "p2_vs_n", "itt", "i2t")
    hits, ties = compute_outcomes(scored(task, compute_blind_columns(task, HashingBoth())), metrics)
    for n, row in enumerate(rows[:60]):
        first = gap(row["image_id"], row["caption"], row["negative_caption"])
        assert (hits["accuracy"][n], ties["accuracy"][n]) == (first > 0, first == 0)
        assert hits["i2t"][n] == 0
        if row["caption2"] is not None:
            second = gap(row["image_id"], row["caption2"], row["negative_caption"])
            assert (hits["p2_vs_n"][n], ties["p2_vs_n"][n]) == (second > 0, second == 0)
            assert hits["itt"][n] == (first > 0 and second > 0)
    assert set(hits["accuracy"].dropna()) == {0, 1}
    assert compute_blind_columns(task, HashingBoth())["s_c0_i0"][60] == 0.5


def test_strata_are_scored_apart_by_type_or_first_subset():
    task = build_comparisons(
        [
            instance(0, "x", "without_add", "swap", "swap_obj", caption="a", negative_caption="b"),
            instance(1, "x", "without_add", "replace", "replace_obj", caption="a", negative_caption="c"),
            instance(2, "y", "without_add", "swap", "swap_att", caption="d", negative_caption="e"),
            instance(3, "y", "plurals", "hard", caption="d", negative_caption="f", caption2="g"),
            instance(4, "y", caption="d", negative_caption="h"),
        ],
        files(1),
    )
    model = Hashing()
    compute_blind_columns(task, model)
    assert model.calls == [
        {("x", "a", "b"), ("y", "d", "e")},
        {("x", "a", "c")},
        {("y", "d", "f"), ("y", "g", "f")},
        {("y", "d", "h")},
    ]


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_blind_model_never_wins_both_directions_of_an_instance_with_two_images(scorer):
    rows = [
        instance(
            i,
            f"{i}.jpg",
            "swap",
            caption=f"A dog {i}",
            negative_caption=f"a cat {i} of 70 lives.",
            negative_image=1,
        )
        for i in range(30)
    ]
    task = build_comparisons(rows, files(2))
    model = load_blind(scorer, device="cpu", precision="fp32", name=scorer)
    hits, ties = compute_outcomes(
        scored(task, compute_blind_columns(task, model)), ("accuracy", "i2t", "t2i", "group", "t_pos2i")
    )
    assert (hits[["i2t", "t2i", "group", "t_pos2i"]] == 0).all(axis=None)  # scored, and lost
    assert ties[["t2i", "t_pos2i"]].all(axis=None)
    assert (hits["accuracy"] == 1).all()  # one direction it wins every time


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_stratum_of_a_single_image_has_scores(scorer):
    task = build_comparisons([instance(0, "x", "swap", caption="A dog", negative_caption="a cat.")], files(1))
    found = compute_blind_columns(task, load_blind(scorer, device="cpu", precision="fp32", name=scorer))
    assert not np.isnan([found["s_c0_i0"], found["s_c1_i0"]]).any()


def random_rankings(seed: int) -> Rankings:
    """Queries of both directions, some with own pools and some sharing one; several true candidates."""
    rng = np.random.default_rng(seed)
    texts = [(f"text {i}", f"another prompt {i}") if i % 3 else (f"text {i}",) for i in range(30)]
    pools = [np.sort(rng.choice(30, size, replace=False)) for size in (2, 3, 5, 5, 9)]
    images = [np.array([0, 1, 2]), np.array([2, 3])]
    rows = []
    for i in range(40):
        to_text = rng.random() < 0.7
        pool = int(rng.integers(5)) if to_text else 5 + int(rng.integers(2))
        places = [*pools, *images][pool]
        true = rng.choice(places, int(rng.integers(1, min(4, len(places)))), replace=False).tolist()
        query = int(rng.integers(4)) if to_text else int(rng.integers(30))
        image = f"{query}.jpg" if to_text else "0.jpg"
        subset = ["atom", "comp"][int(rng.integers(2))]
        rows.append([f"i{i}", image, [subset], "i2t" if to_text else "t2i", query, pool, true])
    return Rankings(pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), files(4), texts, [*pools, *images])


def ranked(task: Rankings, row: object) -> list[float]:
    """Return the rank columns of one row, from their definitions in ``tables``."""
    pool = task.pools[row.pool].tolist()
    false = [place for place in pool if place not in row.true]

    def score(place: int) -> float:
        return hashed(row.image_id, task.texts[place][0]) if row.direction == "i2t" else 0.5

    best = max(score(place) for place in row.true)
    other = max(score(place) for place in false)
    above = sum(score(place) > best for place in false)
    return [best, other, above, sum(score(place) == best for place in false), len(pool)]


@pytest.mark.parametrize("seed", range(4))
def test_ranks_of_a_scorer_that_sees_both_count_what_beats_every_true_candidate(seed):
    task = random_rankings(seed)
    found = compute_blind_columns(task, HashingBoth())
    for n, row in enumerate(task.rows.itertuples()):
        pool = task.pools[row.pool].tolist()
        false = [place for place in pool if place not in row.true]
        gaps = [[gap(row.image_id, task.texts[t][0], task.texts[f][0]) for t in row.true] for f in false]
        if row.direction == "i2t":
            assert found["n_above"][n] == sum(all(g < 0 for g in each) for each in gaps)
            assert found["n_tied"][n] == sum(max(each) == 0 for each in gaps)
        else:
            assert (found["n_above"][n], found["n_tied"][n]) == (0, len(false))


@pytest.mark.parametrize("seed", range(4))
def test_ranks_are_those_of_the_definitions(seed):
    task = random_rankings(seed)
    assert set(task.rows["direction"]) == {"i2t", "t2i"}
    found = compute_blind_columns(task, Hashing())
    expected = np.array([ranked(task, row) for row in task.rows.itertuples()])
    for name, values in zip(COLUMNS, expected.T, strict=True):
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_a_query_without_false_candidates_has_none_above_it():
    rows = [["i0", "0.jpg", [], "i2t", 0, 0, [0, 1]], ["i1", "1.jpg", [], "t2i", 1, 0, [0, 1]]]
    task = Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), files(2), [("a",), ("b",)], [np.arange(2)]
    )
    found = compute_blind_columns(task, Hashing())
    assert [found[name].tolist() for name in COLUMNS] == [
        [0.5] * 2,
        [-math.inf] * 2,
        [0] * 2,
        [0] * 2,
        [2] * 2,
    ]


def test_a_choice_among_images_is_a_tie_and_so_a_miss():
    rows = [["i0", "0.jpg", ["t2i"], "t2i", 0, 0, [1]], ["i1", "1.jpg", ["t2i"], "t2i", 1, 0, [0, 2]]]
    task = Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), files(4), [("a",), ("b",)], [np.arange(4)]
    )
    columns = compute_blind_columns(task, Hashing())
    assert columns["n_tied"].tolist() == [3, 2]
    hits, ties = compute_outcomes(scored(task, columns), ("recall@1", "recall@3"))
    assert hits.to_numpy().tolist() == [[0, 0], [0, 1]]
    assert ties.to_numpy().tolist() == [[True, True], [True, False]]


def test_pools_too_large_to_contest_have_no_score_but_their_size(monkeypatch):
    monkeypatch.setattr(blind, "MOST_PAIRS", 7)
    rows = [
        ["i0", "0.jpg", ["small"], "i2t", 0, 0, [1]],
        ["i1", "1.jpg", ["small"], "i2t", 1, 0, [0]],
        ["i2", "2.jpg", ["large"], "i2t", 2, 1, [0, 1]],
    ]
    texts = [(f"text {i}",) for i in range(6)]
    task = Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)), files(3), texts, [np.arange(4), np.arange(6)]
    )
    model = Hashing()
    found = compute_blind_columns(task, model)
    assert len(model.calls) == 1
    assert found["n_candidates"].tolist() == [4, 4, 6]
    assert [bool(np.isnan(found[name][2])) for name in COLUMNS] == [True, True, True, True, False]
    assert not np.isnan(np.stack([found[name][:2] for name in COLUMNS])).any()


def scored_by(pairs: pd.DataFrame, negatives: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return table ``scores``, also of a scorer that sees both captions."""
    if name in {found.name for found in list_scorers() if not found.sees_both}:
        return score_pairs(pairs, negatives, scorers=(name,), folds=5, seed=3)
    rows, parts = negatives.merge(pairs, on="pair_id"), []
    for kind in rows["type"].unique():
        part = rows[rows["type"] == kind]
        sides = (part[column].tolist() for column in ("caption", "negative_caption", "image_id"))
        both = score_columns(load_attacker(name), *sides, folds=5, seed=3)
        scores = dict(zip(("positive_score", "negative_score"), both, strict=True))
        parts.append(part[["negative_id"]].assign(scorer=name, **scores))
    return pd.concat(parts, ignore_index=True)


def agrees(task: Comparisons, folder: Path, scorer: str) -> dict[str, float]:
    """Check the accuracy of every subset against ``blind.blind_accuracy``, a tie being a miss; return it."""
    model = load_blind(scorer, device="cpu", precision="fp32", name=scorer)
    hits = compute_outcomes(scored(task, compute_blind_columns(task, model)), ("accuracy",)).hits["accuracy"]
    rows = read_captions(folder).rename(columns={"pair_id": "negative_id"})
    rows = rows.assign(pair_id=rows["negative_id"], type=rows["subtype"].str.partition("_")[0])
    pairs, negatives = rows[["pair_id", "image_id", "caption"]], rows.drop(columns=["image_id", "caption"])
    scores = scored_by(pairs, negatives, scorer)
    theirs = compute_blind_accuracy(scores, negatives, pairs=pairs, folds=5)[scorer]
    ours = {"all": hits.mean()}
    for subset in set(task.rows["subsets"].explode()):
        ours[subset] = hits[[subset in subsets for subsets in task.rows["subsets"]]].mean()
    for subset, value in ours.items():
        assert value == pytest.approx(theirs[subset]["strict"], abs=1e-6), subset
    return ours


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize("scorer", ["length", "probe", "edit_probe"])
def test_the_accuracy_on_sugarcrepe_is_the_strict_one_of_the_scores(scorer):
    folder = Path(DATA or "", "sugarcrepe")
    ours = agrees(read_sugarcrepe(folder, Path("images")), folder, scorer)
    assert ours["all"] > 0.5
