"""Columns of lists give the same arrays as Python lists and in Arrow."""

import numpy as np
import pandas as pd
import pytest

from caramel.schemas.contracts import TEXTS
from caramel.training.data.list_columns import LISTS, count_listed, count_present, flatten_lists

PLAIN = pd.DataFrame(
    {
        "negative_captions": [["a", "b"], None, [], np.array(["c"], dtype=object)],
        "negative_image_ids": [["i", None], None, [], [None]],
        "subtypes": [["swap_obj", "add_att"], None, [], ["add_obj"]],
    }
)


@pytest.fixture(params=["Python", "Arrow", "filtered Arrow", "Arrow in chunks"])
def rows(request):
    if request.param == "Python":
        return PLAIN
    arrow = PLAIN.astype(dict.fromkeys(LISTS, pd.ArrowDtype(TEXTS)))
    if request.param == "Arrow in chunks":
        return pd.concat([arrow[:1], arrow[1:]])
    return arrow if request.param == "Arrow" else pd.concat([arrow, arrow])[[True] * 4 + [False] * 4]


def test_values_are_counted_and_those_that_are_not_empty(rows):
    assert count_listed(rows, "negative_image_ids").tolist() == [2, 0, 0, 1]
    assert count_present(rows, "negative_image_ids").tolist() == [1, 0, 0, 0]


def test_all_values_come_with_the_number_of_their_row(rows):
    row, values = flatten_lists(rows)
    assert row.tolist() == [0, 0, 3]
    assert values.to_pydict() == {
        "negative_captions": ["a", "b", "c"],
        "negative_image_ids": ["i", None, None],
        "subtypes": ["swap_obj", "add_att", "add_obj"],
    }
