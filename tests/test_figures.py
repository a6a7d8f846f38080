"""The figures of README and docs are those of the run whose outputs dvc.lock records, and none is written by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import load_script

from caramel.config.profiles import read_profile
from caramel.errors import DataError
from caramel.release.pin import read_locked_outputs
from caramel.report.blocks import Cell, NoteBlock, TableBlock
from caramel.study.preregistration import hash_plan, read_plan

ROOT = Path(__file__).parents[1]
# A figure of a result: a number with decimals, one before a per cent sign, or a count of a whole ("two of 47").
FIGURE = re.compile(r"\d+\.\d+(?![\w.])|\d+ ?%|\bof \d+\b")
# What calls a comparison confirmatory whatever the plan says.
REGISTERED = re.compile(r"named beforehand|pre-?registered|named in advance")


def load_tool() -> ModuleType:
    return load_script(ROOT / "docs" / "figures.py", "figures_of_docs")


tool = load_tool()


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "figures.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "study.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def blocks(kept: dict[str, Any], study: dict[str, Any]) -> dict[str, str]:
    """All blocks of the pages, by name."""
    found: dict[str, str] = kept["blocks"] | tool.build_study_blocks(study)
    return found


def figures_by_hand(text: str) -> list[str]:
    """Return the lines of the results outside of the blocks that hold a figure of a run."""
    plain = tool.BLOCK.sub("", text)
    return [line for line in plain.splitlines() if FIGURE.search(line)]


@pytest.mark.parametrize("page", tool.PAGES)
def test_the_pages_hold_the_figures_that_the_command_wrote(page: str, blocks: dict[str, str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tool.BLOCK.search(text)
    assert tool.fill(text, blocks) == text


def test_the_study_on_the_pages_is_that_of_the_plan(study: dict[str, Any], blocks: dict[str, str]) -> None:
    path = ROOT / "plans" / "claim.yaml"
    plan = read_plan(path)
    assert {key: study["contrast"][key] for key in ("variant", "against", "metric", "subset")} == dict(
        plan.comparison
    )
    assert plan.draws is not None
    assert len(study["contrast"]["cells"]) == len(plan.draws)
    assert study["registration"]["confirmatory"]
    assert hash_plan(path)[:12] in study["registration"]["reason"]
    assert study["registration"]["reason"] in blocks["claim"]
    assert sum(part["part"] for part in study["parts"]) == pytest.approx(study["contrast"]["mean"])


def test_timings_are_shipped_where_every_stage_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, config = read_profile("default", {}, ROOT)
    times = dict.fromkeys(tool.load_stages(ROOT), 1.5)
    monkeypatch.setattr(tool, "TIMINGS", tmp_path / "timings.json")
    monkeypatch.setattr(tool, "get_last_seconds", lambda profile: {**times, "report": 2.0})
    tool.write_timings(config)
    written = json.loads((tmp_path / "timings.json").read_text(encoding="utf-8"))
    assert (written["profile"], written["seconds"]) == ("default", {**times, "report": 2.0})
    monkeypatch.setattr(tool, "get_last_seconds", lambda profile: {"report": 3.0})
    tool.write_timings(config)
    assert json.loads((tmp_path / "timings.json").read_text(encoding="utf-8")) == written


def test_figures_of_changed_files_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _, config = read_profile("default", {}, ROOT)
    for commit, said in (
        (f"{'ab' * 20}-dirty", "abababababab with changed files from"),
        ("ab" * 20, "abababababab from"),
    ):
        monkeypatch.setattr(tool, "get_git_commit", lambda root, commit=commit: commit)
        assert said in tool.made(config)


def test_an_edited_figure_is_seen(blocks: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = tool.BLOCK.search(text)
    assert block is not None
    digit = re.search(r"\d", block[0])
    assert digit is not None
    place = block.start() + digit.start()
    edited = f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}"
    assert tool.fill(edited, blocks) == text != edited


def test_the_figures_are_of_the_outputs_that_dvc_lock_records(kept: dict[str, Any]) -> None:
    locked = read_locked_outputs(ROOT)
    assert kept["outs"]
    assert kept["outs"] == {path: digest for path, digest in locked.items() if path.startswith(tool.READ)}


def test_no_figure_of_a_run_stands_outside_of_the_blocks() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shows = readme[readme.index("## What it shows") : readme.index("## The repository")]
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    ours = results[: results.index("## Limits")]
    assert figures_by_hand(shows) == []
    assert figures_by_hand(ours) == []
    planted = shows.replace("The world is small", "Images raise Group by 3.8 points. The world is small")
    assert len(figures_by_hand(planted)) == 1
    assert len(figures_by_hand("Text alone tells 49 % of it.")) == 1
    assert len(figures_by_hand("Of the others two of 47 outlive the correction.")) == 1


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.stem
)
def test_no_page_calls_the_claim_confirmatory_whatever_its_plan_says(page: Path) -> None:
    assert REGISTERED.findall(page.read_text(encoding="utf-8")) == []


def test_negative_texts_are_said_to_bring_nothing_only_beside_the_settings_that_were_tried() -> None:
    for page in ("results.md", "methods.md"):
        text = " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
        said = re.search(r"bring nothing", text)
        assert said is not None
        assert "one learning rate" in text[max(said.start() - 300, 0) : said.end() + 300]
        assert "says nothing about other settings" in text[said.start() : said.end() + 400]


def test_a_block_that_nothing_makes_is_an_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        tool.fill("<!-- figures: nobody -->\n<!-- end -->", {})


def test_a_table_of_the_report_is_markdown_with_the_smaller_line_of_a_cell_behind_its_text() -> None:
    table = TableBlock("T", ("Model", "Group"), [[Cell("a|b"), Cell("50.0", "[40, 60]")]], note="Per cent.")
    wanted = "| Model | Group |\n| --- | --- |\n| a\\|b | 50.0 [40, 60] |\n\nPer cent."
    assert tool.format_table(table) == wanted
    marked = TableBlock(
        "T", ("A",), [[Cell("1.0", "[0, 2]", "up")], [Cell("2.0", mark="muted")]], note="Coloured: shown."
    )
    assert tool.format_table(marked) == "| A |\n| --- |\n| **1.0** [0, 2] |\n| 2.0 |\n\nBold: shown."
    assert tool.format_blocks([NoteBlock("A note."), table]) == f"A note.\n\n**T**\n\n{wanted}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ('{"a": 1}', "is not a study"),
        ("[]", "is not a study"),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "study.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"study.json' {message}.*caramel study"):
        tool.read_study_text(path)
