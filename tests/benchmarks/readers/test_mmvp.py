import csv
from pathlib import Path

import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored

from caramel.benchmarks.readers.mmvp import BENCHMARK
from caramel.errors import DataError

PATTERNS = [
    "Orientation",
    "Presence",
    "State",
    "Quantity",
    "Spatial",
    "Color",
    "Structural Character",
    "Text",
]
PATTERNS += ["Camera Perspective"]
PAIRS = 4  # of a pattern; the release has 15
HEADER = ["Question ID", "Type", "Statement"]


def questions() -> list[list[object]]:
    return [
        [number, PATTERNS[(number - 1) // (2 * PAIRS)], f"a duck that faces way {number}"]
        for number in range(1, 2 * PAIRS * len(PATTERNS) + 1)
    ]


def write(folder: Path, rows: list[list[object]], header: list[str] = HEADER) -> tuple[Path, Path]:
    with (folder / "Questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return folder, folder / "release"


def draw_all(images: Path) -> None:
    for number, pattern, _ in questions():
        draw(images / "MLLM_VLM Images" / str(pattern) / f"{number}.jpg", int(str(number)))


def oracle(data: Path, images: Path, score: Score) -> list[Verdict]:
    """Both statements of a pair of rows find their own image, as in the authors' script."""
    with (data / "Questions.csv").open(newline="") as file:
        lines = iter([*csv.reader(file)][1:])
    verdicts = []
    for (first, pattern, one), (second, _, two) in zip(lines, lines, strict=True):
        left, right = (images / "MLLM_VLM Images" / pattern / f"{n}.jpg" for n in (first, second))
        texts = "a photo of " + one, "a photo of " + two
        contests = [
            (score(left, texts[0]), score(right, texts[0])),
            (score(right, texts[1]), score(left, texts[1])),
        ]
        scores = [x for pair in contests for x in pair]
        missing = any(x != x for x in scores)
        hit = None if missing else all(own > other for own, other in contests)
        tie = not missing and any(own == other for own, other in contests)
        verdicts.append(Verdict(hit, tie, (pattern,)))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_and_metric_is_that_of_the_authors_script(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images = write(tmp_path, questions())
    draw_all(images)
    rows = scored(BENCHMARK, BENCHMARK.load_rows(data, images), spec, tmp_path / "store", monkeypatch)
    assert len(rows) == PAIRS * len(PATTERNS)
    agrees(BENCHMARK, rows, {"t2i": oracle(data, images, score_of(spec))})


def test_pairs_are_told_by_number_whatever_the_order_of_the_rows(tmp_path: Path) -> None:
    ordered = BENCHMARK.load_rows(*write(tmp_path, questions()))
    reverse = BENCHMARK.load_rows(*write(tmp_path, questions()[::-1]))
    assert ordered.rows.equals(reverse.rows)
    assert ordered.images == reverse.images


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, "Color", "a"], [2, "State", "b"]], "images 1 and 2 must both exist and have the same pattern"),
        ([[1, "Color", "a"]], "images 1 and 2 must both exist"),
        ([[4, "Color", "a"]], "images 3 and 4 must both exist"),
        ([[1, "Color", "a"], [1, "Color", "b"]], "row 2 .line 3.: image 1 already has a statement"),
        (
            [["x", "Color", "a"]],
            "row 1 .line 2.: column 'Question ID' must be the number of an image, not 'x'",
        ),
        ([["9" * 5000, "Color", "a"]], "row 1 .line 2.: column 'Question ID' must be the number"),
        ([[0, "Color", "a"]], "row 1 .line 2.: column 'Question ID' must be the number"),
        ([[1, "Colour", "a"]], "row 1 .line 2.: column 'Type' is 'Colour'. Expected one of Orientation"),
        ([[1, "Color", ""]], "row 1 .line 2.: field 'Statement' must be text"),
        ([[1, "Color"]], "row 1 .line 2. has 2 fields, but the header has 3"),
        ([], "has no rows"),
    ],
)
def test_a_broken_file_is_named(rows: list[list[object]], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        BENCHMARK.load_rows(*write(tmp_path, rows))


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds none of Questions\.csv"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    with pytest.raises(DataError, match=r"lacks the columns \['Statement'\]"):
        BENCHMARK.load_rows(*write(tmp_path, [[1, "Color", "a"]], ["Question ID", "Type", "Text"]))
