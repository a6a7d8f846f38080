"""Each expectation passes on clean rows and fails on exactly the rows with a planted defect."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from caramel.runtime.environment import be_quiet
from caramel.utils.stats import wilson_interval


def failing(rows: pd.DataFrame, kind: str, **kwargs: Any) -> list[int]:
    """Return the rows that fail one expectation, in a suite without anything of caramel's but the name."""
    be_quiet()
    import great_expectations as gx

    import caramel.gates.expectations  # noqa: F401  registers them

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("p").add_dataframe_asset("a")
    batch = asset.add_batch_definition_whole_dataframe("b").get_batch({"dataframe": rows})
    suite = gx.ExpectationSuite(name="s", expectations=[{"type": kind, "kwargs": kwargs}])
    assert len(suite.expectations) == 1
    result = batch.validate(suite, result_format="SUMMARY").results[0]
    assert not result.exception_info["raised_exception"]
    indices: list[int] = result.result.get("partial_unexpected_index_list") or []
    assert result.success == (not indices)
    return indices


@pytest.mark.parametrize(
    "negative",
    ["A red cat.", "a red cat", "A  red\tcat!", "A red, cat.", "“A red cat.”", "A RED CAT?"],
)
def test_a_negative_that_differs_only_in_form_is_found(negative: str) -> None:
    rows = pd.DataFrame(
        {"caption": ["A red cat.", "A red cat."], "negative_caption": ["A blue cat.", negative]}
    )
    assert failing(rows, "expect_caption_to_differ_from_its_negative") == [1]


def test_swapped_words_and_accents_and_one_letter_are_differences() -> None:
    rows = pd.DataFrame(
        {
            "caption": ["A cat on a dog.", "Les élèves.", "A cat.", "2 cats."],
            "negative_caption": ["A dog on a cat.", "Les eleves.", "A bat.", "3 cats."],
        }
    )
    assert failing(rows, "expect_caption_to_differ_from_its_negative") == []


def test_a_missing_negative_is_not_judged() -> None:
    rows = pd.DataFrame({"caption": ["A cat.", "A dog."], "negative_caption": [None, "A dog."]})
    assert failing(rows, "expect_caption_to_differ_from_its_negative") == [1]


def test_columns_of_other_names_can_be_judged() -> None:
    rows = pd.DataFrame({"text": ["A cat.", "A dog."], "foil": ["a cat", "A hat."]})
    assert failing(rows, "expect_caption_to_differ_from_its_negative", column_A="text", column_B="foil") == [
        0
    ]


def test_a_paraphrase_that_repeats_its_caption_is_found() -> None:
    rows = pd.DataFrame({"caption": ["A cat.", "A dog."], "caption2": ["There is a cat.", "a dog"]})
    assert failing(rows, "expect_paraphrase_to_differ_from_caption") == [1]


def test_the_former_name_of_an_expectation_is_the_same_expectation() -> None:
    rows = pd.DataFrame({"caption": ["A cat.", "A dog."], "caption2": ["There is a cat.", "a dog"]})
    assert failing(rows, "expect_paraphrase_to_differ_from_its_caption") == [1]


def test_a_negative_of_the_same_words_is_found_unless_it_is_a_swap() -> None:
    rows = pd.DataFrame(
        {
            "caption": ["A dog on a cat.", "A dog on a cat.", "A dog on a cat.", "A dog."],
            "negative_caption": ["A cat on a dog!", "A cat on a dog.", "A dog on a hat.", "a dog"],
            "type": ["replace", "swap", "replace", "replace"],
        }
    )
    kind = "expect_negative_to_change_more_than_word_order"
    assert failing(rows, kind) == [0, 1], "the last row keeps the order: that is another defect"
    assert failing(rows, kind, row_condition="type != 'swap'", condition_parser="pandas") == [0]


