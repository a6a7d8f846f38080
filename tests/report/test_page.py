import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_images import stored
from synthetic import plant, put, write_all

from caramel.errors import ConfigError, DataError
from caramel.evaluation.results.plots import plot_subset_bars
from caramel.report import page as page_module
from caramel.report import plots
from caramel.report.blocks import format_count
from caramel.report.page import Report, build_report, write_report
from caramel.report.sections.attacker_sections import _build_control_cell
from caramel.report.sections.data_sections import build_blind_section
from caramel.report.sections.model_rows import MAIN
from caramel.runtime.stage_runner import skip_stage
from caramel.schemas.candidates import CHOICES
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.images.generation import NOT_DRAWN
from caramel.study.preregistration import Registration

REASON = "stage skipped: the source of profile 'sugarcrepe' has no images"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what all stages would have written; tests copy it."""
    data = tmp_path_factory.mktemp("report") / "data"
    write_all(data)
    return data


@pytest.fixture
def data(written: Path, tmp_path: Path, blank_figures: None) -> Path:
    """Return a copy that a test may break, for pages with blank figures: drawing takes seconds."""
    return Path(shutil.copytree(written, tmp_path / "data"))


CONTRAST = {"variant": "trohn_img", "against": "base", "metric": "group", "subset": "without_add"}


def build(data: Path, **changes: Any) -> Report:
    settings: dict[str, Any] = {
        "profile": "default",
        "commit": "0123456789abcdef",
        "versions": {"data/scenes/images.parquet": "feedc0de"},
        "last": data / "last.json",
        "examples": 12,
        "exempt": ["add"],
        "primary_comparison": CONTRAST,
        "registration": Registration(False, "Exploratory: made up."),
    }
    return build_report(data, **{**settings, **changes})


def build_only(data: Path, *names: str, **changes: Any) -> str:
    """Return the page with these sections alone: those that show the data that a test changes."""
    list_sections = page_module.list_sections
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            page_module,
            "list_sections",
            lambda *arguments: [part for part in list_sections(*arguments) if part[0] in names],
        )
        return build(data, **changes).html


class Page(HTMLParser):
    """What a browser would load, the ids, and the text of each section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.sections: dict[str, str] = {}
        self._section = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.loads += [v or "" for k, v in attrs if k in ("src", "srcset", "data", "poster", "action")]
        if tag not in ("a", "nav"):
            self.loads += [v or "" for k, v in attrs if k == "href"]
        if tag == "section":
            self._section = found["id"] or ""
            self.sections[self._section] = ""

    def handle_data(self, data: str) -> None:
        if self._section:
            self.sections[self._section] += data


@pytest.fixture(scope="module")
def report(written: Path) -> Report:
    return build(written)


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return Page(report.html)


def test_the_page_loads_nothing_from_anywhere(report: Report, page: Page) -> None:
    assert page.loads
    assert all(load.startswith("data:image/") for load in page.loads)
    assert not {"script", "link", "iframe", "object", "embed"} & set(page.tags)
    style = re.sub(r"data:image/\w+;base64,[\w+/=]+", "", report.html)
    assert not re.search(r"https?:|//\w|@import|url\(", style)


def test_every_section_has_something_to_show(page: Page) -> None:
    assert len(page.sections) == 33
    assert "not-shown" not in page.sections
    for name, text in page.sections.items():
        assert len(text.split()) > 3, name


def test_the_models_section_names_the_command_that_opens_their_instances(page: Page) -> None:
    assert "caramel explore" in page.sections["models"]
    assert "/assemble --benchmark instances --out explore.html" in page.sections["models"]


