import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from caramel.audit.audit import audit_rows, list_broken_thresholds
from caramel.audit.output import format_badge, format_badge_svg, write_audit
from caramel.blind.scorer_specs import list_scorers
from caramel.blind.text.attack import BEST, run_caption_attack
from caramel.errors import BackendError
from caramel.report.audit_text import format_audit
from caramel.sources.sugarcrepe_files import read_captions

DATA = os.environ.get("CARAMEL_DATA")
ALL = tuple(found.name for found in list_scorers() if found.missing is None)


def row(name, subtype, caption, negative, second=None, image=None):
    return {
        "pair_id": f"{subtype}-{name}",
        "image_id": image or f"{name}.jpg",
        "type": subtype.partition("_")[0],
        "subtype": subtype,
        "caption": caption,
        "caption2": second,
        "negative_caption": negative,
    }


def benchmark(*more):
    """Return audit rows of two subtypes on which only the length of the texts gives anything away."""
    names = [f"{a}{b}" for a in "bcdfgh" for b in "aeiou"]
    rows = [row(n, "add_obj", f"Cat {n} sees dog.", f"Cat {n} sees dog and bus.") for n in names]
    rows += [row(n, "swap_obj", f"Cat {n} sees dog.", f"Dog {n} sees cat.") for n in names]
    return pd.DataFrame([*rows, *more]).astype(object)


def done(rows=None, scorers=("length", "casing")):
    return audit_rows(benchmark() if rows is None else rows, scorers=scorers, folds=5, seed=3, name="bench")


def test_an_audit_shows_what_each_scorer_and_all_together_can_do_by_subtype():
    result = done()
    assert len(result.rows) == 60
    assert list(result.attack.figures) == ["length", "casing", BEST]
    assert result.attack.figures["length"]["by_subtype"]["add_obj"]["accuracy"] == 1
    assert result.attack.figures["length"]["by_subtype"]["swap_obj"]["accuracy"] == 0.5
    assert result.attack.figures[BEST]["by_subtype"]["add_obj"]["accuracy"] == 1
    assert result.giveaways["add"]["properties"][0]["true_caption_is"] == "shorter"


def test_the_written_audit_holds_scorers_best_attacker_giveaways_and_defects(tmp_path):
    path = write_audit(done(), tmp_path / "out" / "deep")
    assert path.name == "audit.json"
    data = json.loads(path.read_text())
    for figures in (data["scorers"]["length"], data["best_blind_attacker"]):
        overall = figures["overall"]
        assert overall["ci_low"] <= overall["micro"] == 0.75 <= overall["ci_high"]
        assert overall["macro"] == 0.75
        assert 0 < overall["p_value"] < 0.05
        assert figures["by_subtype"]["add_obj"]["n"] == 30
    assert data["best_single_scorer"]["scorer"] == "length"
    assert data["defects"]["word_order_only"]["count"] == 30
    assert len(data["defects"]["word_order_only"]["rows"]) == 30
    assert set(data["giveaways"]) == {"add", "swap"}
    assert data["giveaways"]["add"]["terms"][0]["examples"]


def test_the_gaps_of_every_pair_and_scorer_are_written(tmp_path):
    result = done()
    write_audit(result, tmp_path)
    gaps = pd.read_parquet(tmp_path / "pairs.parquet")
    assert list(gaps.columns) == ["pair_id", "image_id", "type", "subtype", "scorer", "gap"]
    assert gaps.groupby("scorer").size().to_dict() == {"length": 60, "casing": 60, BEST: 60}
    mine = gaps[gaps["scorer"] == "length"]
    accuracy = ((mine["gap"] > 0) + 0.5 * (mine["gap"] == 0)).groupby(mine["subtype"]).mean()
    assert accuracy.to_dict() == {"add_obj": 1, "swap_obj": 0.5}


def test_the_rows_are_written_as_they_were_given(tmp_path):
    rows = benchmark(row("a", "swap_obj", "A cat.", "A dog.", second="One cat.")).assign(image=None)
    write_audit(done(rows), tmp_path)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), rows, check_dtype=False)


def test_rows_with_defects_are_counted_once_and_swaps_may_reorder_words():
    more = (
        row("a", "swap_obj", "A cat.", "a CAT", second="A cat!"),
        row("b", "add_obj", "A mat on cat.", "A cat on mat."),
    )
    result = done(benchmark(*more))
    assert result.defects["negative_equals_caption"] == ["swap_obj-a"]
    assert result.defects["paraphrase_equals_caption"] == ["swap_obj-a"]
    assert len(result.defects["word_order_only"]) == 31
    assert result.faulty == 2


def test_thresholds_break_where_a_low_accuracy_is_not_shown_and_by_the_rows_with_defects():
    result = done(benchmark(row("a", "swap_obj", "A cat.", "a CAT")))
    low, high = result.best["ci_low"], result.best["ci_high"]
    rules = {"max_defects": 1, "acceptance": "equivalence"}
    assert list_broken_thresholds(result, max_accuracy=high, **rules) == []
    assert list_broken_thresholds(result, max_accuracy=None, **rules) == []
    (undecided,) = list_broken_thresholds(result, max_accuracy=high - 0.01, **rules)
    assert re.search(
        r"right on 7\d\.\d % \[\d\d\.\d, \d\d\.\d\] of the rows: undecided about \d\d\.\d %", undecided
    )
    assert list_broken_thresholds(result, max_accuracy=low, max_defects=1, acceptance="not_refuted") == []
    refused, defects = list_broken_thresholds(
        result, max_accuracy=low - 0.01, max_defects=0, acceptance="not_refuted"
    )
    assert re.search(r"of the rows: refused: shown to be above \d\d\.\d %\.", refused)
    assert defects == "Rows with a defect: 1; at most 0 are allowed."


