"""What the table of answers says of each answer: what was judged, by whom, for what, and when."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from annotation_tasks import (
    answer_of,
    choose_item,
    compare_item,
    encoded,
    image_task,
    text_item,
    write_images,
    write_task,
)
from stored_images import stored

from caramel.annotation.answers import UNORDERED, hash_item, read_answers
from caramel.annotation.content import hash_candidates, hash_judged
from caramel.annotation.items import Item, Option, Question
from caramel.annotation.making.image_keys import ImageKeys
from caramel.annotation.making.image_tasks import build_choose_items, build_fits_items
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore
from caramel.errors import DataError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.contracts import check_table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table

KNOWN = {"width": 48, "height": 48, "source": "test", "split": "test"}


def test_the_content_of_an_item_is_its_captions_and_images_whatever_their_names_and_order() -> None:
    item = choose_item(1, ["a" * 64, "b" * 64])
    assert (
        hash_item(item)
        == hash_item(choose_item(2, ["a" * 64, "b" * 64]))
        == hash_judged(["A red ball."], ["a" * 64, "b" * 64])
    )
    others = [
        choose_item(1, ["a" * 64, "c" * 64]),
        choose_item(1, ["a" * 64, "b" * 64, "c" * 64]),
        choose_item(1, ["a" * 64, "b" * 64], caption="A blue ball."),
        text_item(1),
        compare_item(1),
    ]
    assert len({hash_item(other) for other in [item, *others]}) == len(others) + 1


def test_a_correction_belongs_to_its_caption_whatever_draft_was_corrected() -> None:
    def correct(draft: str) -> Item:
        question = Question("text", "Correct.", (Option("draft", draft),), caption="A cat.", editable=True)
        return Item("p", (question,))

    assert hash_item(correct("Cat.")) == hash_item(correct("The cat.")) == hash_judged(["A cat."])


def test_the_stages_compute_the_content_that_the_items_have(tmp_path: Path) -> None:
    index = tmp_path / "images.parquet"
    stored(index, [{"image_id": f"i{n}", "data": encoded(n), **KNOWN} for n in range(4)])
    images = read_table(IMAGES, index)
    sha256 = dict(zip(images["image_id"], images["sha256"], strict=True))
    candidates = pd.DataFrame(
        {"negative_id": ["n", "n"], "candidate": [1, 0], "image_id": ["i1", "i0"], "prompt": "A cat."}
    )
    keys = ImageKeys()
    (item,) = build_choose_items(candidates, index, keys.add)
    assert hash_candidates(candidates, images) == {"n": hash_item(item)}
    chosen = pd.DataFrame(
        {"negative_id": ["n"], "pair_id": ["p"], "image_id": ["i1"], "positive_image_id": [None]}
    )
    pairs = pd.DataFrame({"pair_id": ["p"], "image_id": ["i3"], "caption": ["A dog."]})
    (fits,) = build_fits_items(chosen, pairs, source=index, drawn=index, put_image=keys.add)
    assert hash_item(fits) == hash_judged(["A dog."], [sha256["i3"], sha256["i1"]])


def test_an_image_that_is_drawn_again_while_a_task_is_open_is_not_shown(tmp_path: Path) -> None:
    store = AnswerStore(image_task(tmp_path, 1))
    key = next(iter(store.list_exported_items()[0].list_images()))
    assert TaskImages(store.locate_image).read(key)
    stored(
        tmp_path / "images.parquet",
        [{"image_id": f"i{n}", "data": encoded(n + 7), **KNOWN} for n in range(2)],
    )
    with pytest.raises(DataError, match=r"has changed since the task was made.*dvc checkout"):
        TaskImages(store.locate_image).read(key)


def test_a_task_below_a_linked_folder_shows_its_images(tmp_path: Path) -> None:
    project, volume = tmp_path / "project", tmp_path / "other" / "volume"
    volume.mkdir(parents=True)
    project.mkdir()
    (project / "work").symlink_to(volume)
    keys, index = ImageKeys(), write_images(project, 1)
    key = keys.add(index, "i0")
    store = AnswerStore(write_task(project / "work" / "t.db", [choose_item(1, [key])], keys))
    assert TaskImages(store.locate_image).read(key) == encoded(0)


def test_roles_order_and_who_failed_the_qualification_stand_in_the_table(tmp_path: Path) -> None:
    known = {"n001": "positive", "n002": "positive", "n003": "positive"}
    items = [text_item(n, gold=known.get(f"n{n:03}")) for n in range(1, 6)]
    roles = {"n001": "qualification", "n002": "qualification", "n003": "gold"}
    path = write_task(tmp_path / "t.db", items, roles=roles, pass_mark=0.8)
    store = AnswerStore(path)
    store.add_answers(
        [
            answer_of("n002", "good"),
            answer_of("n001", "good"),
            answer_of("n004", "good"),
            answer_of("n003", "good", answer_id=f"{UNORDERED}1"),
            *(answer_of(name, "failed", answer="negative") for name in ("n001", "n002", "n005")),
            answer_of("n001", "half", answer="negative"),  # has not finished the qualification
        ]
    )
    rows = read_answers(path)
    check_table(ANNOTATIONS, rows, "answers")
    assert dict(zip(rows["item_id"], rows["role"], strict=True)) == {
        **roles, "n004": "item", "n005": "item"
    }  # fmt: skip
    assert rows.groupby("annotator")["qualified"].unique().map(list).to_dict() == {
        "failed": [False],
        "good": [True],
        "half": [True],
    }
    turns = rows[rows["annotator"] == "good"].set_index("item_id")["turn"]
    assert turns.dropna().sort_values().index.tolist() == ["n002", "n001", "n004"]
    assert pd.isna(turns["n003"]), "its order is unknown"
