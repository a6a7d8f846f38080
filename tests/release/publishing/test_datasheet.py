"""A datasheet answers what is known, marks what is not, and takes nothing of others for markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import released_projects
from ruamel.yaml import YAML

from caramel.release.pin_file import read_pin
from caramel.release.publishing.build import build_release
from caramel.release.publishing.card import ReleasedTable, ReleaseFacts
from caramel.release.publishing.citation import format_bibtex
from caramel.release.publishing.datasheet import OPEN, format_answer, list_unanswered
from caramel.release.publishing.datasheet_answers import is_fully_synthetic
from caramel.release.publishing.metadata import About
from caramel.release.publishing.questions import QUESTIONS
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame

WORLD = {
    "scenes": {"source": "world"},
    "negatives": {"backend": "world", "paraphrases": None},
    "train_generator": {"backend": "pixart"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released_projects.made(tmp_path_factory.mktemp("project"))


def sheet(project: Path, about: dict[str, Any], out: Path) -> str:
    (project / "about.yaml").write_text(json.dumps(about), encoding="utf-8")
    build_release("v1", project, out=out, about=project / "about.yaml")
    return (out / "DATASHEET.md").read_text(encoding="utf-8")


def test_what_only_people_can_say_is_marked_until_they_do(project: Path, tmp_path: Path) -> None:
    answers = {"q3": "A grant.\n\nAnd <b>another</b>."}
    text = sheet(project, released_projects.ABOUT | {"answers": answers}, tmp_path / "some")
    given = dict(re.findall(r"\*\*(\d+)\. [^\n]*\*\*\n\n(.*?)(?=\n\n(?:\*\*\d|##)|\Z)", text, re.DOTALL))
    assert given["3"] == "A grant.\n\nAnd &lt;b&gt;another&lt;/b&gt;."
    assert given["2"] == "Ada L &amp; L, Lab"
    assert given["27"] == OPEN
    assert given["18"] == OPEN, "nobody said whether it relates to people"
    assert "`refine`: surplus: 2" in given["35"]
    assert "`caption2` of 1" in given["10"]
    assert "6 rows (test 5, val 1)" in given["6"]
    assert "1 models" in given["39"]
    assert OPEN not in sheet(project, released_projects.ABOUT, tmp_path / "all")


def test_questions_about_people_fall_away_where_it_shows_none() -> None:
    people = [question for question in QUESTIONS if question.people]
    assert all(
        format_answer(question, About(people=False), {}).startswith("Not applicable") for question in people
    )
    assert all(
        format_answer(question, About(), {17: "No. Cups."}).startswith("Not applicable")
        for question in people
    )
    assert not any(format_answer(question, About(), {}) for question in people)
    assert any(
        line.startswith("answers.q99: unknown question")
        for line in list_unanswered(About(answers={"q99": "x"}), {})
    )


@pytest.mark.parametrize(
    "said", ["Normal street scenes, with faces.", "Not known.", "No.", "Nobody asked.", "north of the river"]
)
def test_words_of_an_answer_do_not_say_that_there_are_no_people(said: str) -> None:
    about = About(answers={"q17": said})
    people = [question for question in QUESTIONS if question.people]
    assert not any(format_answer(question, about, {}) for question in people)
    assert "nor `people: false`" in "".join(list_unanswered(about, {}))


@pytest.mark.parametrize(("said", "told"), [(True, "Yes."), (False, "No.")])
def test_whether_it_relates_to_people_is_said_by_people(
    said: bool, told: str, project: Path, tmp_path: Path
) -> None:
    text = sheet(project, {**released_projects.ABOUT, "people": said, "answers": {}}, tmp_path / "out")
    given = dict(re.findall(r"\*\*(\d+)\. [^\n]*\*\*\n\n(.*?)(?=\n\n(?:\*\*\d|##)|\Z)", text, re.DOTALL))
    assert given["17"] == told
    assert given["18"] == (OPEN if said else "Not applicable: the data does not relate to people.")


@pytest.mark.parametrize(
    ("sources", "change", "drawn"),
    [
        (["synthetic", "world"], {}, True),
        (["x"], {}, False),
        (["world"], {"negatives": {"backend": "language_model"}}, False),
        (["synthetic", "world"], {"train_generator": {"backend": "pretrained"}}, False),
    ],
)
def test_it_is_said_to_be_free_of_people_only_where_all_of_it_was_drawn_here(
    sources: list[str], change: dict[str, Any], drawn: bool, project: Path
) -> None:
    pinned = read_pin("v1", project).model_copy(update={"params": WORLD | change})
    facts = ReleaseFacts(
        pinned,
        About(),
        [ReleasedTable("instances", INSTANCES, {})],
        sources,
        None,
        build_frame(IMAGES, []),
    )
    assert is_fully_synthetic(facts) is drawn


def test_a_brace_in_a_name_or_title_ends_no_field_of_bibtex(project: Path, tmp_path: Path) -> None:
    authors = [
        {"given": "Ada}", "family": "A}, note = {x"},
        {"given": "Bo{b", "family": "Barnes and Noble"},
        {"given": "C\\}", "family": "D"},
    ]
    about = released_projects.ABOUT | {"title": "a} b\\} {c", "authors": authors}
    sheet(project, about, tmp_path / "out")
    bib = (tmp_path / "out" / "citation.bib").read_text(encoding="utf-8")
    fields = read_bibtex(bib)
    assert list(fields) == ["title", "author", "year", "version", "url", "note"]
    assert fields["title"] == r"{a\textbraceright{} b\textbackslash{}\textbraceright{} \textbraceleft{}c}"
    assert split_at_depth_0(fields["author"], " and ") == [
        r"{A\textbraceright{}, note = \textbraceleft{}x}, Ada\textbraceright{}",
        r"{Barnes and Noble}, Bo\textbraceleft{}b",
        r"D, C\textbackslash{}\textbraceright{}",
    ]


def split_at_depth_0(text: str, mark: str) -> list[str]:
    """Return the parts of a text between marks outside of braces, which BibTeX counts whatever stands before them."""
    parts, start, depth = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
        if depth == 0 and text.startswith(mark, at):
            parts.append(text[start:at])
            start = at + len(mark)
    assert depth == 0
    return [*parts, text[start:]]


def read_bibtex(text: str) -> dict[str, str]:
    """Return the fields of an entry as BibTeX reads them."""
    inside = text.strip().removeprefix("@misc{").removesuffix("}")
    _, *fields = split_at_depth_0(inside, ",")
    pairs = (field.split(" = ", 1) for field in fields)
    return {name.strip(): value.strip()[1:-1] for name, value in pairs}


def test_citations_are_of_version_commit_and_data_and_hold_any_title(project: Path, tmp_path: Path) -> None:
    title = 'A "set": of {x} & y_z <i>\\end\n- b'
    sheet(project, released_projects.ABOUT | {"title": title, "doi": "10.5281/zenodo.1"}, tmp_path / "out")
    cff = YAML(typ="safe").load(tmp_path / "out" / "CITATION.cff")
    data = read_pin("v1", project).data
    assert cff["title"] == 'A "set": of {x} & y_z <i>\\end - b'
    assert (cff["type"], cff["license"], cff["version"]) == ("dataset", "CC-BY-4.0", "v1")
    assert cff["identifiers"][0]["value"] == f"sha256:{data}"
    bib = (tmp_path / "out" / "citation.bib").read_text(encoding="utf-8")
    assert r"of \textbraceleft{}x\textbraceright{} \& y\_z <i>\textbackslash{}end - b" in bib
    assert r"author = {L \& L, Ada}" in bib
    assert data in bib
    zenodo = json.loads((tmp_path / "out" / ".zenodo.json").read_text(encoding="utf-8"))
    assert zenodo["creators"] == [
        {"name": "L & L, Ada", "orcid": "0000-0002-1825-0097", "affiliation": "Lab"}
    ]
    assert zenodo["license"] == "cc-by-4.0"


def test_an_entry_without_authors_has_no_empty_field(project: Path) -> None:
    facts = ReleaseFacts(read_pin("v1", project), About(), [], [], None, build_frame(IMAGES, []))
    assert "author" not in format_bibtex(facts)
