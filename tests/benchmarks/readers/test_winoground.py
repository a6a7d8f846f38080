from pathlib import Path

import pytest
from published import (
    DUAL,
    MATCHER,
    Instance,
    agree,
    listed,
    pairs,
    with_nan,
    write_images,
    write_json,
    write_parquet,
)

from caramel.benchmarks.readers.winoground import BENCHMARK, read_winoground
from caramel.errors import DataError

COUNT = 40
ITEMS = pairs(COUNT)
TAGS = ("Object", "Relation", "Both")


def instances() -> list[Instance]:
    return [
        Instance(
            f"winoground-{n}",
            str(n),
            (TAGS[n % 3].lower(), f"main_preds_{1 + n % 2}"),
            item.images[0],
            item.captions[0],
            item.captions[1],
            negative_image=item.images[1],
        )
        for n, item in enumerate(ITEMS)
    ]


def rows() -> list[dict[str, object]]:
    return [
        {
            "id": n,
            "caption_0": item.captions[0],
            "caption_1": item.captions[1],
            "tag": "Noun",
            "secondary_tag": "",
            "num_main_preds": 1 + n % 2,
            "collapsed_tag": TAGS[n % 3],
        }
        for n, item in enumerate(ITEMS)
    ]


def in_parquet(folder: Path) -> Path:
    cells = {
        f"image_{k}": [(item.images[k], f"ex_{n}_img_{k}.png") for n, item in enumerate(ITEMS)]
        for k in (0, 1)
    }
    write_parquet(folder, rows(), cells, files=1)
    return folder


def in_files(folder: Path, images: Path | None = None) -> Path:
    names = [{f"image_{k}": f"ex_{n}_img_{k}" for k in (0, 1)} for n in range(COUNT)]
    write_json(folder / "examples.jsonl", [{**row, **name} for row, name in zip(rows(), names, strict=True)])
    for n, item in enumerate(ITEMS):
        files = {f"ex_{n}_img_{k}.png": item.images[k] for k in (0, 1)}
        write_images(images or folder / "images", files)
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = in_parquet(tmp_path / "winoground/data").parent
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    shown = metrics.set_index(["subset", "metric"])
    assert shown["ties"]["all", "i2t"] >= 1
    assert shown["ties"]["all", "t2i"] >= 1


def test_the_older_form_is_the_same_benchmark(tmp_path: Path, families: None) -> None:
    data = in_files(tmp_path / "winoground")
    agree(BENCHMARK, data, data, instances(), DUAL, tmp_path / "store")


@pytest.mark.parametrize("place", ["images", "images/images", "winoground/data/images"])
def test_the_images_are_found_where_they_were_unpacked(tmp_path: Path, place: str) -> None:
    in_files(tmp_path / "winoground/data", tmp_path / place)
    task = read_winoground(tmp_path / "winoground", tmp_path / "images")
    assert all(Path(image.path).is_file() for image in task.images)
    assert task.rows["image_id"][7] == "ex_7_img_0.png"


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data = in_files(tmp_path)
    for n in range(3):
        (data / f"images/ex_{n}_img_0.png").unlink()
    (data / "images/ex_30_img_1.png").write_bytes(b"no picture")
    message = listed(BENCHMARK, data, data)
    assert "4 of 80 images are missing or corrupt" in message
    for name in ("ex_0_img_0", "ex_1_img_0", "ex_2_img_0"):
        assert f"{name}.png: missing" in message
    assert "ex_30_img_1.png: corrupt" in message


def test_tags_may_be_left_out(tmp_path: Path) -> None:
    bare = [{name: row[name] for name in ("id", "caption_0", "caption_1")} for row in rows()]
    cells = [(item.images[0], None) for item in ITEMS]
    write_parquet(tmp_path, bare, {"image_0": cells, "image_1": cells}, files=1)
    assert set(map(tuple, read_winoground(tmp_path, tmp_path).rows["subsets"])) == {()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "x"}, r"line 1: field 'id' must be a whole number, not 'x'"),
        ({"caption_1": ""}, r"line 1: field 'caption_1' must be text that is not empty"),
        ({"image_0": 3}, r"line 1: field 'image_0' must be text"),
        ({"num_main_preds": 1.5}, r"line 1: field 'num_main_preds' must be a whole number, not 1.5"),
        ({"collapsed_tag": []}, r"line 1: field 'collapsed_tag' must be text"),
    ],
)
def test_a_row_with_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    images = {"image_0": "a", "image_1": "b"}
    write_json(tmp_path / "examples.jsonl", [{**rows()[0], **images, **changes}])
    with pytest.raises(DataError, match=message):
        read_winoground(tmp_path, tmp_path)


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "examples.jsonl", [["a", "b"]])
    with pytest.raises(DataError, match=r"line 1 must be an object with fields"):
        read_winoground(tmp_path, tmp_path)


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"(?s)none of test-\*\.parquet, examples\.jsonl.*facebook/winoground"
    ):
        read_winoground(tmp_path, tmp_path)
