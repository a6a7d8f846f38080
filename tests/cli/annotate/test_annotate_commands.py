"""The commands that make, serve, export and import tasks, and write answers."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from annotated import decided
from annotation_project import COUNT, break_image, write_project
from annotation_tasks import answer_of, list_keys

from caramel.annotation.content import hash_candidates
from caramel.annotation.store import AnswerStore
from caramel.errors import DataError
from caramel.schemas.annotation import ANNOTATIONS
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.decisions import DECISIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.captions.corrected import read_corrected_paraphrases

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(call: Call) -> Call:
    """Return ``call`` beside the tables of a project in data/."""
    write_project(Path("data"))
    return call


def make(call: Call, *arguments: str) -> list[dict[str, object]]:
    """Make task.db anew, and return its items."""
    Path("task.db").unlink(missing_ok=True)
    code, out, error = call("annotate", "make", *arguments, "--out", "task.db")
    assert code == 0, error
    assert "Written to task.db" in out
    with sqlite3.connect("task.db") as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM items ORDER BY item_id")]
    connection.close()
    return rows


def answer_all(annotator: str, decide: Callable[[str], str]) -> None:
    """Answer all items of task.db."""
    store = AnswerStore(Path("task.db"))
    while items := store.give_items(annotator, [], 1):
        name = items[0].item.item_id
        store.add_answer(answer_of(name, annotator, answer=decide(name)))
    store.close()


def test_each_task_is_made_of_the_project_s_tables(project: Call) -> None:
    assert [row["item_id"] for row in make(project, "choose")] == [f"p{n}:replace_att" for n in range(COUNT)]
    assert len(make(project, "fits")) == COUNT
    assert len(make(project, "true")) == 2 * COUNT
    assert len(make(project, "true", "--captions", "paraphrase", "--items", "4")) == 4
    baseline = make(project, "baseline")
    assert json.loads(str(baseline[0]["gold"])) == {"c0": "i0", "c1": "i1", "i0": "c0", "i1": "c1"}
    assert all(row["overlap"] == 2 for row in make(project, "correct", "--overlap", "2"))


def test_a_sample_depends_on_the_seed_alone(project: Call) -> None:
    names = [
        [row["item_id"] for row in make(project, "choose", "--items", "3", "--seed", seed)] for seed in "0010"
    ]
    assert names[0] == names[1] == names[3]
    assert names[0] != names[2]


def test_people_who_chose_candidates_decide_what_is_compared(project: Call) -> None:
    candidates, images = Path("data/synthesize/candidates.parquet"), Path("data/synthesize/images.parquet")
    contents = hash_candidates(read_table(CANDIDATES, candidates), read_table(IMAGES, images))
    decisions = [None, "none", "2", "1", "0", "2"]
    names = [f"p{n}:replace_att" for n in range(COUNT)]
    rows = decided("choose", dict(zip(names, decisions, strict=True)), contents=contents)
    write_table(DECISIONS, rows, "decisions.parquet")
    items = make(project, "fits", "--chosen", "decisions.parquet")
    assert [row["item_id"] for row in items] == names[2:]
    unknown = rows.assign(decision=rows["decision"].replace({"1": "7"}))
    drawn_again = rows.assign(content=[*rows["content"][:3], "another", *rows["content"][4:]])
    for other in (unknown, drawn_again):
        write_table(DECISIONS, other, "decisions.parquet")
        code, _, error = project("annotate", "make", "fits", "--chosen", "decisions.parquet", "--out", "x.db")
        assert (code, "on 1 items whose images or captions" in error) == (1, True), error
        assert names[3] in error


def test_a_paraphrase_that_two_people_correct_differently_is_decided_by_a_third(project: Call) -> None:
    make(project, "correct", "--overlap", "2")
    answer_all("a", lambda name: f"Corrected {name}.")
    answer_all("b", lambda name: "Another text." if name == "p2" else f"Corrected {name}.")
    assert project("annotate", "answers", "task.db", "--out", "answers.parquet")[0] == 0
    assert len(read_table(ANNOTATIONS, "answers.parquet")) == 2 * COUNT
    (item,) = make(project, "resolve", "answers.parquet")
    assert item["item_id"] == "p2"
    assert {"Another text.", "Corrected p2."} <= {
        o["caption"] for o in json.loads(str(item["content"]))["questions"][0]["options"]
    }


def test_an_unfinished_correction_stops_the_stage_that_reads_it(project: Call) -> None:
    make(project, "correct")
    AnswerStore(Path("task.db")).add_answers([answer_of("p0", "a", answer="Corrected.")])
    code, _, error = project("annotate", "answers", "task.db", "--out", "answers.parquet")
    assert (code, f"Without an answer yet: {COUNT - 1} items." in error) == (0, True)
    assert project("annotate", "decide", "answers.parquet", "--out", "decisions.parquet")[0] == 0
    pairs = read_table(PAIRS, "data/scenes/pairs.parquet")
    with pytest.raises(DataError, match=rf"{COUNT - 1} have no answer:\s+- 'p1'"):
        read_corrected_paraphrases(pairs, annotations=".")


def test_two_sets_are_compared_by_caption_and_type(project: Call) -> None:
    for name, word in (("a", "blue"), ("b", "green")):
        frame = pd.DataFrame(
            {
                "id": [f"{name}{n}" for n in range(8)],
                "caption": [f"A red ball {n}." for n in range(8)],
                "negative_caption": [f"A {word if n else 'same'} ball {n}." for n in range(8)],
                "type": ["replace"] * 4 + ["swap"] * 4,
            }
        )
        frame.to_csv(f"{name}.csv", index=False)
    assert [row["item_id"] for row in make(project, "compare", "a.csv", "b.csv")] == [
        f"a{n}|b{n}" for n in range(1, 8)
    ]
    assert len(make(project, "compare", "a.csv", "b.csv", "--per-type", "2")) == 4


def test_gold_items_are_named_by_a_file_whose_errors_name_the_row(project: Call) -> None:
    gold = Path("gold.csv")
    gold.write_text("item_id,answer,role\np0:replace_att,0,gold\np1:replace_att,none,qualification\n")
    rows = make(project, "choose", "--gold", "gold.csv", "--items", "2")
    assert sorted(str(row["role"]) for row in rows) == ["gold", "item", "item", "qualification"]
    Path("task.db").unlink()
    known = ("annotate", "make", "choose", "--gold", "gold.csv", "--items", "2", "--out", "task.db")
    _, _, told = project(*known)
    assert "meets all" not in told  # 9 items would be needed
    assert "The task has 2 items: whoever judges all of them meets about 0 of the 1 gold items" in told
    Path("task.db").unlink()
    _, _, told = project(*known, "--gold-every", "2")
    assert "all 1 gold items within about 1 items" in told
    assert "The task has" not in told
    for line, message in {
        "p9,0,gold": "no item 'p9'",
        "p2:replace_att,9,gold": "Possible values: 0, 1, 2, none",
        "p2:replace_att,0,boss": "'boss'",
        "p0:replace_att,1,gold": "occurs twice",
    }.items():
        gold.write_text(f"item_id,answer,role\np0:replace_att,0,gold\n{line}\n")
        code, _, error = project("annotate", "make", "choose", "--gold", "gold.csv", "--out", "x.db")
        assert code == 1
        assert message in error
        assert "gold.csv" in error
    assert not Path("x.db").exists()


def test_items_with_a_broken_image_are_left_out_and_named(project: Call) -> None:
    break_image(Path("data/synthesize/images.parquet"), "p3-1")
    code, out, error = project("annotate", "make", "choose", "--out", "task.db")
    assert code == 0
    assert f"{COUNT - 1} items" in out
    assert "1 item left out" in error
    assert "p3:replace_att" in error
    for n in range(COUNT):
        break_image(Path("data/scenes/images.parquet"), f"i{n}")
    code, _, error = project("annotate", "make", "fits", "--out", "fits.db")
    assert code == 1
    assert "broken image" in error


def test_a_task_without_rows_and_a_file_that_exists_are_errors(project: Call) -> None:
    write_table(ANNOTATIONS, build_frame(ANNOTATIONS, []), "empty.parquet")
    code, _, error = project("annotate", "make", "resolve", "empty.parquet", "--out", "x.db")
    assert (code, "nothing is left to decide" in error) == (1, True)
    make(project, "choose")
    code, _, error = project("annotate", "make", "choose", "--out", "task.db")
    assert (code, "may hold answers" in error) == (1, True)
    Path("empty.txt").write_text(" \n")
    code, _, error = project("annotate", "make", "choose", "--guideline", "empty.txt", "--out", "x.db")
    assert (code, "empty" in error) == (1, True)


def test_a_task_goes_out_in_each_form_and_nothing_is_written_over_it(project: Call) -> None:
    make(project, "choose", "--items", "2")
    for target, out, more in (
        ("html", "a.html", ("--annotator", "a7")),
        ("csv", "csv", ()),
        ("label-studio", "ls", ()),
    ):
        assert project("annotate", "export", "task.db", "--to", target, "--out", out, *more)[0] == 0
    assert Path("a.html").stat().st_size > 10_000
    assert {path.name for path in Path("ls").iterdir()} == {"tasks.json", "config.xml"}
    assert len(list(Path("csv/images").iterdir())) == 6
    for arguments in (
        ("export", "task.db", "--to", "html", "--annotator", "a", "--out", "task.db"),
        ("answers", "task.db", "--out", "task.db"),
    ):
        code, _, error = project("annotate", *arguments)
        assert (code, "never overwritten" in error) == (1, True)
    for arguments in (("--to", "html"), ("--to", "csv", "--annotator", "a")):
        code, _, error = project("annotate", "export", "task.db", *arguments, "--out", "x")
        assert (code, "--annotator" in error) == (1, True)


def test_parts_of_a_task_share_no_item_and_are_all_of_it(project: Call) -> None:
    make(project, "choose")
    names: list[str] = []
    for number in (1, 2, 3, 4):
        arguments = ("export", "task.db", "--to", "csv", "--part", f"{number}/4", "--out", f"part{number}")
        code, out, _ = project("annotate", *arguments)
        assert (code, out.split()[0]) == (0, str(2 if number <= 2 else 1))
        names += pd.read_csv(f"part{number}/items.csv")["item_key"].tolist()
    keys = list_keys(Path("task.db"))
    assert sorted(names) == sorted(keys[f"p{n}:replace_att"] for n in range(COUNT))
    for part, message in (
        ("0/4", "no part"),
        ("5/4", "no part"),
        ("x", "no part"),
        ("7/7", "fewer than 7 items"),
    ):
        code, _, error = project("annotate", "export", "task.db", "--to", "csv", "--part", part, "--out", "x")
        assert code != 0
        assert message in error


def test_secrets_are_printed_once_and_sharing_needs_them(project: Call) -> None:
    make(project, "choose")
    code, out, _ = project("annotate", "accounts", "accounts.json", "a01", "a02")
    assert code == 0
    secrets = re.findall(r"^a0[12]  (\S{43})$", out, re.MULTILINE)
    assert len(secrets) == 2
    code, out, _ = project("annotate", "accounts", "accounts.json", "a02", "--renew")
    assert (code, re.findall(r"^a02  (\S{43})$", out, re.MULTILINE)[0] in secrets) == (0, False)
    assert "Removed 1" in project("annotate", "accounts", "accounts.json", "a02", "--remove")[1]
    code, _, error = project("annotate", "accounts", "accounts.json", "a01", "--remove", "--renew")
    assert (code, "exclude each other" in error) == (1, True)
    for arguments, message in (
        (("--share-on", "192.0.2.1"), "needs --accounts"),
        (("--share-on", "0.0.0.0", "--accounts", "accounts.json"), "one address"),
        (("--share-on", "192.0.2.1", "--accounts", "accounts.json"), "cannot be used"),
        (("--annotator", "<b>me</b>"), "pseudonym"),
        (("--annotator", "a01", "--accounts", "accounts.json"), "exclude each other"),
        (("--public-url", "lab.example"), "--public-url 'lab.example'"),
        (("--accounts", "missing.json"), "missing.json"),
    ):
        code, _, error = project("annotate", "task.db", *arguments)
        assert (code, message in error) == (1, True), error
        code, _, error = project("annotate", *arguments, "task.db")  # options may come first
        assert (code, message in error) == (1, True), error
    for arguments in (("serve", "nothing.db"), ("nothing.db",)):
        code, out, error = project("annotate", *arguments)
        assert (code, "caramel annotate make" in error) == (1, True)
        assert "http" not in out  # no link to what is not served


def test_a_width_of_zero_is_an_error_of_its_option(call: Call) -> None:
    code, _, error = call("annotate", "sample-size", "--kappa", "0.5", "--within", "0")
    assert code != 0
    assert "--within" in error
