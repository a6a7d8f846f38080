"""What annotators see tells no answer, and what they send back is checked."""

from __future__ import annotations

import json

import pytest
from annotation_tasks import choose_item, compare_item, text_item

from caramel.annotation.items import (
    Item,
    Option,
    Question,
    format_answer,
    format_item,
    order_item,
    parse_expected_answer,
    parse_item,
)
from caramel.annotation.making.image_tasks import build_baseline_items
from caramel.errors import DataError


def test_an_item_survives_the_task_file() -> None:
    item = choose_item(1, ["x", "y"], gold="0")
    assert parse_item(item.item_id, format_item(item), "0") == item


def test_the_order_is_drawn_per_annotator_and_item_and_fixed_options_stay_last() -> None:
    orders = {
        name: [json.loads(order_item(text_item(n), name, 0).format_order()) for n in range(200)]
        for name in ("a", "b")
    }
    assert orders["a"] != orders["b"]
    assert orders["a"] == [json.loads(order_item(text_item(n), "a", 0).format_order()) for n in range(200)]
    for values in orders.values():
        assert all(order[2:] == ["both", "neither"] for order in values)
        assert 70 < sum(order[0] == "positive" for order in values) < 130, "neither side is preferred"


def test_the_page_gets_neither_values_nor_names_nor_the_expected_answer() -> None:
    item = parse_item("p1:replace_att", format_item(text_item(1)), "positive", key="k1")
    text = json.dumps(order_item(item, "me", 0).describe())
    assert "k1" in text
    for told in ("positive", "gold", "replace_att"):
        assert told not in text, told


def test_positions_become_values_in_the_displayed_order() -> None:
    ordered = order_item(text_item(1), "me", 0)
    order = json.loads(ordered.format_order())
    assert [ordered.decode_answer([n], "here") for n in range(4)] == order


def test_several_questions_become_one_json_by_name() -> None:
    ordered = order_item(compare_item(1), "me", 0)
    answer = json.loads(ordered.decode_answer([0, 1], "here"))
    order = json.loads(ordered.format_order())
    assert answer == {"plausible": order["plausible"][0], "grammatical": order["grammatical"][1]}


def test_the_four_questions_of_an_instance_come_in_random_order_and_have_known_answers() -> None:
    import pandas as pd

    rows = [
        {
            "instance_id": f"n{n}",
            "image_id": "i",
            "caption": "a",
            "negative_caption": "b",
            "negative_image_id": "j",
        }
        for n in range(40)
    ]
    rows.append({**rows[0], "instance_id": "one image", "negative_image_id": None})
    items = build_baseline_items(pd.DataFrame(rows), None, lambda _, name: name)  # type: ignore[arg-type]
    assert len(items) == 40
    firsts = {order_item(item, "me", 0).questions[0].name for item in items}
    assert firsts == {"c0", "c1", "i0", "i1"}
    assert json.loads(str(items[0].gold)) == {"c0": "i0", "c1": "i1", "i0": "c0", "i1": "c1"}


@pytest.mark.parametrize("responses", [[], [0, 1], [4], [-1], [True], ["0"], [None], [1.0]])
def test_a_response_that_is_no_option_is_refused(responses: list[object]) -> None:
    with pytest.raises(DataError, match="here"):
        order_item(text_item(1), "me", 0).decode_answer(responses, "here")


def test_an_edited_text_is_stored_on_one_line_and_must_not_be_empty() -> None:
    item = Item("p", (Question("text", "Correct", (Option("draft", "A  ball"),), editable=True),))
    ordered = order_item(item, "me", 0)
    assert ordered.decode_answer([" A red\n ball. "], "here") == "A red ball."
    for text in ("", "  \n", "x" * 2001, "half \ud800", "a\0b", 3):
        with pytest.raises(DataError):
            ordered.decode_answer([text], "here")


@pytest.mark.parametrize(
    "answer",
    ["", "third", "[]", '{"plausible": "first"}', '{"plausible": "first", "grammatical": "first", "x": "y"}'],
)
def test_an_expected_answer_must_answer_each_question(answer: str) -> None:
    expected = '{"plausible": "first", "grammatical": "second"}'
    stored = parse_expected_answer(compare_item(1), expected, "gold.csv")
    assert stored == format_answer({"plausible": "first", "grammatical": "second"}) != expected
    with pytest.raises(DataError, match=r"gold\.csv"):
        parse_expected_answer(compare_item(1), answer, "gold.csv")
