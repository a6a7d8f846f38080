"""Drafts judged by the world, one by one by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from caramel.schemas.io import build_frame
from caramel.schemas.llm import VERDICTS
from caramel.sources.captions.error_rates import ERRORS, compute_error_rates, evaluate_checks, label_drafts
from caramel.sources.world.scenes import Scene, SceneObject

SCENE = Scene((SceneObject("ball", "red", "small", 0, 0), SceneObject("box", "blue", "large", 0, 1)), "white")
CAPTION = "A red ball is to the left of a blue box."
CASES = [
    # id's part, text, what is wrong with it
    ("replace_obj", "A red cup is to the left of a blue box.", ()),
    ("replace_obj", "A red cup is to the left of a pink box.", ("wrong_subtype",)),
    ("replace_obj", "A red cup is to left of a blue box.", ("malformed",)),
    ("replace_att", "A red ball is to the left of a pink box.", ()),
    ("replace_att", "A ball is to the left of a blue box.", ("wrong_subtype", "still_true")),
    ("replace_rel", "A red ball is above a blue box.", ()),
    ("swap_obj", "A red box is to the left of a blue ball.", ()),
    ("swap_obj", "A blue box is to the left of a red ball.", ()),
    ("swap_obj", "A blue ball is to the left of a red box.", ("wrong_subtype",)),  # as of swap_att
    ("swap_att", "A blue ball is to the left of a red box.", ()),
    ("swap_att", "A blue ball is to the left of a blue box.", ("wrong_subtype",)),
    ("add_obj", "A red ball is to the left of a blue box along with a cup.", ()),
    ("add_obj", "A red ball and a cup is to the left of a blue box.", ("malformed",)),
    ("add_att", "A small red ball is to the left of a blue box.", ("still_true",)),
    ("add_att", "A large red ball is to the left of a blue box.", ()),
    ("paraphrase", "There is a red ball to the left of a blue box", ()),
    ("paraphrase", "A blue box has a red ball to its left.", ()),
    ("paraphrase", "A blue box has a red ball to its right.", ("wrong_subtype", "not_true")),
    ("paraphrase", "A blue box has a small red ball to its left.", ("wrong_subtype",)),
    ("paraphrase", "Look, a red ball.", ("malformed",)),
]


@pytest.fixture
def pairs() -> pd.DataFrame:
    rows = [{"pair_id": f"p{i}", "caption": CAPTION, "scene": SCENE.to_json()} for i in range(len(CASES))]
    return pd.DataFrame([*rows, {"pair_id": "other", "caption": "A dog.", "scene": None}])


@pytest.fixture
def rows(pairs: pd.DataFrame) -> pd.DataFrame:
    drafts = [
        {
            "id": f"p{i}:{part}",
            "attempt": 1,
            "text": text,
            "edit_location": not wrong,
            "meaning": "still_true" not in wrong,
        }
        for i, (part, text, wrong) in enumerate(CASES)
    ]
    drafts.append({"id": "other:add_obj", "attempt": 1, "text": "A dog and a cat."})
    return label_drafts(pairs, build_frame(VERDICTS, drafts), allow_unmentioned_objects=False)


def test_each_draft_is_judged_by_what_it_says_of_the_scene(rows: pd.DataFrame) -> None:
    found = [tuple(name for name in ERRORS if row[name]) for _, row in rows.iterrows()]
    assert found == [wrong for _, _, wrong in CASES]
    assert rows["right"].tolist() == [not wrong for _, _, wrong in CASES]


def test_the_table_counts_drafts_by_part_and_what_was_kept(rows: pd.DataFrame) -> None:
    kept = ["p0:replace_obj", "p1:replace_obj", "p13:add_att"]
    prompts = pd.Series(["find_obj@1", "replace_obj_propose@1", "replace_obj_compose@1", "paraphrase@1"])
    asked = compute_error_rates(rows, kept, ["p2:replace_obj", *rows["id"][3:13], *rows["id"][14:]], prompts)
    table = asked.set_index("subtype")
    first, whole = table.loc["replace_obj"], table.loc["all"]
    assert first.tolist() == [3, 2, 2, 3, 1, 1, 0, 0, 1, 1]
    assert (whole["texts"], whole["requests"], whole["drafts"]) == (len(CASES), 4, len(CASES))
    assert (whole["kept"], whole["kept_right"], whole["still_true"]) == (3, 1, 2)


def test_a_part_of_which_no_draft_came_stands_in_the_table(rows: pd.DataFrame) -> None:
    prompts = pd.Series(["swap_att@1", "add_obj@1"])
    of = rows[rows["part"] != "swap_att"]
    table = compute_error_rates(of, [], ["p1:swap_att", "p2:add_att", "p3:add_obj"], prompts).set_index(
        "subtype"
    )
    assert table.loc["swap_att", ["texts", "requests", "drafts"]].tolist() == [1, 1, 0]
    assert table.loc["all", "texts"] == 3


def test_a_check_is_judged_by_what_it_refuses(rows: pd.DataFrame) -> None:
    found = evaluate_checks(rows).set_index(["part", "check"])
    assert found.loc[("negatives", "edit_location")].tolist()[1:] == [7, 1.0, 1.0, 1.0]
    refused, precision, recall, recall_of_true = found.loc[("negatives", "meaning")].tolist()[1:]
    assert (refused, precision, recall, recall_of_true) == (2, 1.0, pytest.approx(2 / 7), 1.0)
    assert ("negatives", "statement") not in found.index, "nothing was judged by it"


PLACED = "A red ball on the left and a blue box on the right."
PLACED_CASES = [
    ("replace_rel", "A red ball on the right and a blue box on the right.", ()),
    ("replace_rel", "A red ball at the top and a blue box on the right.", ("still_true",)),
    ("replace_rel", "A red ball and a blue box on the right.", ("wrong_subtype", "still_true")),
    ("replace_att", "A red ball at the bottom and a blue box on the right.", ("wrong_subtype",)),
    ("swap_obj", "A blue box on the left and a red ball on the right.", ()),
    ("swap_att", "A blue ball on the left and a red box on the right.", ()),
    ("add_att", "A large red ball on the left and a blue box on the right.", ()),
    ("add_obj", "A red ball on the left and a blue box on the right along with a cup.", ()),
    ("paraphrase", "There is a red ball on the left and a blue box on the right.", ()),
    (
        "paraphrase",
        "There is a red ball on the right and a blue box on the left.",
        ("wrong_subtype", "not_true"),
    ),
]


@pytest.mark.parametrize(("part", "text", "wrong"), PLACED_CASES)
def test_a_draft_on_positions_is_judged_as_one_on_relations(
    part: str, text: str, wrong: tuple[str, ...]
) -> None:
    pairs = pd.DataFrame([{"pair_id": "p", "caption": PLACED, "scene": SCENE.to_json()}])
    drafts = build_frame(VERDICTS, [{"id": f"p:{part}", "attempt": 1, "text": text}])
    (row,) = label_drafts(pairs, drafts, allow_unmentioned_objects=False).to_dict("records")
    assert tuple(name for name in ERRORS if row[name]) == wrong
