import csv
from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, drawn, with_nan, write_images

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.readers.conme import BENCHMARK, FILES
from caramel.errors import DataError

COLUMNS = (
    "image",
    "question",
    "answer",
    "base_question",
    "correct_option",
    "incorrect_option",
    "question_format",
)


def row(file: str, n: int) -> dict[str, str]:
    """Return one row as the card describes it; number 3 has two equal answers."""
    question, true = f"What stands behind tree {n} of {file}?", f"A dog, and {n} cats."
    false = true if n == 3 else f"A cat, and {n} dogs."
    options = (true, false) if n % 2 else (false, true)
    asked = f"{question} A. {options[0]} B. {options[1]}"
    return dict(
        zip(
            COLUMNS, (f"{n % 7:012}.jpg", asked, "BA"[n % 2], question, true, false, "selective"), strict=True
        )
    )


def instances() -> list[Instance]:
    return [
        Instance(
            f"{file[:-4].replace('-', '_')}-{n}",
            str(n % 7),
            (file[:-4].replace("-", "_"),),
            drawn(n % 7, "JPEG"),
            f"{one['base_question']} {one['correct_option']}",
            f"{one['base_question']} {one['incorrect_option']}",
        )
        for file in FILES
        for n in range(14)
        for one in [row(file, n)]
    ]


def release(folder: Path, images: str = "images", **changes: str) -> Path:
    """Write a release; ``changes`` are of the first row of the first file."""
    write_images(folder / images, {f"{n:012}.jpg": drawn(n, "JPEG") for n in range(7)})
    for file in FILES:
        rows = [row(file, n) for n in range(14)]
        rows[0] |= changes if file == FILES[0] else {}
        with (folder / file).open("w", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "conme")
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert metrics.set_index(["subset", "metric"])["ties"]["all", "accuracy"] >= 3


@pytest.mark.parametrize("place", [".", "images", "val2017", "coco/val2017"])
def test_the_images_are_found_where_they_lie(place: str, tmp_path: Path) -> None:
    data = release(tmp_path, place)
    assert len(check_images(BENCHMARK.load_rows(data, data).images, "a")) == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "../1.jpg"}, "row 1 .*field 'image' must name a file inside"),
        ({"base_question": ""}, "row 1 .*field 'base_question' must be text"),
        ({"incorrect_option": " "}, "row 1 .*field 'incorrect_option' must be text"),
    ],
)
def test_a_broken_row_is_named(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    data = release(tmp_path, **changes)
    with pytest.raises(DataError, match=message):
        BENCHMARK.load_rows(data, data)


def test_a_missing_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of replace-att\.csv.*conme/ConMe"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    (tmp_path / FILES[1]).write_text(",".join(COLUMNS) + "\n")
    with pytest.raises(DataError, match="have no rows"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
