"""Ceilings equal the best of all score functions, tried one by one on small cases."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caramel.benchmarks.ceilings.ceilings import ROW_COLUMNS, compute_ceilings, compute_skill
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES, ModelClass
from caramel.benchmarks.metrics import METRICS, compute_outcomes

SIMILARITIES = ("s_c0_i0", "s_c1_i0", "s_c2_i0", "s_c0_i1", "s_c1_i1", "t_p1_p2", "t_p1_n", "t_p2_n")
WORDS = ["a", "the", "red", "painted", "standing", "car", "dog", "beside"]
FIRST_LETTER = ModelClass("the first letter", lambda text: text[0])
FIRST_LETTER_BLIND = ModelClass("the first letter, no image", lambda text: text[0], sees_images=False)


def draw_rows(rng: np.random.Generator, n: int, texts: int, images: int) -> pd.DataFrame:
    """Return rows with captions from a few views (first letters) and a few images; texts differ in what is not seen."""
    letters = "abcdef"[:texts]
    columns = {
        name: [f"{rng.choice(list(letters))}{i}{name}" for i in range(n)]
        for name in ("caption", "negative_caption", "caption2")
    }
    chosen = rng.integers(0, images, (2, n))
    return pd.DataFrame({**columns, "image": chosen[0], "negative_image": chosen[1]})


def find_best_shares(
    rows: pd.DataFrame, metric: str, model_class: ModelClass, weights: np.ndarray
) -> np.ndarray:
    """Return the best weighted share over all score functions with few values, for each column of weights."""

    def get_cell(row: pd.Series, name: str) -> object:
        text = {"c0": "caption", "c1": "negative_caption", "c2": "caption2"}
        text |= {"p1": "caption", "p2": "caption2", "n": "negative_caption"}
        _, a, b = name.split("_")
        one = model_class.view_text(row[text[a]])
        if b in text:
            return frozenset((one, model_class.view_text(row[text[b]])))
        image = row[{"i0": "image", "i1": "negative_image"}[b]] if model_class.sees_images else 0
        return (one, image)

    names = sorted({column for pair in METRICS[metric].greater for column in pair} | {*METRICS[metric].needs})
    cells = [[get_cell(row, name) for name in names] for _, row in rows.iterrows()]
    distinct = list(dict.fromkeys(cell for row in cells for cell in row))
    codes = np.array([[distinct.index(cell) for cell in row] for row in cells])
    functions = np.array(list(itertools.product(range(len(distinct)), repeat=len(distinct))), float)
    scores = pd.DataFrame(functions[:, codes].reshape(-1, len(names)), columns=names)
    hits = compute_outcomes(scores, [metric]).hits[metric].to_numpy().reshape(-1, len(rows))
    return (hits @ weights).max(axis=0)


@pytest.mark.parametrize(
    "metric", ["accuracy", "itt", "tot", "i2t", "t2i", "group", "group_match", "i_neg2t"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_ceiling_is_the_best_of_all_score_functions(metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    of_texts = metric == "tot"
    rows = draw_rows(rng, 5, texts=2 if not of_texts else 3, images=2)
    masks = {"all": np.ones(5, bool), "a": np.arange(5) < 2, "b": np.arange(5) >= 2}
    for name, model_class in {"letter": FIRST_LETTER, "blind": FIRST_LETTER_BLIND}.items():
        ceilings = compute_ceilings(rows, [metric], masks, {"macro": ["a", "b"]}, {name: model_class})
        values = ceilings.set_index("subset")["ceiling"]
        weights = {key: mask / mask.sum() for key, mask in masks.items()}
        weights["macro"] = (weights["a"] + weights["b"]) / 2
        best = find_best_shares(rows, metric, model_class, np.stack(list(weights.values()), axis=1))
        assert [values[subset] for subset in weights] == pytest.approx(best), name


def test_contradicting_rows_count_once() -> None:
    """A caption that is true in one row and false in two others of its image costs the lighter side."""
    rows = pd.DataFrame(
        [("a", "b", None, "x", None), ("b", "a", None, "x", None), ("b", "a", None, "x", None)],
        columns=list(ROW_COLUMNS),
    )
    ceiling = compute_ceilings(rows, ["accuracy"], {"all": np.ones(3, bool)}, {}).set_index("model_class")
    assert ceiling.loc["bag_of_words", "ceiling"] == pytest.approx(2 / 3)
    assert ceiling.loc["bag_of_words", "impossible"] == 0
    assert (
        compute_ceilings(rows.assign(image=["x", "y", "z"]), ["accuracy"], {"all": np.ones(3, bool)}, {})[
            "ceiling"
        ][0]
        == 1
    )


def test_two_captions_of_equal_words_give_every_group_metric_a_ceiling_of_zero() -> None:
    rows = pd.DataFrame(
        [("a dog left of a cat", "A cat left of a dog.", None, "x", "y")], columns=list(ROW_COLUMNS)
    )
    metrics = ["i2t", "t2i", "group", "group_match"]
    ceilings = compute_ceilings(rows, metrics, {"all": np.ones(1, bool)}, {}, _select("bag_of_words"))
    assert ceilings["ceiling"].tolist() == [0.0] * 4
    assert ceilings["impossible"].tolist() == [1] * 4


def test_without_the_image_no_caption_finds_its_image() -> None:
    rows = pd.DataFrame([("a dog", "a cat", None, "x", "y")], columns=list(ROW_COLUMNS))
    ceilings = compute_ceilings(
        rows, ["accuracy", "t2i"], {"all": np.ones(1, bool)}, {}, _select("no_image")
    ).set_index("metric")["ceiling"]
    assert ceilings["accuracy"] == 1
    assert ceilings["t2i"] == 0


def test_classes_see_what_they_say() -> None:
    text = "Two red dogs hold a small cat on the four-wheeler's roof."
    views = {name: of.view_text(text) for name, of in MODEL_CLASSES.items()}
    assert views["nouns_only"] == ("cat", "dogs", "roof", "wheeler's")
    assert views["attributes_only"] == ("four", "red", "small", "two")
    assert MODEL_CLASSES["bag_of_words"].view_text("a dog and a cat") == MODEL_CLASSES[
        "bag_of_words"
    ].view_text("A cat and a dog.")


def test_rows_without_the_metrics_texts_or_images_are_not_counted() -> None:
    rows = pd.DataFrame(
        [("a dog", "a cat", None, "x", None), ("a dog", "a cat", "a hound", "x", "y")],
        columns=list(ROW_COLUMNS),
    )
    ceilings = compute_ceilings(
        rows,
        ["itt", "t2i", "recall@1"],
        {"all": np.ones(2, bool), "none": np.array([True, False])},
        {},
        _select("bag_of_words"),
    ).set_index(["metric", "subset"])
    assert ceilings.loc[("itt", "all"), "n"] == 1
    assert ceilings.loc[("itt", "none"), "n"] == 0
    assert np.isnan(ceilings.loc[("itt", "none"), "ceiling"])
    assert "recall@1" not in ceilings.index.get_level_values("metric")


def test_skill_is_one_for_all_right_and_zero_at_the_ceiling() -> None:
    skill = compute_skill(np.array([1.0, 0.4, 0.1, 0.9]), np.array([0.4, 0.4, 0.4, 1.0]))
    assert skill[:2].tolist() == [1.0, 0.0]
    assert skill[2] == pytest.approx(-0.5)
    assert np.isnan(skill[3])


def test_the_place_of_a_word_does_not_change_its_class() -> None:
    rows = pd.DataFrame(
        [("a painted car beside a dog", "a car painted beside a dog", None, "x", None)],
        columns=list(ROW_COLUMNS),
    )
    ceilings = compute_ceilings(rows, ["accuracy"], {"all": np.ones(1, bool)}, {}).set_index("model_class")[
        "ceiling"
    ]
    assert ceilings[["bag_of_words", "nouns_only", "attributes_only"]].tolist() == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.permutations(WORDS), st.permutations(WORDS), st.integers(3, 8)), min_size=1, max_size=6
    )
)
def test_no_class_of_words_sees_more_than_the_bag_of_words(
    pairs: list[tuple[list[str], list[str], int]],
) -> None:
    """Each row has some words in two orders, and the captions of all rows are of one image."""
    rows = pd.DataFrame(
        [
            (" ".join(words[:length]), " ".join(w for w in order if w in words[:length]), None, "x", None)
            for words, order, length in pairs
        ],
        columns=list(ROW_COLUMNS),
    )
    rows.loc[len(rows)] = (rows["caption"].iloc[0], rows["negative_caption"].iloc[-1], None, "x", None)
    ceilings = compute_ceilings(rows, ["accuracy"], {"all": np.ones(len(rows), bool)}, {}).set_index(
        "model_class"
    )["ceiling"]
    assert ceilings["nouns_only"] <= ceilings["bag_of_words"] + 1e-9
    assert ceilings["attributes_only"] <= ceilings["bag_of_words"] + 1e-9


def _select(name: str) -> dict[str, ModelClass]:
    return {name: MODEL_CLASSES[name]}
