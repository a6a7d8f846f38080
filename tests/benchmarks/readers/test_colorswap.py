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

from caramel.benchmarks.readers.colorswap import BENCHMARK, read_colorswap
from caramel.errors import DataError

ITEMS = pairs(30)
IMAGES, CAPTIONS = ("midjourney", "dalle"), ("human", "template", "gpt4")


def instances() -> list[Instance]:
    return [
        Instance(
            f"colorswap-{700 + n}",
            str(n),
            (f"image_source_{IMAGES[n % 2]}", f"caption_source_{CAPTIONS[n % 3]}"),
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
            "id": 700 + n,
            "caption_1": item.captions[0],
            "caption_2": item.captions[1],
            "image_source": IMAGES[n % 2],
            "caption_source": CAPTIONS[n % 3],
        }
        for n, item in enumerate(ITEMS)
    ]


def in_files(folder: Path) -> Path:
    named = []
    for n, (row, item) in enumerate(zip(rows(), ITEMS, strict=True)):
        names = [f"images/img_{700 + n}_{k}.png" for k in (1, 2)]
        write_images(folder, dict(zip(names, item.images, strict=True)))
        named.append({**row, "image_1": names[0], "image_2": names[1]})
    write_json(folder / "test.json", named)
    write_json(folder / "train.json", [{"id": 0}])
    return folder


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    cells = {f"image_{k + 1}": [(item.images[k], None) for item in ITEMS] for k in (0, 1)}
    write_parquet(tmp_path / "colorswap/data", rows(), cells)
    data = tmp_path / "colorswap"
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    assert metrics.set_index(["subset", "metric"])["ties"]["all", "group"] >= 2


@pytest.mark.parametrize("place", [".", "data"])
def test_the_form_with_files_is_the_same_benchmark(tmp_path: Path, families: None, place: str) -> None:
    in_files(tmp_path / "colorswap" / place)
    data = tmp_path / "colorswap"
    agree(BENCHMARK, data, data, instances(), DUAL, tmp_path / "store")


def test_the_training_split_is_left_alone(tmp_path: Path) -> None:
    cells = {f"image_{k + 1}": [(item.images[k], None) for item in ITEMS] for k in (0, 1)}
    write_parquet(tmp_path, rows(), cells, files=1)
    (tmp_path / "train-00000-of-00001.parquet").write_bytes(b"not looked at")
    assert len(read_colorswap(tmp_path, tmp_path).rows) == 30


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data = in_files(tmp_path)
    (data / "images/img_700_1.png").unlink()
    (data / "images/img_729_2.png").write_bytes(b"\x89PNG cut off")
    message = listed(BENCHMARK, data, data)
    assert "2 of 60 images are missing or corrupt" in message
    assert "img_700_1.png: missing" in message
    assert "img_729_2.png: corrupt" in message


def test_a_row_without_a_field_is_named(tmp_path: Path) -> None:
    data = in_files(tmp_path)
    write_json(data / "test.json", [{"id": 1, "image_1": "a", "image_2": "b", "caption_1": "c"}])
    with pytest.raises(DataError, match=r"test\.json', row 0 has no field 'caption_2'"):
        read_colorswap(data, data)


def test_an_id_that_is_no_number_is_named(tmp_path: Path) -> None:
    data = in_files(tmp_path)
    write_json(data / "test.json", [{"image_1": "a", "image_2": "b", "caption_1": "c", "caption_2": "d"}])
    with pytest.raises(DataError, match=r"row 0 has no field 'id'"):
        read_colorswap(data, data)


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)none of test-\*\.parquet, test\.json.*stanfordnlp/colorswap"):
        read_colorswap(tmp_path, tmp_path)
