"""NegBench: files in the published form, judged one query at a time."""

import ast
import csv
from pathlib import Path
from typing import Any

import pytest
from published_b import SPECS, Verdict, agrees, draw, is_telling, know_failing, score_of, scored, verdict

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.readers.negbench import MCQ, NEGBENCH_MCQ, NEGBENCH_RETRIEVAL, RETRIEVAL
from caramel.errors import DataError
from caramel.interfaces.benchmark import Rankings

# Subset -> how its files name the images, and what of that is below the folder of images.
COCO, VOC = "data/coco/images/val2017/{}.jpg", "data/voc2007/VOCdevkit/VOC2007/JPEGImages/{}.jpg"
SYNTHETIC = "data/synthetic_visual_negation/data/{}_img.png"
PATHS = {
    "coco": (COCO, "val2017/{}.jpg"),
    "coco_negated": (COCO, "val2017/{}.jpg"),
    "voc2007": (VOC, "JPEGImages/{}.jpg"),
    "synthetic": (SYNTHETIC, "{}_img.png"),
    "synthetic_negated": (SYNTHETIC, "{}_img.png"),
    "chexpert": ("data/chexpert/valid/{}.jpg", "chexpert/valid/{}.jpg"),
    "chexpert_control": ("data/chexpert/valid/{}.jpg", "chexpert/valid/{}.jpg"),
}
TEMPLATES = ("positive", "negative", "hybrid")


def numbers(subset: str) -> list[str]:
    """Return what stands in the names of the images; of the synthetic ones the last part alone is ambiguous."""
    if subset.startswith("synthetic"):
        return [f"{kind}/{n}" for n in range(6) for kind in ("positive", "negative")]
    return [f"{n:012}" for n in range(12)]


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_images(images: Path, subset: str) -> None:
    for seed, number in enumerate(numbers(subset)):
        draw(images / PATHS[subset][1].format(number), 1 if seed == 2 else seed)


def question(subset: str, n: int, image: str) -> dict[str, Any]:
    count = 2 if subset.startswith("chexpert") else 4
    captions = {f"caption_{k}": f"In {subset} {n} there is a dog, but no {k}" for k in range(count)}
    if n == 3:
        captions["caption_1"] = captions["caption_0"]
    template = {} if count == 2 else {"correct_answer_template": TEMPLATES[n % 3]}
    return {"image_path": image, "correct_answer": n % 2, **captions, **template}


def write_mcq(folder: Path, images: Path, subsets: tuple[str, ...] = tuple(MCQ)) -> None:
    for subset in subsets:
        write_images(images, subset)
        names = [PATHS[subset][0].format(number) for number in numbers(subset)]
        write_csv(folder / MCQ[subset], [question(subset, n, names[n % 12]) for n in range(30)])


