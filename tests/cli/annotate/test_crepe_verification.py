"""People's checks of CREPE's sets, from the files to tables 4 and 7."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from annotated import annotated
from annotation_tasks import answer_of
from crepe_sets import SIDE, write_sets
from PIL import Image

from caramel.annotation.items import parse_item
from caramel.annotation.page_images import TaskImages
from caramel.annotation.store import AnswerStore
from caramel.crepe.results.verification import summarise_answers
from caramel.crepe.verification_sample import Cell, parse_cell
from caramel.errors import DataError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.io import write_table
from caramel.utils.resampling import Bootstrap

Call = Callable[..., tuple[int, str, str]]
DRAW = Bootstrap(200, 0)


@pytest.fixture
def sets(call: Call) -> Call:
    """Return ``call`` beside data/ with both sets and vg/ with their images."""
    write_sets(Path("data"), Path("vg"))
    return call


def make(call: Call, *arguments: str) -> dict[str, str]:
    """Make task.db anew, and return the text of each item."""
    Path("task.db").unlink(missing_ok=True)
    code, _, error = call("annotate", "make", "crepe", "--images", "vg", *arguments, "--out", "task.db")
    assert code == 0, error
    connection = sqlite3.connect("task.db")
    items = [parse_item(*row) for row in connection.execute("SELECT item_id, content, gold FROM items")]
    connection.close()
    return {item.item_id: str(item.questions[0].caption) for item in items}


def test_each_cell_has_so_many_texts_of_different_regions(sets: Call) -> None:
    items = make(sets, "--per-cell", "4")
    cells = pd.DataFrame([parse_cell(name) for name in items], columns=list(Cell._fields))
    counts = cells.value_counts().to_dict()
    assert counts == {
        **{("crepe_systematicity", f"my-data/{s}", t): 4 for s in ("sc", "uc") for t in ("caption", "atom", "comp")},
        **{("crepe_productivity", f"n{n}", t): 4 for n in (4, 12) for t in ("caption", "atom", "swap")},
    }  # fmt: skip
    assert all(("true" in text) == name.endswith("/caption") for name, text in items.items())
    queries = [name.rpartition("/")[0] for name in items if not name.endswith("/caption")]
    assert len(set(queries)) == len(queries)
    numbers = {name.rpartition("/")[2] for name in items}
    assert len(numbers) > 3  # not always the first hard negative


def test_the_sample_depends_on_the_seed_and_not_on_other_cells(sets: Call) -> None:
    first = make(sets, "--per-cell", "3")
    assert make(sets, "--per-cell", "3") == first
    assert make(sets, "--per-cell", "3", "--seed", "1") != first
    Path("data/crepe_productivity/prod_vg_hard_negs_swap_complexity_4.csv").unlink()
    assert make(sets, "--per-cell", "3").items() >= {
        (name, text) for name, text in first.items() if "/swap/n4-" not in name and "/n4-" not in name
    }


def test_people_see_the_region_of_the_photograph(sets: Call) -> None:
    make(sets)
    store = AnswerStore(Path("task.db"))
    (given,) = store.give_items("a", [], 1)
    item = given.item
    number = int(item.item_id.rpartition("/")[0].rpartition("-")[2])
    (key,) = item.list_images()
    Path("crop.jpg").write_bytes(TaskImages(store.locate_image).read(key))
    store.close()
    with Image.open("crop.jpg") as crop:
        assert crop.size == (SIDE, SIDE)
        assert abs(np.asarray(crop).astype(int)[5:-5, 5:-5] - 40 * number).max() < 12


def test_regions_without_an_image_are_left_out_and_counted(sets: Call) -> None:
    Path("vg/2.jpg").unlink()
    code, out, error = sets("annotate", "make", "crepe", "--images", "vg", "--out", "task.db")
    assert code == 0, error
    assert "crepe_productivity: 1 of 6 images are missing; 4 of 24 instances have no score" in error
    assert "60 items" in out  # (5 captions, 5 + 5 negatives) × 4 parts


def test_known_answers_are_mixed_in(sets: Call) -> None:
    name = next(name for name in make(sets) if name.endswith("/caption"))
    Path("gold.csv").write_text(f"item_id,answer,role\n{name},yes,gold\n")
    make(sets, "--gold", "gold.csv", "--items", "5")
    with sqlite3.connect("task.db") as connection:
        roles = dict(connection.execute("SELECT role, count(*) FROM items GROUP BY role"))
    connection.close()
    assert roles == {"gold": 1, "item": 5}


def test_answers_of_two_people_become_tables_4_and_7(sets: Call) -> None:
    """One is always right; the other takes every swap for true, and is right otherwise."""
    make(sets, "--overlap", "2")
    store = AnswerStore(Path("task.db"))
    for annotator in ("a", "b"):
        while given := store.give_items(annotator, [], 1):
            name = given[0].item.item_id
            is_true = name.endswith("/caption") or (annotator == "b" and "/swap/" in name)
            store.add_answer(answer_of(name, annotator, answer="yes" if is_true else "no"))
    store.close()
    assert sets("annotate", "answers", "task.db", "--out", "answers.parquet")[0] == 0
    code, out, error = sets("crepe", "figures", "--answers", "answers.parquet", "--out", "figures")
    assert code == 0, error
    assert "Not made: figures 4 to 8 and 13, tables_15_16: no folder of results is given." in out
    table_4, table_7 = (pd.read_csv(f"figures/{name}.csv") for name in ("table_4", "table_7"))
    assert table_4["part"].tolist() == ["n4", "n12", "all", "my-data/sc", "my-data/uc", "all"]
    assert (table_4[["share", "sd", "agreement"]] == [100, 0, 100]).all(axis=None)
    assert (table_4["ci_low"] < 80).all()  # six items do not show that all captions are faithful
    rows = table_7.set_index(["set", "part", "type"])[["items", "share", "sd", "agreement", "shared_items"]]
    productivity = rows.loc["crepe_productivity"]
    assert productivity.loc[("n12", "swap")].tolist() == [6, 50, 50, 0, 6]
    assert productivity.loc[("n4", "atom")].tolist() == [6, 100, 0, 100, 6]
    assert productivity.loc[("all", "all")].tolist() == [24, 75, 25, 50, 24]
    assert "crepe_productivity   all         swap  12     50.0 ± 50.0" in out


def test_a_share_weighs_items_and_its_interval_holds_the_truth() -> None:
    """100 times 40 items, in truth 80 % genuine; the judges agree with the truth."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        answers = {
            f"crepe_productivity/atom/n4-{n}/0": "no" if rng.random() < 0.8 else "yes" for n in range(40)
        }
        table = summarise_answers(annotated({"a": answers}, "true"), "x", bootstrap=DRAW)["table_7"]
        row = table.iloc[0]
        assert row["share"] == pytest.approx(100 * sum(a == "no" for a in answers.values()) / 40)
        covered += row["ci_low"] <= 80 <= row["ci_high"]
    assert covered >= 90


