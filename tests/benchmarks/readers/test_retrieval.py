"""Retrieval on COCO and Flickr30K: files in the published forms, judged one query at a time."""

import json
from pathlib import Path
from typing import Any

import pytest
from published_b import SPECS, Verdict, agrees, draw, is_telling, know_failing, score_of, scored, verdict
from released import COCO as COCO_MINI
from released import FINE_GRAINED, released

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.readers.retrieval import COCO, FLICKR30K
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Rankings

KARPATHY, VAL2017, FLICKR = "dataset_coco.json", "captions_val2017.json", "dataset_flickr30k.json"
RELEASES = [(COCO, KARPATHY, "val2014"), (COCO, VAL2017, "val2017"), (FLICKR30K, FLICKR, "flickr30k-images")]


def captions_of(number: int) -> list[str]:
    """Return five captions, of every sixth image seven; two images share one, one has the same twice."""
    captions = [f"caption {k} of image {number}" for k in range(7 if number % 6 == 0 else 5)]
    if number in (3, 4):
        captions[2] = "a man riding a wave"
    if number == 5:
        captions[1] = captions[0]
    return captions


def write(folder: Path, file: str, subfolder: str, count: int = 14) -> tuple[Path, Path]:
    """Write a release and its images, of which two have the same content; beside it, what is no test image."""
    data, images = folder / "data", folder / "images"
    names = [f"COCO_val2014_{n:012}.jpg" if file == KARPATHY else f"{n:012}.jpg" for n in range(count)]
    for n, name in enumerate(names):
        draw(images / subfolder / name, 1 if n == 2 else n)
    if file == VAL2017:
        annotations = [
            {"image_id": n, "id": 1000 * k + n, "caption": captions_of(n)[k]}
            for k in range(7)
            for n in reversed(range(count))
            if k < len(captions_of(n))
        ]
        entries = [{"id": n, "file_name": name, "height": 30, "width": 40} for n, name in enumerate(names)]
        whole: dict[str, Any] = {"info": {}, "images": entries, "annotations": annotations}
    else:
        entries = []
        for n, name in enumerate(names):
            sentences = [{"tokens": t.split(), "raw": t, "imgid": n, "sentid": 9} for t in captions_of(n)]
            entry = {"filename": name, "imgid": n, "split": "test", "sentences": sentences, "sentids": []}
            other = {"filename": f"other{n}.jpg", "imgid": n, "split": "train", "sentences": []}
            entries += [{"filepath": "val2014"} | entry if file == KARPATHY else entry, other]
        whole = {"images": entries, "dataset": "coco"}
    data.mkdir()
    (data / file).write_text(json.dumps(whole))
    return data, images


def oracle(images: Path, spec: str, count: int = 14) -> list[Verdict]:
    """Image to text: the best of the image's five captions; text to image: its one image."""
    score, to_text, to_image = score_of(spec), [], []
    files = sorted(images.iterdir())[:count]
    captions = [(n, text) for n in range(count) for text in captions_of(n)[:5]]
    for n, file in enumerate(files):
        scores = [(owner, score(file.read_bytes(), [text])) for owner, text in captions]
        own, others = ([s for owner, s in scores if (owner == n) is mine] for mine in (True, False))
        to_text.append(verdict(file.name, ["i2t"], own, others))
    for n, text in captions:
        scores = [(k, score(file.read_bytes(), [text])) for k, file in enumerate(files)]
        own, others = ([s for k, s in scores if (k == n) is mine] for mine in (True, False))
        to_image.append(verdict(files[n].name, ["t2i"], own, others))
    return to_text + to_image