def oracle_mcq(folder: Path, images: Path, spec: str) -> list[Verdict]:
    """The caption of the number ``correct_answer`` scores highest of all."""
    score, verdicts = score_of(spec), []
    for subset, file in MCQ.items():
        above, below = (path.partition("{")[0] for path in PATHS[subset])
        for row in csv.DictReader((folder / file).open()):
            picture = (images / row["image_path"].replace(above, below)).read_bytes()
            scores = [score(picture, [row[name]]) for name in row if name.startswith("caption_")]
            true = scores.pop(int(row["correct_answer"]))
            template = row.get("correct_answer_template")
            subsets = [subset, *([f"{subset}/{template}"] if template else [])]
            verdicts.append(verdict(row["image_path"], subsets, [true], scores))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_question_is_judged_as_published(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_failing(monkeypatch)
    data, images = tmp_path / "data", tmp_path / "images"
    write_mcq(data, images)
    expected = oracle_mcq(data, images, spec)
    is_telling(expected, spec)
    rows = scored(NEGBENCH_MCQ, data, images, spec, tmp_path / "store")
    assert any(v.tie("recall@1") for v in expected)
    agrees(rows, NEGBENCH_MCQ, expected)


def write_retrieval(folder: Path, images: Path) -> None:
    for subset, file in RETRIEVAL.items():
        write_images(images, subset)
        rows = []
        for n, number in enumerate(numbers(subset)):
            captions = [f"Caption {k} of {n}: it isn't a cat" for k in range(1 if "synth" in subset else 5)]
            if (subset, n) == ("coco_negated", 7):
                captions[3] = ""  # as one of the release is
            more = {"image_id": n, "negative_objects": "['cat']"} if subset == "coco_negated" else {}
            rows.append({**more, "filepath": PATHS[subset][0].format(number), "captions": repr(captions)})
        write_csv(folder / file, rows)


def oracle_retrieval(folder: Path, images: Path, spec: str) -> list[Verdict]:
    """The caption's image is among the first k of all images of the file."""
    score, verdicts = score_of(spec), []
    for subset, file in RETRIEVAL.items():
        above, below = (path.partition("{")[0] for path in PATHS[subset])
        rows = list(csv.DictReader((folder / file).open()))
        pictures = [(images / row["filepath"].replace(above, below)).read_bytes() for row in rows]
        for n, row in enumerate(rows):
            for caption in ast.literal_eval(row["captions"]):
                scores = [score(picture, [caption]) for picture in pictures]
                true = scores.pop(n)
                verdicts.append(verdict(row["filepath"], [subset], [true], scores))
    return verdicts


@pytest.mark.parametrize("spec", SPECS)
def test_every_caption_is_judged_as_published(
    spec: str, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_failing(monkeypatch)
    data, images = tmp_path / "data", tmp_path / "images"
    write_retrieval(data, images)
    expected = oracle_retrieval(data, images, spec)
    is_telling(expected, spec)
    rows = scored(NEGBENCH_RETRIEVAL, data, images, spec, tmp_path / "store")
    assert set(rows["n_candidates"]) == {12}
    agrees(rows, NEGBENCH_RETRIEVAL, expected)
    assert rows["instance_id"].eq("coco_negated-7-3").sum() == 1


@pytest.mark.parametrize("below", ["", "data", "synthetic_visual_negation/data", "more"])
def test_leading_folders_are_left_out_until_the_images_are_found(below: str, tmp_path: Path) -> None:
    write_mcq(tmp_path / "set" / "images", tmp_path / "pictures" / below, ("synthetic",))
    task = NEGBENCH_MCQ.load_rows(tmp_path / "set", tmp_path / "pictures")
    if below == "more":  # no folder of the names
        with pytest.raises(DataError, match="12 of 12 images are missing"):
            check_images(task.images, "a")
    else:
        assert len(check_images(task.images, "a")) == 12


def test_an_image_that_stands_in_two_rows_is_one_candidate(tmp_path: Path) -> None:
    rows = [{"filepath": f"{n % 2}.jpg", "captions": repr([f"caption {n}"])} for n in range(3)]
    write_csv(tmp_path / RETRIEVAL["synthetic"], rows)
    task = NEGBENCH_RETRIEVAL.load_rows(tmp_path, tmp_path)
    assert isinstance(task, Rankings)
    assert [pool.tolist() for pool in task.pools] == [[0, 1]]
    assert task.rows["true"].tolist() == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct_answer": "4"}, "'correct_answer' must be the number of a caption, from 0 to 3, not '4'"),
        ({"correct_answer": "0.0"}, "'correct_answer' must be the number"),
        ({"correct_answer_template": "none"}, "'none'. Expected one of positive, negative, hybrid"),
        ({"caption_2": " "}, "field 'caption_2' must be text"),
        ({"image_path": "../x.jpg"}, "field 'image_path' must name a file inside"),
    ],
)
def test_a_broken_question_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_csv(tmp_path / MCQ["coco"], [question("coco", 0, "a.jpg") | change])
    with pytest.raises(DataError, match=rf"row 1 .*{message}"):
        NEGBENCH_MCQ.load_rows(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"captions": "a dog"}, "not a Python literal"),
        ({"captions": "[]"}, "'captions' must be a list of texts"),
        ({"captions": "['a', 3]"}, "field 'captions' must be text"),
        ({"captions": "['a', None]"}, "field 'captions' must be text"),
        ({"filepath": "/x.jpg"}, "field 'filepath' must name a file inside"),
    ],
)
def test_a_broken_row_of_captions_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_csv(tmp_path / RETRIEVAL["coco"], [{"filepath": "a.jpg", "captions": "['a dog']"} | change])
    with pytest.raises(DataError, match=rf"row 1 .*{message}"):
        NEGBENCH_RETRIEVAL.load_rows(tmp_path, tmp_path)


@pytest.mark.parametrize("benchmark", [NEGBENCH_MCQ, NEGBENCH_RETRIEVAL])
def test_a_missing_and_an_empty_file_are_errors(benchmark: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of COCO_val_.*m1k2zoo/negbench"):
        benchmark.load_rows(tmp_path, tmp_path)
    columns = ",".join(
        ["image_path", *(f"caption_{k}" for k in range(4)), "correct_answer,correct_answer_template"]
    )
    (tmp_path / MCQ["coco"]).write_text(columns + "\n")
    (tmp_path / RETRIEVAL["coco"]).write_text("filepath,captions\n")
    with pytest.raises(DataError, match="has no rows"):
        benchmark.load_rows(tmp_path, tmp_path)
