import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from caramel.audit.audit import audit_rows
from caramel.audit.output import audit_to_dict, build_pair_gaps
from caramel.audit.set_statistics import compute_set_statistics
from caramel.audit.similarity.parses import load_parser
from caramel.errors import DataError
from caramel.report import audit_figures
from caramel.report.audit_page import render_audit_page, write_page
from caramel.schemas.columns import SUBTYPES

EVIL = "<img src=http://x.org/a.png onerror=alert(1)> & 'so' on"
FILES = ("audit.json", "pairs.parquet", "rows.parquet")


@pytest.fixture(scope="module")
def rows(world: Any) -> pd.DataFrame:
    """Audit rows of the world; their captions lack the final stop, one negative equals its caption."""
    source, written = world
    found = written.negatives.merge(source.pairs[["pair_id", "image_id", "caption"]], on="pair_id")
    found = found.merge(written.paraphrases[["pair_id", "caption2"]], "left", "pair_id")
    found = found.assign(pair_id=found["negative_id"], caption=found["caption"].str.rstrip("."))
    found["caption2"] = found["caption2"].astype(object).where(found["caption2"].notna(), None)
    found.loc[0, "negative_caption"] = found.loc[0, "caption"]
    return found[
        ["pair_id", "image_id", "type", "subtype", "caption", "caption2", "negative_caption"]
    ].reset_index(drop=True)


@pytest.fixture(scope="module")
def written(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the three files of an audit."""
    folder = tmp_path_factory.mktemp("audit")
    result = audit_rows(
        rows, scorers=("length", "final_punctuation", "casing", "ngram"), folds=3, seed=1, name="small"
    )
    (folder / "audit.json").write_text(json.dumps(audit_to_dict(result)), encoding="utf-8")
    build_pair_gaps(result.attack).to_parquet(folder / "pairs.parquet")
    rows.to_parquet(folder / "rows.parquet")
    return folder


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return write_page(written, beside={"swap_obj": 0.123, "all": 0.4567}, beside_name="CLIP <b>").read_text()


def read(folder: Path) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    audit = json.loads((folder / "audit.json").read_text())
    return audit, *(pd.read_parquet(folder / name) for name in FILES[1:])


def cells(page: str) -> list[list[str]]:
    """Return the text of the cells of each row of the page's tables."""
    found = re.findall(r"<tr>(.*?)</tr>", page.replace("<wbr>", ""), re.DOTALL)
    texts = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in found]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split()) for text in row] for row in texts]


def share(figures: dict[str, float], key: str, prefix: str = "") -> str:
    low, high = (100 * figures[f"{prefix}{end}"] for end in ("ci_low", "ci_high"))
    return f"{100 * figures[key]:.1f} [{low:.1f}, {high:.1f}]"


def p_value(overall: dict[str, Any]) -> str:
    p = overall["p_value"]
    return "≤ 0.0005" if p == 1 / 2000 else f"{p:.4f}"


def test_every_accuracy_of_the_audit_is_in_its_row(written: Path, page: str) -> None:
    audit = read(written)[0]
    shown = {row[0]: row[1:] for row in cells(page) if len(row) > 6}
    scorers = {"best blind attacker all scorers together": audit["best_blind_attacker"], **audit["scorers"]}
    assert len(audit["best_blind_attacker"]["by_subtype"]) == len(SUBTYPES)
    for name, found in scorers.items():
        overall = found["overall"]
        expected = [share(overall, "micro"), share(overall, "macro", "macro_")]
        expected += [share(figure, "accuracy") for figure in found["by_subtype"].values()]
        expected += [p_value(overall), f"{overall['ties']}"]
        assert shown[name] == expected, name
    strength = [found["overall"]["micro"] for found in audit["scorers"].values()]
    order = [name for name in shown if name in audit["scorers"]]
    assert [audit["scorers"][n]["overall"]["micro"] for n in order] == sorted(strength, reverse=True)
    beside = next(row for row in cells(page) if row and row[0].startswith("CLIP <b>"))
    assert {"45.7", "12.3", "–"} == set(beside[1:-2])


def test_the_head_says_how_well_the_best_blind_attacker_does(written: Path, page: str) -> None:
    audit = read(written)[0]
    overall = audit["best_blind_attacker"]["overall"]
    cards = html.unescape(page[page.index('<div class="cards">') : page.index("<nav")])
    assert f"<b>{100 * overall['micro']:.1f} %</b>" in cards
    assert f"{100 * overall['ci_low']:.1f}–{100 * overall['ci_high']:.1f}, p\u00a0{p_value(overall)}" in cards
    assert f"<b>{audit['rows_with_defects']}</b>" in cards
    assert f"{audit['groups']} groups by {audit['grouped_by']}" in page
    assert "<code>small</code>" in page