def test_the_figures_of_the_tables_reach_the_page(written: Path, page: Page) -> None:
    rows = pd.read_csv(written / "evaluate/variants.csv").set_index(["variant", "subset", "metric"])
    mean = 100 * rows.loc[("trohn_text", "without_add", "group"), "mean"]
    assert f"{mean:.1f} ±" in page.sections["models"]
    differences = pd.read_csv(written / "evaluate/differences.csv").set_index(["a", "b", "subset", "metric"])
    row = differences.loc[("trohn_img", "base", "all", "group")]
    assert f"{100 * row['difference']:+.1f}".replace("-", "−") in page.sections["differences"]
    rows = pd.read_csv(written / "evaluate/retained.csv").set_index(["variant", "measure"])
    mean, change = (100 * rows[name]["trohn_img", "i2t_1"].mean() for name in ("value", "change"))
    for section in ("models", "retained"):  # what was lost stands beside what was gained
        assert f"{mean:.1f} ±" in page.sections[section]
        assert f"{change:+.1f} [".replace("-", "−") in page.sections[section]
    assert "Weights moved" in page.sections["retained"]
    assert "negative captions" in page.sections["detectors"]
    assert page.sections["detectors"].count("positive control") == 1
    assert "feedc0de" in page.sections["versions"]
    assert "duplicate of the caption" in page.sections["rejects"]
    assert re.search(rf"synthesize\s*{NOT_DRAWN}\s*A blue car.\s*1", page.sections["rejects"])
    assert "score, in [0, 1], is at least 0.62." in page.sections["yield"]
    assert re.search(
        r"0.62\s*90\s*83.0 \[74.0, 89.0\]\s*71.0 \[61.0, 79.0\]\s*43.0 \[36.0, 50.0\]\s*78.0",
        page.sections["yield"],
    )
    assert re.search(r"add_att\s*40\s*130\s*36\s*4\s*11.1.*0.15", page.sections["language-model"], re.DOTALL)
    assert re.search(r"meaning\s*18\s*2\s*100.0\s*50.0\s*–", page.sections["language-model"])
    assert re.search(r"hallucination\s*3\s*0", page.sections["failures"])
    assert re.search(r"negatives\s*20\s*75.0\s*53.1 – 88.8\s*20\s*90.0", page.sections["validator"])
    assert "failed" in page.sections["gate-benchmark"]
    assert "image_id='scene-1', split='val'" in page.sections["gate-benchmark"]


def test_without_calibration_the_page_says_what_was_asked(data: Path) -> None:
    metrics = json.loads((data / "filter_images/metrics.json").read_text())
    metrics["threshold"] = {"faithfulness_threshold": 0.0, "faithful_from": 0.5, "calibration": None}
    put(data / "filter_images/metrics.json", metrics)
    shown = Page(build_only(data, "yield", "settings", "candidates")).sections["yield"]
    assert "is at least 0.5. Candidates are kept from a score of 0." in shown
    assert "Threshold of the deciding judge" not in shown


def test_each_suite_leads_to_its_data_docs(report: Report) -> None:
    for suite in ("pairs", "instances"):
        assert f'<a href="../../work/data_docs/{suite}/index.html">{suite}</a>' in report.html


def marked(html: str, section: str, *marks: str) -> list[str]:
    """Return the text of every cell of a section that is marked so, intervals left out."""
    part = html[html.index(f'<section id="{section}">') :]
    return re.findall(rf'<td class="(?:{"|".join(marks)})">([^<]*)', part[: part.index("</section>")])


def test_only_what_beats_every_other_model_by_test_is_bold(data: Path) -> None:
    rows = pd.read_csv(data / "evaluate/differences.csv")
    variants = pd.read_csv(data / "evaluate/variants.csv").set_index(["variant", "subset", "metric"])
    of = variants.xs(("all", "t2i"), level=("subset", "metric"))
    best = of["mean"].idxmax()
    leads = rows[["a", "b"]].eq(best).any(axis=1) & rows["metric"].eq("t2i") & rows["subset"].eq("all")
    rows.assign(p=np.where(leads, 1e-6, 1.0)).to_csv(data / "evaluate/differences.csv", index=False)
    (shown,) = marked(build_only(data, "models"), "models", "best")
    assert shown.startswith(f"{100 * of.loc[best, 'mean']:.1f}")
    rows.assign(p=1.0).to_csv(data / "evaluate/differences.csv", index=False)
    assert marked(build_only(data, "models"), "models", "best") == [], "the best by rank alone is not"


