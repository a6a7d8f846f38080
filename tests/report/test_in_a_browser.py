"""Nothing that stands in data, in parameters or in names runs in the pages, or looks like a part of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic import plant, write_all

from caramel import cli
from caramel.errors import GateError
from caramel.gates.suites import validate_table
from caramel.report.page import build_report, write_report
from caramel.study.preregistration import Registration

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --allow-file-access-from-files --virtual-time-budget=2000 --dump-dom"
)
RUN = "document.documentElement.dataset.planted=1"
PLANTED = (
    f'<img src=x onerror="{RUN}"><script>{RUN}</script><svg onload={RUN}> "><body onload={RUN}>'
    f"</title></style></script><script>{RUN}</script><planted>PASSED</planted>"
    f" $styling ${{template}} $$ $\\frac$ {{{{ 7 * 7 }}}} [x](javascript:{RUN}) &lt;planted&gt;"
)

ENDLESS = f"\0\x1b[2J\x7f\u202e\u2066\uffff</script><script>{RUN}</script>{{{{ 7 * 7 }}}}" + "W" * 20_000
MEASURE = """<script>addEventListener("load", () => {
    const whole = document.documentElement, inside = ".scroll, .wide, nav";  // which scroll by themselves
    const over = [...document.querySelectorAll("body *")].filter(
        (each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(inside));
    whole.dataset.wide = whole.scrollWidth > innerWidth ? over.length + 1 : over.length;
})</script></body>"""

# A window of Chromium is 500 pixels wide at least; a frame in it is as narrow as a phone. Tables that are folded are opened.
FRAME = """<!doctype html><body><iframe src="{page}" width="{width}" height="900"></iframe><script>
document.querySelector("iframe").onload = (event) => {{
    const inside = event.target.contentDocument, root = inside.documentElement;
    inside.querySelectorAll("details").forEach((each) => {{ each.open = true; }});
    const scrolling = [...inside.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth);
    Object.assign(document.documentElement.dataset, {{
        over: root.scrollWidth - event.target.contentWindow.innerWidth, width: root.clientWidth,
        tables: inside.querySelectorAll("table").length, scrolling: scrolling.length }});
}};</script></body>"""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium")


def shown(page: Path, tmp_path: Path, width: int = 1280) -> str:
    """Return the page as a browser window of so many pixels has it once its scripts have run."""
    command = [
        str(CHROMIUM),
        *FLAGS.split(),
        f"--window-size={width},900",
        f"--user-data-dir={tmp_path / 'browser'}",
        page.resolve().as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def has_run(dom: str) -> bool:
    return re.search(r"<html[^>]* data-planted=", dom) is not None


def assert_it_is_text(page: Path, tmp_path: Path) -> None:
    dom = shown(page, tmp_path)
    assert "&lt;planted&gt;PASSED" in dom, "what is planted is shown"
    assert not has_run(dom)
    assert "<planted>" not in dom
    assert not re.search(r"<[^<>]* (?:href|src)=.?\s*javascript:", dom)


@needs_chromium
@pytest.mark.parametrize(
    "planted", PLANTED.replace("<svg", "\n<svg").replace('"><body', "\n<body").split("\n")
)
def test_in_a_page_that_escapes_nothing_it_does_run(planted: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><html><body><p>{planted}</p></body></html>", encoding="utf-8")
    assert has_run(shown(page, tmp_path))


def data_docs(tmp_path: Path) -> Path:
    """Return the page of a suite in which all that can be planted is."""
    kinds: dict[str, dict[str, Any]] = {
        "expect_column_values_to_be_in_set": {"value_set": ["x", PLANTED]},
        "expect_column_distinct_values_to_be_in_set": {"value_set": [PLANTED]},
        "expect_column_distinct_values_to_equal_set": {"value_set": [PLANTED]},
        "expect_column_values_to_match_regex": {"regex": "<planted>$"},
        "expect_column_values_to_be_unique": {},
        "expect_column_most_common_value_to_be_in_set": {"value_set": ["x"]},
        "expect_column_values_to_be_of_type": {"type_": "int"},
        "expect_column_values_to_be_between": {
            "min_value": 1
        },  # cannot be evaluated: the message has a value
    }
    parts = [
        {
            "type": kind,
            "kwargs": {"column": "caption", **more},
            "meta": {"notes": PLANTED},
            "severity": "critical",
        }
        for kind, more in kinds.items()
    ]
    suite = {"name": "captions", "table": PLANTED, "key": ["id"], "expectations": parts}
    (tmp_path / "suite.json").write_text(json.dumps(suite), encoding="utf-8")
    rows = pd.DataFrame({"id": [PLANTED, "b", "c"], "caption": [PLANTED, PLANTED, "y"]})
    with pytest.raises(GateError, match="fails 8 of 8"):
        validate_table(rows, tmp_path / "suite.json", docs_folder=tmp_path)
    return tmp_path / "captions" / "index.html"


def test_no_tag_of_what_is_planted_stands_in_the_data_docs(tmp_path: Path) -> None:
    text = data_docs(tmp_path).read_text(encoding="utf-8")
    assert text.count("PASSED") > 10
    assert not re.search("<(planted|img|svg|script|body onload)", text)


@needs_chromium
def test_it_is_text_in_the_data_docs(tmp_path: Path) -> None:
    assert_it_is_text(data_docs(tmp_path), tmp_path)


def planted_report(text: str, tmp_path: Path, half: str = "") -> Path:
    """Return a report in which a text stands wherever data, params and names do, and another in the notes of gates."""
    data = tmp_path / "data"
    write_all(data, per_subtype=4, seeds=1)
    plant(data, text)
    for file in data.glob("validate_*/summary.json"):
        file.write_text(file.read_text().replace('"notes": "', f'"notes": {json.dumps(half)[:-1]}'))
    report = build_report(
        data,
        profile=text,
        commit=text,
        versions={text: text},
        last=tmp_path / "last.json",
        examples=3,
        exempt=["add"],
        primary_comparison={
            "variant": "trohn_img",
            "against": "base",
            "metric": "group",
            "subset": "without_add",
        },
        registration=Registration(False, text),
    )
    write_report(report, tmp_path / "out", last=tmp_path / "last.json", profile="p", commit="c")
    return tmp_path / "out" / "report.html"


@needs_chromium
@pytest.mark.usefixtures("blank_figures")
def test_it_is_text_in_the_report(tmp_path: Path) -> None:
    assert_it_is_text(planted_report(PLANTED, tmp_path), tmp_path)


@needs_chromium
@pytest.mark.usefixtures("blank_figures")
def test_endless_words_and_control_characters_neither_widen_nor_swell_the_report(
    tmp_path: Path,
) -> None:
    page = planted_report(ENDLESS, tmp_path, "\ud800")  # half of a pair: JSON holds it, a table does not
    text = page.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    assert text.count("{{ 7 * 7 }}") > 10
    assert not re.search("[\0\x1b\x7f\u202e\u2066]", text)
    measured = page.with_name("measured.html")
    measured.write_text(text.replace("</body>", MEASURE), encoding="utf-8")
    for width in (1280, 500):
        dom = shown(measured, tmp_path, width)
        assert not has_run(dom)
        assert re.search('<html[^>]* data-wide="0"', dom), width


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.usefixtures("blank_figures")
def test_a_report_fits_a_screen_without_scrolling_a_table_and_a_phone_by_scrolling_only_tables(
    width: int, tmp_path: Path
) -> None:
    page = planted_report("", tmp_path)
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(page=page.name, width=width), encoding="utf-8")
    dom = shown(frame, tmp_path, 1400)
    measured = {name: int(number) for name, number in re.findall(r'data-(\w+)="(-?\d+)"', dom)}
    assert width - 20 <= measured["width"] <= width, "but for a scroll bar"
    assert measured["over"] <= 0
    assert measured["tables"] > 20
    assert (measured["scrolling"] == 0) is (width == 1280)


@needs_chromium
def test_it_is_text_in_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"{PLANTED}{i}",
            "filename": f"{PLANTED}{i // 2}.png",
            "type": PLANTED[i % 2 :],
            "subtype": f"{PLANTED}{i % 2}",
            "caption": f"A cat {PLANTED} and {i} dogs.",
            "negative_caption": f"a dog {PLANTED} and {i} cats",
        }
        for i in range(24)
    ]
    Path("data.json").write_text(json.dumps(rows), encoding="utf-8")
    Path("corpus.jsonl").write_text("".join(json.dumps({"caption": r["caption"]}) + "\n" for r in rows))
    options = ("--scorer", "casing", "--folds", "2", "--training", "corpus.jsonl", "--name", PLANTED)
    with pytest.raises(SystemExit) as ended:
        cli.main(["audit", "data.json", "--out", "out", *options])
    assert ended.value.code == 0
    assert_it_is_text(Path("out", "audit.html"), tmp_path)
    badge = Path("out", "badge.svg").read_text(encoding="utf-8")
    assert "planted" not in badge
