import json
from pathlib import Path

import pytest
from published import DUAL, MATCHER, Instance, agree, listed, pairs, with_nan, write_images, write_json
from released import COLA, released

from caramel.benchmarks.readers.cola import BENCHMARK, FILE, read_cola
from caramel.errors import DataError

ITEMS = pairs(40, "JPEG")
LINK = "https://cs-people.bu.edu/array/data/vg_gqa_images/"


def instances() -> list[Instance]:
    """Return instances of which two have the same first image."""
    return [
        Instance(
            f"cola-{n}",
            str(n % 39),
            (),
            ITEMS[n % 39].images[0],
            item.captions[0],
            item.captions[1],
            negative_image=item.images[1],
        )
        for n, item in enumerate(ITEMS)
    ]


def release(data: Path, images: Path) -> Path:
    rows = []
    for n, item in enumerate(ITEMS):
        names = f"{2_000_000 + n % 39}.jpg", f"{3_000_000 + n}.jpg"
        write_images(images, {names[0]: ITEMS[n % 39].images[0], names[1]: item.images[1]})
        rows.append([LINK + names[0], item.captions[0], LINK + names[1], item.captions[1]])
    write_json(data / FILE, rows)
    return data


@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "cola/data", tmp_path / "cola/images").parent
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    assert set(metrics["metric"]) == {"t2i"}
    assert metrics["ties"].iloc[0] >= 1


def test_the_images_of_visual_genome_are_found_by_their_names(tmp_path: Path) -> None:
    data = release(tmp_path / "cola", tmp_path / "genome")
    task = read_cola(data, tmp_path / "genome")
    assert all(Path(image.path).is_file() for image in task.images)
    assert task.rows["image_id"][0] == "2000000.jpg"


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data = release(tmp_path, tmp_path / "images")
    (data / "images/2000004.jpg").unlink()
    (data / "images/3000010.jpg").write_bytes(b"no picture")
    message = listed(BENCHMARK, data, data)
    assert "2 of 79 images are missing or corrupt" in message
    assert "2000004.jpg: missing" in message
    assert "3000010.jpg: corrupt" in message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image": "a"}, r"row 0 must be a list of image 1, caption 1, image 2, caption 2"),
        (["a.jpg", "a cat", "b.jpg"], r"row 0 must be a list of image 1"),
        (["a.jpg", "a cat", "b.jpg", None], r"row 0: field 'caption 2' must be text"),
        ([1, "a cat", "b.jpg", "a dog"], r"row 0: field 'image 1' must be text"),
    ],
)
def test_a_row_of_another_form_is_named(tmp_path: Path, row: object, message: str) -> None:
    write_json(tmp_path / FILE, [row])
    with pytest.raises(DataError, match=message):
        read_cola(tmp_path, tmp_path)


def test_a_folder_without_the_file_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of COLA_multiobjects.*arijitray1993/COLA"):
        read_cola(tmp_path, tmp_path)


def test_the_released_file_has_210_pairs_in_the_order_of_their_images(tmp_path: Path) -> None:
    data = released(COLA, "data")
    task = BENCHMARK.load_rows(data.parent, tmp_path)
    rows = json.loads((data / "COLA_multiobjects_matching_benchmark.json").read_text())
    assert len(task.rows) == len(rows) == 210
    names = [Path(image.path).name for image in task.images]
    for (first, caption, second, other), row in zip(rows, task.rows.itertuples(), strict=True):
        assert (row.caption, row.negative_caption) == (caption, other)
        assert first.endswith(f"/{names[row.image]}")
        assert second.endswith(f"/{names[row.negative_image]}")
