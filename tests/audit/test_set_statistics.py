"""Counts, lengths, parts of speech, topics and similarity of a set's texts are those that can be counted by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from caramel.audit import set_statistics as set_statistics_module
from caramel.audit.files.inputs import read_rows
from caramel.audit.set_statistics import ALL, BOX, COLUMNS, NO_TOPIC, compute_set_statistics
from caramel.report.sections.statistics_section import build_statistics_blocks

DATA = os.environ.get("CARAMEL_DATA")
ROWS = pd.DataFrame(
    [
        ("a", "i", "replace_obj", "A red car.", "There is a red car.", "A red bus."),
        ("b", "i", "replace_obj", "A dog on the bed.", None, "A cat on the bed."),
        ("c", "j", "swap_att", "", None, "Ζώο 🐕"),
    ],
    columns=["pair_id", "image_id", "subtype", "caption", "caption2", "negative_caption"],
)


def figures(rows: pd.DataFrame) -> pd.Series:
    found = compute_set_statistics(rows)
    assert tuple(found.columns) == COLUMNS
    return found.set_index(["subtype", "text", "about", "name"])["value"].sort_index()


def test_figures_of_a_small_set_are_those_that_are_counted_by_hand() -> None:
    found = figures(ROWS)
    assert [found[s, "", "rows", "rows"] for s in ("replace_obj", "swap_att", ALL)] == [2, 1, 3]
    assert [found[s, "", "rows", "images"] for s in ("replace_obj", "swap_att", ALL)] == [1, 1, 2]
    of = found["replace_obj", "P1"]
    assert (of["words", "mean"], of["words", "most"], of["rows", "texts"]) == (4, 5, 2)
    shares = {"noun": 3 / 8, "determiner": 3 / 8, "adjective": 1 / 8, "preposition": 1 / 8, "verb": 0}
    assert {name: of["part of speech", name] for name in shares} == pytest.approx(shares)
    assert {name: of["topic", name] for name in ("vehicle", "animal", "furniture", NO_TOPIC)} == {
        "vehicle": 0.5,
        "animal": 0.5,
        "furniture": 0.5,
        NO_TOPIC: 0,
    }
    assert of["noun"].to_dict() == {"bed": 0.5, "car": 0.5, "dog": 0.5}
    assert found["replace_obj", "P1-N", "lexical", "median"] == pytest.approx((2 / 3 + 4 / 5) / 2, abs=1e-6)
    box = [found["replace_obj", "P1-N", "lexical", name] for name in BOX]
    assert box == sorted(box)
    assert found["swap_att", "P1", "topic", NO_TOPIC] == 1
    assert ("swap_att", "P2", "words", "mean") not in found.index


def test_of_many_rows_some_are_looked_at_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_statistics_module, "LOOKED_AT", 2)
    found = figures(ROWS)
    assert [found[ALL, "", "rows", name] for name in ("rows", "images", "looked at")] == [3, 2, 2]
    assert found[ALL, "P1", "rows", "texts"] == 3
    assert "a sample of 2 rows" in build_statistics_blocks(compute_set_statistics(ROWS))[0].note


@pytest.mark.skipif(not DATA, reason="CARAMEL_DATA names no folder with the public files")
def test_the_counts_of_sugarcrepe_pp_are_those_of_its_table_1() -> None:
    found = figures(read_rows(Path(str(DATA), "sugarcrepe_pp")).rows)
    published = {
        "swap_obj": 245,
        "swap_att": 666,
        "replace_obj": 1652,
        "replace_att": 788,
        "replace_rel": 1406,
        ALL: 4757,
    }
    assert {subtype: found[subtype, "", "rows", "rows"] for subtype in published} == published
    low, high = (found[ALL, "P1-P2", "lexical", name] for name in ("low", "high"))
    assert 0.15 < low < high < 0.6 < found[ALL, "P1-N", "lexical", "low"]
    assert found[ALL, "P1-N", "lexical over characters", "low"] > 0.75, "most of P1-N is above 0.75 (D.1)"
    assert found[ALL, "P1", "thing", "person"] == found[ALL, "P1", "super-category", "thing: person"] > 0.35
    assert found[ALL, "P1", "stuff", "table"] < found[ALL, "P1", "super-category", "stuff: furniture-stuff"]