def test_giveaways_are_shown_with_counts_and_the_texts_of_five_examples(written: Path, page: str) -> None:
    audit, _, rows = read(written)
    shown = cells(page)
    texts = rows.set_index("pair_id")
    for found in audit["giveaways"].values():
        stop = next(p for p in found["properties"] if p["property"] == "final_punctuation")
        counts = [str(stop["true_captions"]), str(stop["negatives"]), ""]
        assert ["true caption is without a final stop final_punctuation", *counts] in shown
        for place, pair_id in enumerate(stop["examples"]):
            row = texts.loc[pair_id]
            lead = "" if place else "true caption is without a final stop"
            assert [lead, f"{pair_id} {row.image_id}", row.caption, row.negative_caption] in shown
        assert len(stop["examples"]) == 5
        term = found["terms"][0]
        line = next(row for row in shown if row and row[0].startswith(f"{term['term']!r} indicates"))
        assert line[3] in {
            f"{t['terms'][0]['weight']:+.2f}".replace("-", "−") for t in audit["giveaways"].values()
        }


def test_defects_are_counted_and_their_first_rows_shown(written: Path, page: str) -> None:
    audit, _, rows = read(written)
    shown = cells(page)
    for name, found in audit["defects"].items():
        assert [name.replace("_", " "), str(found["count"])] in shown
    assert audit["defects"]["negative_equals_caption"]["rows"] == [rows.loc[0, "pair_id"]]
    assert "negative equals caption: 1 of 1</summary>" in page
    caption = rows.loc[0, "caption"]
    assert [f"{rows.loc[0, 'pair_id']} {rows.loc[0, 'image_id']}", caption, caption] in [
        [*row[:2], *row[3:]] for row in shown if len(row) == 4
    ]


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    loads = re.findall(r"(?:src|srcset|href|data|action)=\"([^\"]*)\"", page)
    assert len(loads) > 6
    assert all(load.startswith(("data:image/", "#")) for load in loads)
    assert not re.search(r"<script|<link|<iframe|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_texts_are_escaped(written: Path, blank_figures: None) -> None:
    audit, pairs, rows = read(written)
    rows = rows.assign(caption=EVIL, caption2=EVIL, negative_caption=EVIL, image_id=EVIL)
    page = render_audit_page({**audit, "name": EVIL}, pairs, rows, compute_set_statistics(rows))
    assert EVIL not in page
    assert page.count(html.escape("<img src=http")) > 30
    assert not re.search(r"<[^>]*(?:src|href)=.?http", page)


def test_equal_audits_give_equal_pages(written: Path, page: str) -> None:
    again = write_page(written, beside={"swap_obj": 0.123, "all": 0.4567}, beside_name="CLIP <b>")
    assert again.read_text() == page


def test_similarity_is_there_where_paraphrases_are(written: Path, page: str, blank_figures: None) -> None:
    audit, pairs, rows = read(written)
    assert "Only the lexical part is shown" in page
    whole = rows.assign(caption=rows["caption"] + ".")
    whole.loc[:, "negative_caption"] = whole["negative_caption"].str.rstrip(".") + "."
    parsed = render_audit_page(
        audit, pairs, whole, compute_set_statistics(whole, load_parser("world")), parser=load_parser("world")
    )
    assert "SLS: median and quartiles" in parsed
    assert "SLS over characters" in parsed
    assert "Only the lexical part" not in parsed
    alone = rows.assign(caption2=None)
    assert 'id="similarity"' not in render_audit_page(audit, pairs, alone, compute_set_statistics(alone))


def test_an_audit_that_found_nothing_says_so(written: Path, blank_figures: None) -> None:
    audit, pairs, rows = read(written)
    audit["giveaways"] = {"swap": {"terms": [], "properties": []}}
    page = render_audit_page(audit, pairs.iloc[:0], rows, compute_set_statistics(rows))
    assert "swap: nothing." in page
    assert "No gaps were recorded." in page


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_broken_file_is_an_error_that_names_it(written: Path, tmp_path: Path, name: str) -> None:
    for file in FILES:
        (tmp_path / file).write_bytes((written / file).read_bytes())
    (tmp_path / name).write_bytes(b"not it")
    with pytest.raises(DataError, match=rf"{re.escape(name)}' cannot be read.* Rerun `caramel audit`"):
        write_page(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=rf"{re.escape(name)}' cannot be read"):
        write_page(tmp_path)


def test_a_figure_that_the_audit_lacks_is_named(written: Path, blank_figures: None) -> None:
    audit, pairs, rows = read(written)
    del audit["best_blind_attacker"]["overall"]["macro"]
    with pytest.raises(DataError, match=r"audit.json lacks the key 'macro'"):
        render_audit_page(audit, pairs, rows, compute_set_statistics(rows))


def test_one_scorer_that_cannot_tell_anything_has_a_figure(written: Path) -> None:
    gaps = pd.DataFrame({"digits": np.zeros(10), "length": np.ones(10)})
    for draw in (audit_figures.plot_gap_histograms, audit_figures.plot_gap_planes):
        assert draw(gaps).light.startswith(b"\x89PNG")