@pytest.mark.parametrize(("benchmark", "file", "subfolder"), RELEASES)
@pytest.mark.parametrize("spec", SPECS)
def test_both_directions_are_judged_as_usual(
    benchmark: Benchmark,
    file: str,
    subfolder: str,
    spec: str,
    tmp_path: Path,
    families: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    know_failing(monkeypatch)
    data, images = write(tmp_path, file, subfolder)
    expected = oracle(images / subfolder, spec)
    is_telling(expected, spec)
    # The image and the caption that stand twice tie for any model.
    assert any(v.tie("recall@10") for v in expected if v.subsets == ["t2i"])
    rows = scored(benchmark, data, images, spec, tmp_path / "store")
    agrees(rows, benchmark, expected)
    by_direction = rows["n_candidates"].groupby(rows["subsets"].str[0]).unique()
    assert by_direction["i2t"].tolist() == [70]
    assert by_direction["t2i"].tolist() == [14]


def test_any_of_the_true_captions_counts(tmp_path: Path) -> None:
    data, images = write(tmp_path, KARPATHY, "val2014")
    task = COCO.load_rows(data, images)
    assert isinstance(task, Rankings)
    image = task.rows[task.rows["direction"] == "i2t"].iloc[6]
    assert [task.texts[t] for t in image["true"]] == [(text,) for text in captions_of(6)[:5]]


@pytest.mark.parametrize(("benchmark", "file", "subfolder"), RELEASES)
def test_images_are_found_in_the_folder_itself_too(
    benchmark: Benchmark, file: str, subfolder: str, tmp_path: Path
) -> None:
    data, images = write(tmp_path, file, subfolder)
    above, inside = benchmark.load_rows(data, images), benchmark.load_rows(data, images / subfolder)
    assert check_images(above.images, "a") == check_images(inside.images, "a")
    next((images / subfolder).glob("*3.jpg")).unlink()
    with pytest.raises(DataError, match=r"1 of 14 images .*\n.*3\.jpg: missing"):
        check_images(benchmark.load_rows(data, images).images, "a")


def changed(path: Path, change: Any) -> None:
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("images"), "has no field 'images'"),
        (lambda w: w["images"][2].pop("split"), "image 2 has no field 'split'"),
        (lambda w: w["images"][2].update(sentences=None), "image 2: field 'sentences' must be a list"),
        (lambda w: w["images"][2]["sentences"][0].pop("raw"), "image 2 has no field 'raw'"),
        (
            lambda w: w["images"][2].update(sentences=[]),
            "the image 'COCO_val2014_000000000001.jpg' has no cap",
        ),
        (lambda w: [i.update(split="val") for i in w["images"]], "has no image of the test split"),
        (lambda w: w["images"].insert(0, "x"), "image 0 must be an object"),
    ],
)
def test_a_broken_split_is_named(change: Any, message: str, tmp_path: Path) -> None:
    data, images = write(tmp_path, KARPATHY, "val2014")
    changed(data / KARPATHY, change)
    with pytest.raises(DataError, match=message):
        COCO.load_rows(data, images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("annotations"), "has no field 'annotations'"),
        (
            lambda w: w["annotations"][1].update(image_id="3"),
            "annotation 1: field 'image_id' must be a whole",
        ),
        (lambda w: w["annotations"][1].update(caption=" "), "annotation 1: field 'caption' must be text"),
        (lambda w: w["images"][3].pop("id"), "image 3 has no field 'id'"),
        (
            lambda w: w["annotations"][1].update(image_id=98),
            "annotation 1: field 'image_id' = 98 matches no image in the file",
        ),
        (lambda w: w["images"].append(w["images"][0]), "the id .* is a duplicate"),
        (lambda w: w["images"].append({"id": 99, "file_name": "b.jpg"}), "the image 'b.jpg' has no caption"),
    ],
)
def test_broken_annotations_are_named(change: Any, message: str, tmp_path: Path) -> None:
    data, images = write(tmp_path, VAL2017, "val2017")
    changed(data / VAL2017, change)
    with pytest.raises(DataError, match=message):
        COCO.load_rows(data, images)


def test_a_folder_of_both_benchmarks_or_of_none_is_refused(tmp_path: Path) -> None:
    data, images = write(tmp_path, VAL2017, "val2017")
    (data / KARPATHY).write_text("{}")
    with pytest.raises(DataError, match=r"holds dataset_coco\.json and captions_val2017\.json"):
        COCO.load_rows(data, images)
    with pytest.raises(DataError, match=r"holds none of dataset_flickr30k\.json"):
        FLICKR30K.load_rows(data, images)
    (data / FLICKR).write_text("[]")
    with pytest.raises(DataError, match="must be an object"):
        FLICKR30K.load_rows(data, images)


def test_the_released_test_part_of_karpathys_split_is_read_whole(tmp_path: Path) -> None:
    """5,000 images and 25,010 captions; ten images have six, of which the first five count."""
    data = released(FINE_GRAINED, "vision-language-models-are-bows")
    task = COCO.load_rows(data, tmp_path)
    assert isinstance(task, Rankings)
    rows = json.loads((data / "coco_karpathy_test.json").read_text())
    assert (len(rows), sum(len(row["caption"]) for row in rows)) == (5000, 25010)
    assert (len(task.images), len(task.texts)) == (5000, 25000)
    assert [text for (text,) in task.texts] == [text for row in rows for text in row["caption"][:5]]
    assert task.rows["direction"].value_counts().to_dict() == {"t2i": 25000, "i2t": 5000}
    assert [f"val2014/{name}" for name in task.rows["image_id"][:5000]] == [row["image"] for row in rows]


def test_a_released_file_of_cocos_annotations_is_read_whole(tmp_path: Path) -> None:
    data = released(COCO_MINI, "annotations")
    task = COCO.load_rows(data, tmp_path)
    assert isinstance(task, Rankings)
    whole = json.loads((data / "captions_val2017.json").read_text())
    assert (len(task.images), len(task.texts)) == (len(whole["images"]), 395) == (79, 395)
    names = {image["id"]: image["file_name"] for image in whole["images"]}
    captions = {(names[row["image_id"]], row["caption"]) for row in whole["annotations"]}
    to_image = task.rows[task.rows["direction"] == "t2i"]
    assert {(row.image_id, task.texts[row.query][0]) for row in to_image.itertuples()} == captions
