import json
import math
from pathlib import Path

import pytest
from published_c import SPECS, Score, Verdict, agrees, draw, score_of, scored, wins

from caramel.benchmarks.readers import whatsup
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark

CONTROLLED = {
    "whatsup_a": (whatsup.WHATSUP_A, "controlled_images_dataset.json", "controlled_images", ("on", "under")),
    "whatsup_b": (
        whatsup.WHATSUP_B,
        "controlled_clevr_dataset.json",
        "controlled_clevr",
        ("in-front_of", "behind"),
    ),
}
SPATIAL = {
    "coco_spatial_one": (whatsup.COCO_SPATIAL_ONE, "coco_qa_one_obj.json", "val2017", "{:012d}.jpg"),
    "coco_spatial_two": (whatsup.COCO_SPATIAL_TWO, "coco_qa_two_obj.json", "val2017", "{:012d}.jpg"),
    "gqa_spatial_one": (whatsup.GQA_SPATIAL_ONE, "vg_qa_one_obj.json", "vg_images", "{}.jpg"),
    "gqa_spatial_two": (whatsup.GQA_SPATIAL_TWO, "vg_qa_two_obj.json", "vg_images", "{}.jpg"),
}
# True and false caption -> the authors' preposition.
CAPTIONS = {
    "coco_spatial_one": [
        ("A photo of a bench on the left", "A photo of a bench on the right", "left"),
        ("A photo of a dog on the top", "A photo of a dog on the bottom", "top"),
    ],
    "coco_spatial_two": [
        ("A photo of a cat to the left of a dog", "A photo of a cat to the right of a dog", "left"),
        ("A photo of a cat to the right of a cup", "A photo of a cat to the left of a cup", "right"),
        ("A photo of a kite above a boy", "A photo of a kite below a boy", "above"),
        ("A photo of a boy below a kite", "A photo of a boy above a kite", "below"),
    ],
    "gqa_spatial_one": [
        ("A photo of a lamp on the right", "A photo of a lamp on the left", "right"),
        ("A photo of a rug on the bottom", "A photo of a rug on the top", "bottom"),
    ],
    "gqa_spatial_two": [
        ("A photo of a man to the left of a car", "A photo of a man to the right of a car", "left"),
        ("A photo of a man to the right of a bus", "A photo of a man to the left of a bus", "right"),
        ("A photo of a man in front of a wall", "A photo of a man behind a wall", "front"),
        ("A photo of a tree behind a wall", "A photo of a tree in front of a wall", "behind"),
        ("A photo of a cup on top of a table", "A photo of a cup below a table", "top"),
    ],
}
DEEP = json.loads("[" * 500 + "]" * 500)


def write_controlled(folder: Path, name: str) -> tuple[Path, Path, Benchmark]:
    """Write sets of four images, each with the same four captions, its own first."""
    benchmark, file, below, others = CONTROLLED[name]
    rows = []
    for first, second in (("mug", "table"), ("beer-bottle", "armchair"), ("bowl", "chair"), ("hat", "box")):
        words = ("left_of", "right_of", *others)
        captions = [f"A {first} {word.replace('_', ' ')} a {second}" for word in words]
        for n, word in enumerate(words):
            image = f"data/{below}/{first}_{word}_{second}.jpeg"
            draw(folder / image, len(rows))
            rows.append(
                {"image_path": image, "caption_options": [captions[n], *captions[:n], *captions[n + 1 :]]}
            )
    (folder / file).write_text(json.dumps(rows))
    return folder, folder / "data", benchmark


def oracle_controlled(data: Path, images: Path, name: str, score: Score) -> list[Verdict]:
    """Individual accuracy: of the four captions the first scores highest, alone."""
    _, file, below, others = CONTROLLED[name]
    verdicts = []
    for row in json.loads((data / file).read_text()):
        path = images / below / row["image_path"].split("/")[-1]
        first, *rest = (score(path, caption) for caption in row["caption_options"])
        hit, tie = wins(first, *rest)
        if any(x > first for x in rest):
            tie = False  # the tie does not decide
        preposition = next(w for w in ("left_of", "right_of", *others) if f"_{w}_" in path.name)
        verdicts.append(Verdict(hit, tie, (preposition,)))
    return verdicts


