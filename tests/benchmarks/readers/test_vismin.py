import csv
from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, pairs, with_nan, write_parquet

from caramel.benchmarks.readers.vismin import BENCHMARK
from caramel.errors import DataError

ITEMS = pairs(40)
CATEGORIES = ("object", "attribute", "relation", "counting")
WORDS = {
    False: ("T0_I0 > T1_I0 & T1_I1 > T0_I1", "T0_I0 > T0_I1 & T1_I1 > T1_I0"),
    True: ("T1_I0 > T0_I0 & T0_I1 > T1_I1", "T0_I1 > T0_I0 & T1_I0 > T1_I1"),
}


def crossed(n: int) -> bool:
    """Return whether the captions of a row stand in the other order than its images."""
    return n % 3 == 1


def instances() -> list[Instance]:
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


def release(folder: Path, **changes: str) -> Path:
    """Write a release; ``changes`` are of the first solution."""
    rows = []
    for n, item in enumerate(ITEMS):
        texts = item.captions[::-1] if crossed(n) else item.captions
        rows.append(
            {"id": f"sample_{n}", "text_0": texts[0], "text_1": texts[1], "category": CATEGORIES[n // 10]}
        )
    cells = {f"image_{k}": [(item.images[k], None) for item in ITEMS] for k in (0, 1)}
    write_parquet(folder, rows, cells)
    solutions = [
        {
            "idx": n % 10,
            "Text": WORDS[crossed(n)][0],
            "Image": WORDS[crossed(n)][1],
            "category": CATEGORIES[n // 10],
        }
        for n in range(len(ITEMS))
    ]
    solutions[0] |= changes
    with (folder / "sim_solution.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(solutions[0]))
        writer.writeheader()
        writer.writerows(solutions)
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


def test_rows_without_a_solution_are_an_error(tmp_path: Path) -> None:
    data = release(tmp_path)
    path = data / "sim_solution.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match="40 rows and 39 solutions"):
        BENCHMARK.read(data, data)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Text": "T0_I0 > T1_I0"}, "row 1 .*columns 'Text' and 'Image' must be"),
        ({"Image": WORDS[True][1]}, "row 1 .*columns 'Text' and 'Image' must be"),
        ({"category": ""}, "row 1 .*field 'category' must be text"),
    ],
)
def test_a_solution_that_says_something_else_is_named(
    changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    data = release(tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        BENCHMARK.read(data, data)


def test_a_missing_file_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds no \*\.parquet.*mair-lab/vismin-bench"):
        BENCHMARK.read(tmp_path, tmp_path)
    (release(tmp_path) / "sim_solution.csv").unlink()
    with pytest.raises(DataError, match=r"holds none of sim_solution\.csv"):
        BENCHMARK.read(tmp_path, tmp_path)
