from pathlib import Path
from typing import Any

import pytest
from published import DUAL, MATCHER, Instance, agree, pairs, with_nan, write_parquet

from caramel.benchmarks.readers.vismin import BENCHMARK
from caramel.errors import DataError

ITEMS = pairs(40)
CATEGORIES = ("object", "attribute", "relation", "counting")


def instances() -> list[Instance]:
    """The authors' metric of today's issue: the rows in order, by the category of the row."""
    return [
        Instance(
            f"vismin-{n}",
            str(n),
            (CATEGORIES[n // 10],),
            item.images[0],
            item.captions[0],
            item.captions[1],
            negative_image=item.images[1],
        )
        for n, item in enumerate(ITEMS)
    ]


def release(folder: Path, **changes: Any) -> Path:
    """Write a release as it is today; ``changes`` are of the first row."""
    rows = [
        {
            "id": f"sample_{n}",
            "text_0": item.captions[0],
            "text_1": item.captions[1],
            "category": CATEGORIES[n // 10],
            "text_question_0": "Which caption?",
        }
        for n, item in enumerate(ITEMS)
    ]
    rows[0] |= changes
    cells = {f"image_{k}": [(item.images[k], None) for item in ITEMS] for k in (0, 1)}
    write_parquet(folder, rows, cells)
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "vismin")
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    assert metrics.set_index(["subset", "metric"])["ties"]["all", "group"] >= 2


@pytest.mark.parametrize("beside", ["vismin", "vismin/data"])
def test_the_solutions_of_the_first_issue_are_refused_beside_the_rows_of_today(
    beside: str, tmp_path: Path
) -> None:
    data = release(tmp_path / "vismin" / "data").parent
    (tmp_path / beside / "sim_solution.csv").write_text("idx,Text,Image,category\n")
    with pytest.raises(DataError, match=r"sim_solution\.csv' belongs to VisMin's first issue .*\n.*mair-lab"):
        BENCHMARK.load_rows(data, data)


@pytest.mark.parametrize("category", ["", None])
def test_a_row_without_a_category_is_named(category: str | None, tmp_path: Path) -> None:
    data = release(tmp_path, category=category)
    with pytest.raises(DataError, match="row 0: field 'category' must be text"):
        BENCHMARK.load_rows(data, data)


def test_a_missing_file_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of \*\.parquet.*mair-lab/vismin-bench"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