@pytest.mark.parametrize("name", CONTROLLED)
@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_of_a_controlled_part_is_that_of_the_authors_code(
    name: str, spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images, benchmark = write_controlled(tmp_path, name)
    task = benchmark.load_rows(data, images)
    rows = scored(benchmark, task, spec, tmp_path / "store", monkeypatch)
    assert rows["n_candidates"].tolist() == [4] * 16
    agrees(benchmark, rows, {"recall@1": oracle_controlled(data, images, name, score_of(spec))})
    assert benchmark.name == name


def write_spatial(folder: Path, name: str) -> tuple[Path, Path, Benchmark]:
    benchmark, file, below, pattern = SPATIAL[name]
    rows: list[list[object]] = []
    for n in range(40):
        true, false, _ = CAPTIONS[name][n % len(CAPTIONS[name])]
        draw(folder / "images" / below / pattern.format(139 + n % 7), n % 7)
        rows.append([139 + n % 7, f"{n // 20} {true}", f"{n // 20} {false}"])
    (folder / file).write_text(json.dumps(rows))
    return folder, folder / "images", benchmark


def oracle_spatial(data: Path, images: Path, name: str, score: Score) -> list[Verdict]:
    """The first caption scores above the second."""
    _, file, below, pattern = SPATIAL[name]
    verdicts = []
    for n, (image, true, false) in enumerate(json.loads((data / file).read_text())):
        path = images / below / pattern.format(image)
        hit, tie = wins(score(path, true), score(path, false))
        verdicts.append(Verdict(hit, tie, (CAPTIONS[name][n % len(CAPTIONS[name])][2],)))
    return verdicts


@pytest.mark.parametrize("name", SPATIAL)
@pytest.mark.parametrize("spec", SPECS)
def test_every_verdict_of_a_spatial_part_is_that_of_the_authors_code(
    name: str, spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images, benchmark = write_spatial(tmp_path, name)
    rows = scored(benchmark, benchmark.load_rows(data, images), spec, tmp_path / "store", monkeypatch)
    agrees(benchmark, rows, {"accuracy": oracle_spatial(data, images, name, score_of(spec))})
    assert benchmark.name == name


def test_four_captions_that_all_score_the_same_are_a_miss_and_a_tie(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images, benchmark = write_controlled(tmp_path, "whatsup_a")
    rows = scored(benchmark, benchmark.load_rows(data, images), "matching:1", tmp_path / "store", monkeypatch)
    assert rows["n_tied"].tolist() == [3] * 16
    agrees(benchmark, rows, {"recall@1": oracle_controlled(data, images, "whatsup_a", lambda *_: 0.0)})


def test_a_query_without_one_score_is_unscored(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, images, benchmark = write_controlled(tmp_path, "whatsup_b")
    rows = scored(benchmark, benchmark.load_rows(data, images), "patchy:3", tmp_path / "store", monkeypatch)
    score = score_of("patchy:3")
    expected = oracle_controlled(data, images, "whatsup_b", score)
    assert any(verdict.hit is None for verdict in expected)
    assert rows["s_true"].map(math.isnan).tolist() == [verdict.hit is None for verdict in expected]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"caption_options": ["a", "b", "c", "d"]}, "row 0 has no field 'image_path'"),
        ({"image_path": "data/a_on_b.jpeg"}, "row 0 has no field 'caption_options'"),
        ({"image_path": "data/a_on_b.jpeg", "caption_options": [DEEP] * 4}, "must be text"),
        ({"image_path": "data/a_on_b.jpeg", "caption_options": ["a", "b", "c"]}, "must be 4 different"),
        ({"image_path": "data/a_on_b.jpeg", "caption_options": ["a", "b", "c", "a"]}, "must be 4 different"),
        ({"image_path": "data/a_on_b.jpeg", "caption_options": ["a", "b", "c", 4]}, "must be text"),
        (["a"], "row 0 must be an object"),
    ],
)
def test_a_broken_row_of_a_controlled_part_is_named(row: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "controlled_images_dataset.json").write_text(json.dumps([row]))
    with pytest.raises(DataError, match=message):
        whatsup.WHATSUP_A.load_rows(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([139, "a photo"], r"row 0 must be \[image, true caption, false caption\]"),
        ({"image": 139}, r"row 0 must be \[image, true caption, false caption\]"),
        (["../x", "a", "b"], "row 0 must begin with the number of an image, not '../x'"),
        ([DEEP, "a", "b"], "row 0 must begin with the number of an image"),
        (["7" * 300, "a", "b"], "row 0 must begin with the number of an image"),
        ([True, "a", "b"], "row 0 must begin with the number of an image, not True"),
        ([139, "a", None], "row 0: field 'caption' must be text"),
        ([139, "", "b"], "row 0: field 'caption' must be text"),
    ],
)
def test_a_broken_row_of_a_spatial_part_is_named(row: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "coco_qa_two_obj.json").write_text(json.dumps([row]))
    with pytest.raises(DataError, match=message):
        whatsup.COCO_SPATIAL_TWO.load_rows(tmp_path, tmp_path)


@pytest.mark.parametrize("name", [*CONTROLLED, *SPATIAL])
def test_a_missing_and_an_empty_file_are_errors(name: str, tmp_path: Path) -> None:
    benchmark, file, *_ = (CONTROLLED | SPATIAL)[name]
    with pytest.raises(DataError, match=f"holds none of {file}") as stopped:
        benchmark.load_rows(tmp_path, tmp_path)
    assert f"{name}/{file}" in str(stopped.value)
    (tmp_path / file).write_text("[]")
    with pytest.raises(DataError, match="has no rows"):
        benchmark.load_rows(tmp_path, tmp_path)
