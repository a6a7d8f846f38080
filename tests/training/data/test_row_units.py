from dataclasses import replace

import pandas as pd
import pytest

from caramel.registry import METHODS
from caramel.training.data.row_units import RowCounts, build_method_rows, select_usable_rows

ROWS = pd.DataFrame(
    {
        "pair_id": ["a", "b", "c"],
        "image_id": ["1", "1", "2"],
        "caption": ["A.", "B.", "C."],
        "negative_captions": [["a1", "a2", "a3"], ["b1"], []],
        "negative_image_ids": [["i1", None, "i3"], [None], []],
        "subtypes": [["swap_obj", "swap_att", "add_obj"], ["add_att"], []],
    }
)


@pytest.mark.parametrize("name", ["infonce", "trohn_text", "trohn_img", "negclip", "ce_clip"])
@pytest.mark.parametrize("unit", ["pairs", "negatives"])
def test_counts_are_the_numbers_of_rows_that_are_built(name, unit):
    method = METHODS[name]
    assert RowCounts.from_rows(ROWS).count(method, unit) == len(build_method_rows(ROWS, method, unit))


def test_a_row_for_each_negative_keeps_its_caption_image_and_subtype():
    rows = build_method_rows(ROWS, METHODS["trohn_text"], "negatives")
    assert rows["caption"].tolist() == ["A.", "A.", "A.", "B."]
    assert rows["negative_captions"].tolist() == [["a1"], ["a2"], ["a3"], ["b1"]]
    assert rows["negative_image_ids"].tolist() == [["i1"], [None], ["i3"], [None]]
    assert rows["subtypes"].tolist() == [["swap_obj"], ["swap_att"], ["add_obj"], ["add_att"]]


def test_a_method_of_images_has_the_negatives_with_an_image_and_one_without_negatives_all_pairs():
    rows = build_method_rows(ROWS, METHODS["trohn_img"], "negatives")
    assert rows["negative_captions"].tolist() == [["a1"], ["a3"]]
    assert rows["negative_image_ids"].tolist() == [["i1"], ["i3"]]
    assert build_method_rows(ROWS, METHODS["infonce"], "negatives") is ROWS


def test_methods_that_use_or_draw_several_negatives_keep_a_pair_together():
    for method in (METHODS["ce_clip"], METHODS["negclip"], replace(METHODS["trohn_text"], negatives=2)):
        rows = build_method_rows(ROWS, method, "negatives")
        assert rows["negative_captions"].tolist() == [["a1", "a2", "a3"], ["b1"]]


def test_pairs_without_a_negative_are_left_out_of_what_needs_one():
    assert select_usable_rows(ROWS, METHODS["trohn_text"])["pair_id"].tolist() == ["a", "b"]
    assert select_usable_rows(ROWS, METHODS["trohn_img"])["pair_id"].tolist() == ["a"]
    assert build_method_rows(ROWS, METHODS["trohn_text"], "pairs") is ROWS