def test_every_row_of_a_pair_that_stands_twice_is_found() -> None:
    rows = pd.DataFrame(
        {
            "caption": ["A cat.", "A dog.", "a cat", "A cat."],
            "negative_caption": ["A hat.", "A hat.", "A hat!", "A bat."],
        }
    )
    assert failing(rows, "expect_no_duplicate_pair") == [0, 2]


@pytest.mark.parametrize(
    ("caption", "negative", "alike"),
    [
        ("A cat.", "A dog.", True),
        ("a cat", "a dog", True),
        ("2 cats.", "Two dogs.", True),
        ("A cat.", "a dog.", False),
        ("A cat.", "A dog", False),
        ("A cat.", "A dog?", False),
        ("A cat.", "A  dog.", False),
        ("A cat.", " A dog.", False),
        ("A cat by a tree.", "A cat, by a dog.", True),
    ],
)
def test_texts_that_begin_end_or_are_spaced_otherwise_are_found(
    caption: str, negative: str, alike: bool
) -> None:
    rows = pd.DataFrame({"caption": [caption], "negative_caption": [negative]})
    assert failing(rows, "expect_captions_to_be_formatted_alike") == ([] if alike else [0])


def test_an_image_in_two_splits_is_found_wherever_it_stands() -> None:
    rows = pd.DataFrame(
        {"image_id": ["a", "b", "a", "c", "c"], "split": ["train", "train", "test", "val", "val"]}
    )
    assert failing(rows, "expect_no_image_in_two_splits") == [0, 2]


def test_a_subtype_that_makes_up_most_of_one_split_is_found() -> None:
    subtypes = ["swap_obj"] * 90 + ["add_att"] * 10 + ["swap_obj", "add_att"] * 50
    rows = pd.DataFrame({"split": ["test"] * 100 + ["val"] * 100, "subtype": subtypes})
    found = failing(rows, "expect_subtype_share_to_be_at_most", max_share=0.5)
    assert found == list(range(20)), "the first twenty of the 90 rows"


def test_a_handful_of_rows_is_never_unbalanced() -> None:
    rows = pd.DataFrame({"split": ["val"] * 3, "subtype": ["swap_obj"] * 3})
    assert failing(rows, "expect_subtype_share_to_be_at_most", max_share=0.5) == []


def test_an_image_that_does_not_decode_is_found() -> None:
    rows = pd.DataFrame({"image_id": ["a", "b"], "image_ok": [True, False]})
    assert failing(rows, "expect_images_to_decode") == [1]


@pytest.mark.parametrize(
    ("kind", "columns", "kwargs"),
    [
        ("expect_caption_to_differ_from_its_negative", ["caption", "negative_caption"], {}),
        ("expect_paraphrase_to_differ_from_caption", ["caption", "caption2"], {}),
        ("expect_no_image_in_two_splits", ["image_id", "split"], {}),
        ("expect_blind_accuracy_to_be_at_most", ["caption", "negative_caption"], {"max_accuracy": 0.5}),
        ("expect_negative_to_change_more_than_word_order", ["caption", "negative_caption"], {}),
        ("expect_no_duplicate_pair", ["caption", "negative_caption"], {}),
        ("expect_captions_to_be_formatted_alike", ["caption", "negative_caption"], {}),
        ("expect_subtype_share_to_be_at_most", ["split", "subtype"], {"max_share": 0.5}),
        ("expect_images_to_decode", ["image_id", "image_ok"], {}),
    ],
)
def test_an_empty_table_has_no_failing_row(kind: str, columns: list[str], kwargs: dict[str, float]) -> None:
    assert failing(pd.DataFrame([], columns=columns), kind, **kwargs) == []


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        (5, 10, 0.2366, 0.7634),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (600, 1000, 0.5693, 0.6299),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_intervals_are_those_of_the_tables(hits: float, n: int, low: float, high: float) -> None:
    assert wilson_interval(hits / max(n, 1), n) == pytest.approx((low, high), abs=1e-4)