def test_the_page_opens_with_the_benchmark_an_example_and_the_claim(written: Path, page: Page) -> None:
    assert [*page.sections][:4] == ["benchmark", "example", "claim", "bounds"]
    rows = read_table(INSTANCES, written / "assemble/instances.parquet")
    test = rows[rows["split"] == "test"].sort_values("instance_id")
    for _, of in test.groupby("subtype"):
        assert of["caption"].iloc[0] in page.sections["benchmark"]
        assert of["negative_caption"].iloc[0] in page.sections["benchmark"]


def change_scores(data: Path, scores: Callable[[str, str], bool]) -> None:
    """Let a model have an instance right by Group where ``scores`` of both names says so, and wrong elsewhere."""
    path = data / "evaluate/similarities.parquet"
    rows = read_table(SIMILARITIES, path)
    right = [scores(m, i) for m, i in zip(rows["model"], rows["instance_id"], strict=True)]
    for column in ("s_c0_i0", "s_c1_i1", "s_c1_i0", "s_c0_i1"):
        rows[column] = np.where(right, 0.9, 0.1) if column in ("s_c0_i0", "s_c1_i1") else 0.5
    write_table(SIMILARITIES, rows, path)


def test_the_example_is_the_first_that_most_runs_have_right_and_the_base_wrong(data: Path) -> None:
    rows = read_table(INSTANCES, data / "assemble/instances.parquet").set_index("instance_id")
    first, second, third = sorted(rows.index[rows["split"] == "test"])[:3]
    change_scores(
        data,
        lambda model, name: (
            (name == first and model == "trohn_img-11")  # one of two runs: not most
            or (name in (second, third) and model.startswith("trohn_img"))
        ),
    )
    said = Page(build_only(data, "example")).sections["example"]
    assert "are right on 2 of" in said
    assert "the reverse holds on 0." in said
    assert rows.at[second, "caption"] in said
    assert re.search(r"0.100\s*0.500\s*0.900\s*0.500", said)


def test_where_no_instance_was_gained_the_page_says_so(data: Path) -> None:
    change_scores(data, lambda model, name: model == "base")
    said = Page(build_only(data, "example")).sections["example"]
    assert "no example to show" in said
    assert "Cosine" not in said


def test_each_subtype_has_floor_base_and_ceiling_and_how_many_instances_tell_models_apart(
    data: Path,
) -> None:
    rows = pd.read_csv(data / "evaluate/bounds.csv")
    rows[["words", "exact", "base"]] = [1 / 6, 0.98, 0.45]
    rows.to_csv(data / "evaluate/bounds.csv", index=False)
    said = Page(build_only(data, "bounds")).sections["bounds"]
    assert re.search(r"swap_obj\s*\d+\s*16.7\s*45.0\s*98.0", said)


def test_a_probe_that_is_above_chance_is_marked(report: Report, data: Path) -> None:
    assert len(marked(report.html, "probes", "up")) == 8  # of the control and of one variant
    rows = pd.read_csv(data / "evaluate/probes.csv").head(0)
    rows.to_csv(data / "evaluate/probes.csv", index=False)
    assert "nothing to probe" in Page(build_only(data, "probes")).sections["probes"]


def test_the_claim_stands_in_words_and_first_in_the_summary(
    written: Path, report: Report, page: Page, tmp_path: Path
) -> None:
    rows = pd.read_csv(written / "evaluate/differences.csv").set_index(["a", "b", "subset", "metric"])
    row = rows.loc[("trohn_img", "base", "without_add", "group")]
    said = page.sections["claim"]
    assert f"{100 * row['difference']:+.1f} points" in said
    assert ("Not shown" in said) is not (row["p"] < 0.05)
    write_report(report, tmp_path, last=tmp_path / "last.json", profile="default", commit="0")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert next(iter(summary)) == "contrast"
    assert summary["contrast"]["difference"] == pytest.approx(row["difference"], abs=1e-6)
    assert summary["contrast"]["shown"] is bool(row["p"] < 0.05)


