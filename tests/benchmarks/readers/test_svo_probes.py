import csv
from pathlib import Path

import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored, wins

from caramel.benchmarks.readers.svo_probes import BENCHMARK
from caramel.errors import DataError

FIELDS = [
    "sentence",
    "pos_triplet",
    "neg_triplet",
    "pos_url",
    "neg_url",
    "pos_image_id",
    "neg_image_id",
    "subj_neg",
    "verb_neg",
    "obj_neg",
]


def row(number: int, **changes: object) -> dict[str, object]:
    kind = number % 3
    return {
        "sentence": f"A girl, number {number % 11}, stands in the grass.",
        "pos_triplet": "girl,stand,grass",
        "neg_triplet": "dog,stand,grass",
        "pos_url": "https://example.test/a.jpg",
        "neg_url": "https://example.test/b.jpg",
        "pos_image_id": number % 5,
        "neg_image_id": 5 + number % 4,
        "subj_neg": kind == 0,
        "verb_neg": kind == 1,
        "obj_neg": kind == 2,
        **changes,
    }


def write(folder: Path, rows: list[dict[str, object]]) -> tuple[Path, Path]:
    with (folder / "svo_probes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    images = folder / "elsewhere"
    for number in range(9):
        draw(images / f"{number}.jpg", number)
    return folder, images


def oracle(data: Path, images: Path, score: Score) -> list[Verdict]:
    """The sentence scores above the false image with the true one; kinds as in the authors' notebook."""
    verdicts = []
    with (data / "svo_probes.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            flags = [line[f"{part}_neg"] == "True" for part in ("subj", "verb", "obj")]
            if flags.count(True) == 1:
                positive, negative = (images / f"{line[f'{side}_image_id']}.jpg" for side in ("pos", "neg"))
                hit, tie = wins(score(positive, line["sentence"]), score(negative, line["sentence"]))
                verdicts.append(Verdict(hit, tie, (("subject", "verb", "object")[flags.index(True)],)))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_and_metric_is_that_of_the_definition(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [row(n) for n in range(60)]
    lines[7] |= {"subj_neg": True, "verb_neg": True}
    lines[9] |= {"subj_neg": False, "verb_neg": False, "obj_neg": False}
    lines[12] |= {"neg_image_id": lines[12]["pos_image_id"]}  # a tie for any model
    data, images = write(tmp_path, lines)
    rows = scored(BENCHMARK, BENCHMARK.load_rows(data, images), spec, tmp_path / "store", monkeypatch)
    assert len(rows) == 58
    agrees(BENCHMARK, rows, {"image_accuracy": oracle(data, images, score_of(spec))})


def test_an_image_is_named_by_its_number_and_may_lie_in_a_folder_below(tmp_path: Path) -> None:
    data, images = write(tmp_path, [row(0)])
    inner = tmp_path / "outer" / "images"
    inner.parent.mkdir()
    images.rename(inner)
    task = BENCHMARK.load_rows(data, inner.parent)
    assert [Path(image.path) for image in task.images] == [inner / "0.jpg", inner / "5.jpg"]
    assert task.rows["negative_caption"].isna().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence": " "}, "row 2 .line 3.: field 'sentence' must be text"),
        ({"subj_neg": "perhaps"}, "row 2 .line 3.: column 'subj_neg' must be True or False, not 'perhaps'"),
        ({"pos_image_id": "../../etc"}, "row 2 .line 3.: column 'pos_image_id' must be the number"),
        ({"pos_image_id": "7" * 300}, "row 2 .line 3.: field 'pos_image_id' must name a file"),
        ({"neg_image_id": ""}, "row 2 .line 3.: column 'neg_image_id' must be the number"),
    ],
)
def test_a_broken_row_is_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        BENCHMARK.load_rows(*write(tmp_path, [row(0), row(0, **change)]))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "svo_probes.csv").write_text("sentence,pos_image_id,neg_image_id\na,1,2\n")
    with pytest.raises(DataError, match="'subj_neg', 'verb_neg', 'obj_neg'"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_no_file_and_no_row_of_one_kind_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds none of svo_probes\.csv"):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    with pytest.raises(DataError, match="no row that is a negative of exactly one type"):
        BENCHMARK.load_rows(*write(tmp_path, [row(0, verb_neg=True)]))
