import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from published import DUAL, MATCHER, Instance, agree, listed, pairs, with_nan, write_images, write_json

from caramel.benchmarks.readers.eqben import BENCHMARK, FILES, TO_PNG, read_eqben
from caramel.errors import DataError

PARTS = ("eqbenag", "eqbengebc", "eqbenkubric_attr", "eqbenkubric_cnt", "eqbenkubric_loc", "eqbensd")
ITEMS = pairs(36)


def name(n: int, k: int) -> str:
    return f"{PARTS[n % 6]}/scene_{n}/frame_{k}.png"


def instances() -> list[Instance]:
    return [
        Instance(
            f"eqben-{n}",
            str(n),
            (PARTS[n % 6],),
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
            "image0": name(n, 0),
            "caption0": item.captions[0],
            "image1": name(n, 1),
            "caption1": item.captions[1],
        }
        for n, item in enumerate(ITEMS)
    ]


def release(data: Path, images: Path, file: str) -> Path:
    for n, item in enumerate(ITEMS):
        write_images(images, {name(n, k): item.images[k] for k in (0, 1)})
    write_json(data / file, rows())
    return data


@pytest.mark.parametrize(("file", "place"), zip(FILES, ("images", "image_subset"), strict=True))
@pytest.mark.parametrize("spec", [DUAL, MATCHER])
def test_every_instance_is_judged_as_published(
    tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch, spec: str, file: str, place: str
) -> None:
    with_nan(monkeypatch)
    data = release(tmp_path / "eqben", tmp_path / "eqben" / place, file)
    metrics, verdicts = agree(BENCHMARK, data, data, instances(), spec, tmp_path / "store")
    assert {True, False} <= verdicts
    assert (None in verdicts) == (spec == MATCHER)
    assert set(metrics["subset"]) == {"all", *PARTS}
    assert metrics.set_index(["subset", "metric"])["ties"]["all", "group"] >= 2


def test_frames_that_are_arrays_are_to_be_written_as_pictures_first(tmp_path: Path, families: None) -> None:
    item = ITEMS[0]
    folder = tmp_path / "eqben/images"
    for k in (0, 1):
        path = folder / f"eqbenyoucook2/a b/{k}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.asarray(Image.open(io.BytesIO(item.images[k])).convert("RGB"))
        np.save(path, pixels[:, :, ::-1])  # blue, green, red, as the release has them
    write_json(
        tmp_path / "eqben/all_select.json",
        [
            {
                "image0": "eqbenyoucook2/a b/0.npy",
                "caption0": "whisk the eggs",
                "image1": "eqbenyoucook2/a b/1.npy",
                "caption1": "pour the eggs",
            }
        ],
    )
    with pytest.raises(DataError, match="is an array, not an image") as error:
        read_eqben(tmp_path / "eqben", tmp_path / "eqben")
    command = str(error.value).splitlines()[-1].strip()
    assert command == f"python -c \"{TO_PNG}\" '{folder}'"
    subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
    for k in (0, 1):
        written = np.asarray(Image.open(folder / f"eqbenyoucook2/a b/{k}.png"))
        assert np.array_equal(written, np.asarray(Image.open(io.BytesIO(item.images[k])).convert("RGB")))
    files = [(folder / f"eqbenyoucook2/a b/{k}.png").read_bytes() for k in (0, 1)]
    wanted = Instance(
        "eqben-0",
        "0",
        ("eqbenyoucook2",),
        files[0],
        "whisk the eggs",
        "pour the eggs",
        negative_image=files[1],
    )
    agree(BENCHMARK, tmp_path / "eqben", tmp_path / "eqben", [wanted], DUAL, tmp_path / "store")


def test_all_images_that_are_missing_or_broken_are_listed_at_once(tmp_path: Path) -> None:
    data = release(tmp_path, tmp_path / "images", FILES[0])
    (data / "images" / name(0, 1)).unlink()
    (data / "images" / name(35, 0)).write_bytes(b"no picture")
    message = listed(BENCHMARK, data, data)
    assert "2 of 72 images are missing or corrupt" in message
    assert f"{name(0, 1)}: missing" in message
    assert f"{name(35, 0)}: corrupt" in message


def test_two_data_sets_in_one_folder_are_not_mixed(tmp_path: Path) -> None:
    for file in FILES:
        release(tmp_path, tmp_path / "images", file)
    with pytest.raises(DataError, match="two data sets"):
        read_eqben(tmp_path, tmp_path)


def test_a_row_with_a_wrong_field_is_named(tmp_path: Path) -> None:
    data = release(tmp_path, tmp_path / "images", FILES[1])
    write_json(data / FILES[1], [{**rows()[0], "caption1": ["a list"]}])
    with pytest.raises(DataError, match=r"10percent_final\.json', row 0: field 'caption1' must be text"):
        read_eqben(data, data)


def test_the_annotation_of_single_pairs_is_not_taken_for_instances(tmp_path: Path) -> None:
    write_json(tmp_path / FILES[0], [{"image": "eqbenag/a.png", "caption": "a man"}])
    with pytest.raises(DataError, match=r"row 0 has no field 'image0'"):
        read_eqben(tmp_path, tmp_path)


def test_a_folder_without_the_files_is_told_how_it_should_look(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)holds none of all_select\.json.*Wangt-CN/EqBen"):
        read_eqben(tmp_path, tmp_path)


def test_a_folder_in_place_of_the_file_is_no_release(tmp_path: Path) -> None:
    (tmp_path / "all_select.json").mkdir()
    with pytest.raises(DataError, match=r"holds none of all_select\.json"):
        read_eqben(tmp_path, tmp_path)