def test_a_claim_the_other_way_round_has_the_opposite_sign(data: Path) -> None:
    turned = {**CONTRAST, "variant": "infonce", "against": "trohn_img"}
    rows = pd.read_csv(data / "evaluate/differences.csv").set_index(["a", "b", "subset", "metric"])
    row = rows.loc[("trohn_img", "infonce", "without_add", "group")]
    found = build(data, primary_comparison=turned).claim
    assert found is not None
    assert found["difference"] == pytest.approx(-row["difference"], abs=1e-6)
    assert [found["ci_low"], found["ci_high"]] == pytest.approx([-row["ci_high"], -row["ci_low"]], abs=1e-6)


def test_a_claim_whose_opposite_is_shown_is_not_shown(data: Path) -> None:
    rows = pd.read_csv(data / "evaluate/differences.csv")
    claim = rows["subset"].eq("without_add") & rows["metric"].eq("group") & rows["b"].eq("base")
    rows.loc[claim & rows["a"].eq("trohn_img"), ["difference", "p"]] = [-0.04, 1e-6]
    rows.to_csv(data / "evaluate/differences.csv", index=False)
    report = build(data)
    assert report.claim is not None
    assert report.claim["shown"] is False
    assert "The opposite is shown of this run's models" in Page(report.html).sections["claim"]
    assert "the claim, the opposite is shown" in report.html


def test_a_claims_p_is_a_bound_only_where_its_own_flips_give_no_smaller_one(data: Path) -> None:
    rows = pd.read_csv(data / "evaluate/differences.csv")
    for p, text in ((2e-5, "p ≤ 2e-05."), (5e-5, "p = 5e-05.")):
        rows.assign(p=p, p_least=2e-5).to_csv(data / "evaluate/differences.csv", index=False)
        assert text in Page(build_only(data, "claim")).sections["claim"]


def test_a_claim_on_seen_compounds_has_no_parts_that_would_be_of_all_compounds(data: Path) -> None:
    contrast = {"variant": "trohn_img", "against": "base", "metric": "group"}
    rows = pd.read_csv(data / "evaluate/differences.csv")
    seen = rows[rows["subset"] == "without_add"].assign(subset="seen")
    pd.concat([rows, seen]).to_csv(data / "evaluate/differences.csv", index=False)
    sections = {
        subset: Page(build_only(data, "claim", primary_comparison={**contrast, "subset": subset})).sections[
            "claim"
        ]
        for subset in ("all", "without_add", "seen")
    }
    assert [subset for subset, text in sections.items() if "The claim by subtype" in text] == [
        "all",
        "without_add",
    ]
    assert "add up to the claim over all types but add." in sections["without_add"]
    assert "add up to the claim." in sections["all"]
    assert "In both forms" in sections["seen"]


def test_a_claim_of_which_nothing_was_scored_is_none(data: Path) -> None:
    rows = pd.read_csv(data / "evaluate/differences.csv")
    claim = rows["subset"].eq("without_add") & rows["metric"].eq("group")
    rows.loc[claim, ["difference", "ci_low", "ci_high", "p"]] = np.nan
    rows.to_csv(data / "evaluate/differences.csv", index=False)
    assert build(data).claim is None


def test_differences_are_coloured_after_holm_over_the_table_without_the_claim(data: Path) -> None:
    rows = pd.read_csv(data / "evaluate/differences.csv")
    rows["p"] = 1.0
    shown = (
        rows["subset"].eq("all") & rows["metric"].eq("i2t") & rows["a"].eq("infonce") & rows["b"].eq("base")
    )
    claim = rows["subset"].eq("without_add") & rows["metric"].eq("group") & rows["b"].eq("base")
    rows.loc[claim & rows["a"].eq("trohn_img"), "p"] = 1e-9
    for p, coloured in ((0.0009, 1), (0.04, 0)):  # 41 tests, and those of Group Match
        rows.loc[shown, "p"] = p
        rows.to_csv(data / "evaluate/differences.csv", index=False)
        html = build_only(data, "differences")
        assert len(marked(html, "differences", "up", "down")) == coloured
    section = Page(html).sections["differences"]
    assert f"{6 * len(MAIN) - 1} comparisons" in section
    assert "in the claim and this table is up to 10 %" in section