def test_answers_to_other_tasks_are_an_error(call: Call) -> None:
    with pytest.raises(DataError, match=r"(?s)1 answers to items that are not of CREPE's sets.*'p1'"):
        summarise_answers(annotated({"a": {"p1": "yes"}}, "true"), "answers", bootstrap=DRAW)
    write_table(ANNOTATIONS, annotated({"a": {"p1": "both"}}, "fits"), "fits.parquet")
    code, _, error = call("crepe", "figures", "--answers", "fits.parquet", "--out", "figures")
    assert (code, "not of CREPE's sets" in error) == (1, True), error
    code, _, error = call("crepe", "figures", "--out", "figures")
    assert (code, "--answers" in error) == (1, True), error


def test_nothing_is_replaced(sets: Call) -> None:
    make(sets)
    before = {path: path.read_bytes() for path in Path("task_images").iterdir()}
    arguments = ("annotate", "make", "crepe", "--images", "vg", "--seed", "5")
    code, _, error = sets(*arguments, "--out", "task.db")
    assert (code, "may hold answers" in error) == (1, True)
    assert {path: path.read_bytes() for path in Path("task_images").iterdir()} == before
    Path("other_images").mkdir()
    code, _, error = sets(*arguments, "--out", "other.db")
    assert (code, "'other_images' exists, and would be replaced" in error) == (1, True), error
    code, _, error = sets(*arguments, "--data", "vg", "--out", "third.db")
    assert (code, "no folder crepe_systematicity or crepe_productivity" in error) == (1, True)


@pytest.mark.parametrize(
    "name", ["p1", "crepe_systematicity/x", "crepe_productivity/atom/n4-1", "crepe_productivity/atom/n4-1/no"]
)
def test_other_names_have_no_cell(name: str) -> None:
    assert parse_cell(name) is None