def test_a_threshold_and_the_badge_are_of_the_attack_that_fares_worst():
    """Captions are even, but all paraphrases have a digit more, and rejected rows give the captions away."""
    names = [f"{a}{b}{c}" for a in "bcdfgh" for b in "aeiou" for c in "lnr"]
    rows = pd.DataFrame(
        [row(n, "swap_obj", f"Cat {n} sees dog.", f"Dog {n} sees cat.", f"1 {n} cat.") for n in names]
    )
    rules = {"max_accuracy": 0.8, "max_defects": None, "acceptance": "equivalence"}
    result = done(rows, ("digits",))
    (said,) = list_broken_thresholds(result, **rules)
    assert re.search(
        r"100.0 % \[\d\d\.\d, 100.0\] of the rows, P2-N: refused: shown to be above 80.0 %", said
    )
    assert " on P2-N (chance 50 %; at most 80.0 %: refused)" in format_badge(result, 0.8)
    assert "b71c1c" in format_badge_svg(result, 0.8)
    even = replace(result, further=())
    assert list_broken_thresholds(even, **rules) == []
    told = done(rows.assign(negative_caption=rows["negative_caption"] + " 1"), ("digits",)).attack
    elsewhere = replace(even, further=[replace(told, source="a]\npool")])
    (said,) = list_broken_thresholds(elsewhere, **rules)
    assert "of the rows, learned from 'a]\\npool': refused" in said
    assert "], learned elsewhere (chance" in format_badge(elsewhere, 0.8)


def test_the_table_has_a_line_per_scorer_and_defect_and_what_stands_beside_it():
    text = format_audit(done(), beside={"add_obj": 0.8125, "all": 0.9}, beside_name="CLIP")
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert lines["scorer"][1:5] == ["micro", "macro", "swap_obj", "add_obj"]
    for name in ("length", "casing", BEST, "negative_equals_caption", "word_order_only"):
        assert name in lines
    assert lines["length"][1:3] == ["75.0", "75.0"]
    assert lines["CLIP"][1:] == ["90.0", "–", "–", "81.2"]
    assert "shorter" in text


def test_the_badge_is_an_image_and_a_line_that_shows_it(tmp_path):
    result = done()
    write_audit(result, tmp_path)
    low, high = (100 * result.attack.figures[BEST]["overall"][key] for key in ("ci_low", "ci_high"))
    said = f"blind accuracy 75.0 % [{low:.1f}, {high:.1f}] (chance 50 %; at most 55.0 %: undecided)"
    assert format_badge(result) == f"![{said}](badge.svg)"
    assert (tmp_path / "badge.md").read_text() == format_badge(result) + "\n"
    image = ET.fromstring(format_badge_svg(result))
    assert image.attrib["aria-label"] == "blind accuracy: 75.0 %"
    assert (tmp_path / "badge.svg").read_text() == format_badge_svg(result)


@pytest.mark.parametrize(
    ("end", "colour"), [("ci_low", "b71c1c"), ("micro", "b26a00"), ("ci_high", "2e7d32")]
)
def test_the_badge_is_green_only_where_a_low_accuracy_is_shown(end, colour):
    result = done()
    limit = result.best[end] - (0.01 if end == "ci_low" else 0)
    assert colour in format_badge_svg(result, limit)


def test_subtypes_that_are_not_of_the_taxonomy_are_audited_alike():
    rows = benchmark().assign(type="all", subtype="all")
    result = done(rows)
    assert list(result.attack.figures[BEST]["by_subtype"]) == ["all"]
    assert "all" in format_audit(result)


def test_an_unknown_scorer_is_an_error():
    with pytest.raises(BackendError, match="veera"):
        done(scorers=("veera",))


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(
    ("name", "negative_equals", "paraphrase_equals", "duplicates"),
    [("sugarcrepe", 0, 0, 9), ("sugarcrepe_pp", 2, 3, 8)],
)
def test_the_defects_of_the_public_files_are_found(name, negative_equals, paraphrase_equals, duplicates):
    rows = read_captions(Path(str(DATA)) / name)
    rows["type"] = rows["subtype"].str.partition("_")[0]
    defects = done(rows, ("length",)).defects
    assert len(defects["negative_equals_caption"]) == negative_equals
    assert len(defects["paraphrase_equals_caption"]) == paraphrase_equals
    assert len(defects["duplicate_pair"]) == duplicates


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA is unset: the public files are not at hand")
@pytest.mark.parametrize(("name", "least"), [("sugarcrepe", 0.86), ("sugarcrepe_pp", 0.78)])
def test_the_best_blind_attacker_solves_most_of_the_public_files(name, least):
    rows = read_captions(Path(str(DATA)) / name)
    rows["type"] = rows["subtype"].str.partition("_")[0]
    figures = run_caption_attack(rows, ALL, folds=3, seed=3).figures
    overall = figures[BEST]["overall"]
    assert overall["ci_low"] > least
    assert overall["micro"] > max(f["overall"]["micro"] for n, f in figures.items() if n != BEST) + 0.01
