"""Which pairs and negatives each method trains on, and how many rows they are."""

import pandas as pd
import pytest

from caramel.registry import METHODS
from caramel.training.data.row_units import RowCounts, select_usable_rows

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


@pytest.mark.parametrize(
    ("name", "pairs", "negatives"),
    [
        ("infonce", 3, 3),
        ("trohn_text", 3, 4),
        ("trohn_img", 3, 2),
        ("negclip", 3, 2),
        ("ce_clip", 3, 2),
    ],
)
def test_rows_are_pairs_or_what_has_a_negative_or_an_image(name, pairs, negatives):
    counts = RowCounts.from_rows(ROWS)
    assert counts.count(METHODS[name], "pairs") == pairs
    assert counts.count(METHODS[name], "negatives") == negatives


def test_pairs_without_a_negative_are_left_out_of_what_needs_one():
    assert select_usable_rows(ROWS, METHODS["trohn_text"])["pair_id"].tolist() == ["a", "b"]
    assert select_usable_rows(ROWS, METHODS["trohn_img"])["pair_id"].tolist() == ["a"]
    assert select_usable_rows(ROWS, METHODS["infonce"]) is ROWS