def test_without_the_contrasts_models_there_is_no_claim(data: Path) -> None:
    report = build(data, primary_comparison={**CONTRAST, "subset": "nothing"})
    assert report.claim is None
    sections = Page(report.html).sections
    assert "claim" not in sections
    assert "was not compared" in sections["not-shown"]


def test_captions_are_escaped(data: Path) -> None:
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet")
    write_table(PAIRS, pairs.assign(caption="<script>alert(1)</script>"), data / "scenes/pairs.parquet")
    html = build(data).html
    assert "<script" not in html
    assert "&lt;script&gt;" in html


HOSTILE = (
    '<img src=x onerror="alert(1)"><script>alert(1)</script><svg onload=alert(1)> "><body onload=alert(1)>'
    "</title></style></section><planted a='b'> ' onmouseover='alert(1)' {{ 7 * 7 }} {% raw %} {# #} <!-- "
    "[x](javascript:alert(1)) &lt;planted&gt; &#60;b&#62; ]]> \u202eesrever\u2066 \x1b[2K \x07 \x9b31m"
)


class Elements(HTMLParser):
    """How often an element with these attributes stands in a page, and the values of those that do something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[tuple[str, ...]] = Counter()
        self.values: set[tuple[str, str | None]] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "wbr":  # after each underscore of a text
            self.elements[tag, *(name for name, _ in attrs)] += 1
        self.values |= {(name, value) for name, value in attrs if name not in ("alt", "title")}

    def handle_comment(self, data: str) -> None:
        self.elements["comment", data] += 1


@pytest.mark.usefixtures("blank_figures")
def test_no_element_attribute_or_control_character_of_the_page_comes_from_data(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = []
    for text in ("plain ", HOSTILE):
        data = Path(shutil.copytree(written, tmp_path / str(len(pages))))
        plant(data, text)
        for file in data.glob("validate_*/summary.json"):
            suites = json.loads(file.read_text())
            put(file, {f"{text}{name}": suite for name, suite in suites.items()})
        said = {"profile": text, "commit": text, "versions": {text: text}}
        pages.append(build(data, **said).html)
    plain, hostile = map(Elements, pages)
    assert pages[1].count("&lt;planted") > 50
    # Not how many there are: the texts' statistics have a row more for other texts.
    assert hostile.elements.keys() <= plain.elements.keys()
    links = {value for _, value in hostile.values - plain.values}
    assert all(re.fullmatch(r"\.\./[\w/.%-]+", link or "") for link in links), links
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", pages[1])
    assert r"\u202eesrever" in pages[1]


def test_an_endless_word_does_not_swell_what_lies_beside_the_page(data: Path, tmp_path: Path) -> None:
    plant(data, "W" * 5_000)
    out, last = tmp_path / "out", tmp_path / "last.json"
    write_report(build(data), out, last=last, profile="W" * 5_000, commit="c")
    for name in ("summary.json", "statistics.csv"):
        text = (out / name).read_text()
        assert "more characters)" in text
        assert "W" * 2001 not in text, name


def test_names_that_are_alike_where_they_are_shortened_keep_their_numbers_apart(
    report: Report, tmp_path: Path
) -> None:
    names = [f"{'W' * 2000}{end}" for end in "abc"]
    numbers = {name: float(index) for index, name in enumerate(names)}
    write_report(
        replace(report, numbers=numbers), tmp_path, last=tmp_path / "last.json", profile="p", commit="c"
    )
    shown = json.loads((tmp_path / "summary.json").read_text())["numbers"]
    short = f"{'W' * 2000}… (1 more characters)"
    assert shown == {short: 0.0, f"{short} (2)": 1.0, f"{short} (3)": 2.0}


@pytest.mark.usefixtures("blank_figures")
def test_a_carriage_return_ends_no_row_of_the_texts_statistics(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = page_module.compute_text_statistics(written)
    rows = pd.concat([rows, rows.iloc[-1:].assign(name="a\rb")], ignore_index=True)
    monkeypatch.setattr(page_module, "compute_text_statistics", lambda data: rows)
    again = pd.read_csv(io.StringIO(build(written).statistics, newline=""), keep_default_na=False)
    assert again["name"].tolist() == rows["name"].tolist()


def test_equal_data_gives_an_equal_page(written: Path, report: Report) -> None:
    assert build(written) == report


@pytest.mark.parametrize("name", ["report.html", "summary.json", "statistics.csv", "plots/blind.png"])
def test_a_report_is_written_through_no_link(name: str, report: Report, tmp_path: Path) -> None:
    out, others = tmp_path / "report", tmp_path / "others"
    (out / "plots").mkdir(parents=True)
    others.write_text("kept")
    (out / name).symlink_to(others)
    if name.startswith("plots"):  # pictures of an earlier report are removed, and their links with them
        write_report(report, out, last=tmp_path / "last.json", profile="default", commit="c0ffee")
    else:
        with pytest.raises(ConfigError, match="is a link"):
            write_report(report, out, last=tmp_path / "last.json", profile="default", commit="c0ffee")
    assert others.read_text() == "kept"


def test_files_are_written_and_the_next_report_tells_what_changed(data: Path) -> None:
    last, out = data / "last.json", data / "report"
    write_report(build(data), out, last=last, profile="default", commit="c0ffee")
    assert sorted(p.stem for p in (out / "plots").iterdir()) == [
        "blind",
        "curves_base",
        "curves_finetune",
        "curves_generator",
        "curves_writer",
        "gain_against_loss",
        "statistics",
        "subtypes",
        "yield",
    ]
    assert (out / "statistics.csv").read_text().startswith("subtype,text,about,name,value\n")
    numbers = json.loads((out / "summary.json").read_text())["numbers"]
    assert 0 < numbers["Group/base"] < 1
    assert 0 < numbers["I→T R@1/trohn_img"] < 1
    assert "since the last report" in Page(build_only(data, "changes")).sections["changes"]
    metrics = json.loads((data / "filter_images/metrics.json").read_text())
    metrics["negatives"]["kept"] += 7
    put(data / "filter_images/metrics.json", metrics)
    changes = Page(build_only(data, "changes")).sections["changes"]
    assert re.search(r"images: negatives kept\s*100\s*107", changes)
    assert "c0ffee" in changes
    html = build_only(data, "changes", profile="smoke")
    assert "another experiment" in Page(html).sections["changes"]


def test_attackers_on_pictures_stand_in_both_forms_and_beside_the_models(page: Page) -> None:
    sections = page.sections
    for text in ("the benchmark: network", "positives of the source: features", "too few to attack"):
        assert text in sections["picture-bias"], text
    assert "Without the relation of text and image" in sections["models"]
    assert "texts × network" in sections["models"]


def test_settings_that_were_tried_stand_above_the_curves_with_what_is_not_repeatable(
    page: Page, data: Path
) -> None:
    section = page.sections["curves-finetune"]
    for text in (
        "lr 0.002",
        "50.0",
        "40.0, 60.0",
        "at checkpoint 1",
        "Not reproducible",
        "Settings that were tried",
        "Learning curves",
    ):
        assert text in section, text
    rows = pd.read_csv(data / "finetune/searched.csv")
    rows.head(0).to_csv(data / "finetune/searched.csv", index=False)
    html = build_only(data, "curves-finetune")
    assert "Settings that were tried" not in Page(html).sections["curves-finetune"]


def test_an_attacker_that_misses_what_was_planted_is_marked(page: Page, data: Path) -> None:
    assert "A planted shortcut" in page.sections["picture-bias"]
    path = data / "image_scores/figures.json"
    plots = json.loads(path.read_text(encoding="utf-8"))
    found = _build_control_cell(plots["planted"]["pictures"]["network"], "accuracy", path)
    assert found.mark == ""
    missed = {"accuracy": 0.52, "ci_low": 0.44, "ci_high": 0.6, "n": 400}
    assert _build_control_cell(missed, "accuracy", path).mark == "bad"
    assert _build_control_cell({**missed, "n": 0}, "accuracy", path).text == "too few to attack"


def test_a_benchmark_without_an_instance_has_no_attackers(data: Path) -> None:
    put(data / "image_scores/figures.json", {"folds": 4, "split": "test", "fewest": 20, "forms": {}})
    sections = Page(build_only(data, "picture-bias", "models")).sections
    assert "no attack was run" in sections["picture-bias"]
    assert "Without the relation" not in sections["models"]


def test_skipped_stages_give_their_reason_and_the_rest_is_there(data: Path) -> None:
    names = ("variants", "differences", "bounds", "probes")
    skip_stage({str(data / "evaluate" / f"{n}.csv"): None for n in names}, REASON)
    curves = [data / "finetune/curves.csv", data / "finetune/searched.csv", data / "base/curves.csv"]
    skip_stage({str(path): None for path in curves}, REASON)
    for name in (
        "evaluate/metrics",
        "synthesize/settings",
        "filter_images/metrics",
        "image_scores/figures",
        "validate_benchmark/summary",
    ):
        skip_stage({str(data / f"{name}.json"): None}, REASON)
    for table, path in (
        (CHOICES, "filter_images/choices"),
        (INSTANCES, "assemble/instances"),
        (IMAGES, "scenes/images"),
        (IMAGES, "assemble/images"),
        (METRICS, "evaluate/metrics"),
    ):
        skip_stage({str(data / f"{path}.parquet"): table}, REASON)
    for name in ("noise", "failures", "validator"):
        (data / f"negatives/{name}.csv").unlink()
    report = build(data)
    sections = Page(report.html).sections
    assert [*sections][-1] == "not-shown"
    skipped = sections["not-shown"]  # the cells of a row follow each other without a space
    assert "Language modelno language model wrote captions" in skipped
    assert "Failuresno language model wrote captions" in skipped
    assert "Validatorno validator judged texts" in skipped
    without_images = {
        "benchmark": "The benchmark",
        "example": "One example",
        "bounds": "Room to differ",
        "probes": "Positions",
        "models": "Models",
        "differences": "Differences",
        "subtypes": "By subtype",
        "settings": "Generator settings",
        "yield": "Yield and judges",
        "candidates": "Candidates",
        "instances": "Instances",
        "picture-bias": "Image bias",
        "gate-benchmark": "Gate on the benchmark",
        "curves-base": "Training of the base model",
        "curves-finetune": "Fine-tuning",
    }
    for name, title in without_images.items():
        assert f"{title}{REASON}" in skipped, title
        assert name not in sections
    assert "Pairsthe source has no images for its test captions" in skipped
    assert "Blind accuracy" in sections["blind"]
    assert "Group/base" not in report.numbers
    assert "curves_generator" in report.plots


def test_a_blind_scorer_that_misses_the_planted_shortcut_is_marked(data: Path) -> None:
    (_, table) = build_blind_section(data, exempt=["add"])
    row = dict(zip(table.head, table.rows[-1], strict=True))
    assert row["Subset"].text == "a planted shortcut"
    assert {name: row[name].mark for name in ("ngram", "casing")} == {"ngram": "", "casing": "bad"}


@pytest.mark.parametrize("folder", ["finetune", "finetune/searched.csv"])
def test_the_reason_in_a_folder_that_was_not_filled_is_shown(data: Path, folder: str) -> None:
    for name in ("curves", "searched"):
        (data / f"finetune/{name}.csv").unlink()
    (data / folder).mkdir(exist_ok=True)
    (data / folder / "SKIPPED.txt").write_text(REASON)
    assert f"Fine-tuning{REASON}" in Page(build(data).html).sections["not-shown"]


def test_without_a_lock_file_the_page_says_that_it_cannot_be_cited(data: Path) -> None:
    html = build_only(data, "versions", versions={})
    assert "cannot be cited" in Page(html).sections["versions"]


def _drop_key(path: Path) -> None:
    raw = json.loads(path.read_text())
    del raw["ngram"]["all"]["ci_low"]
    put(path, raw)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("refine/blind.json", lambda p: p.write_text("{"), "refine/blind.json is not valid JSON"),
        ("refine/blind.json", lambda p: p.unlink(), "refine/blind.json is missing. Run `dvc repro`"),
        ("refine/blind.json", lambda p: put(p, {}), "has no scorer"),
        ("scores/blind.json", _drop_key, "scores/blind.json lacks the key 'ngram.all.ci_low'"),
        (
            "scores/positive_control.json",
            lambda p: p.unlink(),
            "scores/positive_control.json is missing. Run `dvc repro`",
        ),
        ("synthesize/settings.json", lambda p: put(p, {"grid": []}), "lacks the key 'chosen'"),
        ("validate_captions/summary.json", lambda p: put(p, {}), "the gate has checked nothing"),
        ("validate_captions/summary.json", lambda p: put(p, {"pairs": {}}), "lacks the key 'findings'"),
        ("evaluate/variants.csv", lambda p: p.write_text("variant,mean\nbase,1\n"), "lacks the columns"),
        ("evaluate/variants.csv", lambda p: p.write_text(""), "is not valid CSV"),
        (
            "evaluate/differences.csv",
            lambda p: p.write_text("\n".join(p.read_text().splitlines()[:3]) + "\n"),
            "no row for infonce, base, all, i2t",
        ),
        ("scenes/pairs.parquet", lambda p: p.write_bytes(b"no table"), "is not a Parquet file"),
        (
            "filter_images/metrics.json",
            lambda p: put(p, {"candidates": {"faithful": "many"}}),
            "must be a number",
        ),
        ("last.json", lambda p: p.write_text("[]"), "last.json is broken"),
    ],
)
def test_broken_input_is_a_clear_error(
    data: Path, name: str, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(data / name)
    with pytest.raises(DataError, match=re.escape(message)):
        build(data)


def test_a_picture_that_cannot_be_decoded_is_named(data: Path) -> None:
    index = data / "assemble/images.parquet"
    known = read_table(IMAGES, index, ["image_id", "width", "height", "source", "split"])
    stored(index, known.assign(data=b"no picture").to_dict("records"))
    with pytest.raises(DataError, match=r"Image 'scene-\d+' does not decode"):
        build(data)


def test_a_shard_that_is_missing_is_named(data: Path) -> None:
    (data / "synthesize/images/00000.parquet").unlink()
    with pytest.raises(DataError, match=r"synthesize/images/00000.parquet' is missing.*dvc checkout"):
        build(data)


def test_further_models_and_benchmarks_have_a_table_of_their_own(data: Path) -> None:
    path = data / "evaluate/metrics.parquet"
    metrics = read_table(METRICS, path)
    row = {
        "model": "other",
        "benchmark": "sugarcrepe",
        "subset": "all",
        "metric": "accuracy",
        "value": 0.7654,
    }
    row |= {"ci_low": 0.7, "ci_high": 0.8, "n": 7511, "ties": 3, "unscored": 0}
    write_table(METRICS, pd.concat([metrics, pd.DataFrame([row])], ignore_index=True), path)
    html = build(data).html
    assert html.count("Further models and benchmarks") == 1
    assert "76.5" in html
    assert format_count(7511) in html


def test_dollar_signs_in_a_name_are_no_formula() -> None:
    assert plots.plot_yield(pd.Series({"$\\frac$": 0.5, "b$": 0.4})).width > 100
    rows = {"metric": "accuracy", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6}
    drawn = plot_subset_bars(pd.DataFrame([{**rows, "subset": "all"}, {**rows, "subset": "$\\frac$"}]))
    drawn.savefig(io.BytesIO(), format="png")
