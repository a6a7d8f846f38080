"""Zero-shot classification: folders of images, judged one image at a time."""

import json
import os
from pathlib import Path

import pytest
from published_b import SPECS, Verdict, agrees, draw, is_telling, know_failing, score_of, scored, verdict

from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.readers.zero_shot import BENCHMARK, TEMPLATES
from caramel.errors import DataError
from caramel.kinds.benchmark import Rankings

FOLDERS = {"n01": 4, "n02": 3, "great_white_shark": 5, "n04": 2, "n05": 3, "n06": 4, "n07": 2}
NAMES = {"n01": "crane", "n02": "tench", "great_white_shark": "shark", "n04": "crane"}
NAMES |= {"n05": "hen", "n06": "stingray", "n07": "jay"}


def write(folder: Path) -> Path:
    """Write classes of images of some formats, and files that are none."""
    seed = 0
    for name, count in FOLDERS.items():
        for k in range(count):
            draw(folder / name / f"{k}{('.jpg', '.png', '.JPEG')[k % 3]}", seed := seed + 1)
        (folder / name / "notes.txt").write_text("no image")
    (folder / ".cache").mkdir()
    return folder


def oracle(images: Path, names: dict[str, str], templates: tuple[str, ...], spec: str) -> list[Verdict]:
    """The class whose prompts, averaged, score highest."""
    score, found = score_of(spec), []
    for folder in sorted(FOLDERS):
        for file in sorted((images / folder).iterdir()):
            if file.suffix == ".txt":
                continue
            scores = {
                other: score(file.read_bytes(), [t.replace("{}", names[other]) for t in templates])
                for other in FOLDERS
            }
            false = [value for other, value in scores.items() if other != folder]
            found.append(verdict(f"{folder}/{file.name}", [], [scores[folder]], false))
    return found


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("inside_data", [True, False])
def test_images_are_classified_by_named_classes_and_given_templates(
    spec: str, inside_data: bool, tmp_path: Path, families: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_failing(monkeypatch)
    data, images = tmp_path / "data", tmp_path / "images"
    data.mkdir()
    where = write(data if inside_data else images)
    (data / "classes.json").write_text(json.dumps(NAMES))
    (data / "templates.txt").write_text("a photo of a {}.\n\n  the {}, a kind of {}\n")
    expected = oracle(where, NAMES, ("a photo of a {}.", "the {}, a kind of {}"), spec)
    is_telling(expected, spec)
    assert all(v.before != 0 for v in expected if v.cluster[:3] in ("n01", "n04"))  # both are called crane
    rows = scored(BENCHMARK, data, images, spec, tmp_path / "store")
    agrees(rows, BENCHMARK, expected)
    assert set(rows["candidates"]) == {7}


@pytest.mark.parametrize("spec", ["counting:4", "matching:8"])
@pytest.mark.parametrize("templates", [TEMPLATES, ("just {}",)])
def test_folders_name_the_classes_and_templates_are_averaged(
    spec: str, templates: tuple[str, ...], tmp_path: Path, families: None
) -> None:
    data = write(tmp_path / "data")
    if templates != TEMPLATES:
        (data / "templates.txt").write_text("\n".join(templates))
    names = {folder: folder.replace("_", " ") for folder in FOLDERS}
    expected = oracle(data, names, templates, spec)
    is_telling(expected, spec)
    agrees(scored(BENCHMARK, data, data, spec, tmp_path / "store"), BENCHMARK, expected)


def test_the_default_templates_are_seven_with_one_place_each(tmp_path: Path) -> None:
    task = BENCHMARK.read(write(tmp_path), tmp_path)
    assert isinstance(task, Rankings)
    assert [len(text) for text in task.texts] == [7] * 7
    assert ("itap of a great white shark.", "a bad photo of the great white shark.") in [
        text[:2] for text in task.texts
    ]
    assert all(template.count("{}") == 1 for template in TEMPLATES)


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "n99").mkdir()
    with pytest.raises(DataError, match=r"1 class folders hold no image .*\n.*n99"):
        BENCHMARK.read(data, data)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "must be an object"),
        ({k: v for k, v in NAMES.items() if k != "n05"}, "differ in 1 classes:\n  - 'n05'"),
        ({**NAMES, "n99": "dodo"}, "differ in 1 classes:\n  - 'n99'"),
        ({**NAMES, "n05": ""}, "field 'n05' must be text that is not empty"),
    ],
)
def test_names_that_do_not_fit_are_told(names: object, message: str, tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "classes.json").write_text(json.dumps(names))
    with pytest.raises(DataError, match=message):
        BENCHMARK.read(data, data)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a photo of a {}.\na photo\n", r"the template 'a photo' has no {}"), ("\n \n", "there is no template")],
)
def test_broken_templates_are_told(text: str, message: str, tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "templates.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        BENCHMARK.read(data, data)


def test_folders_without_classes_are_told_the_layout(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    with pytest.raises(DataError, match=r"at least two classes\. Expected layout:\n  zero_shot/<class>"):
        BENCHMARK.read(tmp_path, tmp_path / "nowhere")


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "n02" / "1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 of 23 images .*\n.*n02/1\.png: corrupt"):
        check_images(BENCHMARK.read(data, data).images, "zero_shot")


def test_a_file_name_that_is_no_unicode_is_told(tmp_path: Path) -> None:
    data = write(tmp_path)
    try:
        (data / "n05" / os.fsdecode(b"caf\xe9.png")).touch()
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(DataError, match="field 'file name' holds half a surrogate pair"):
        BENCHMARK.read(data, data)


def test_a_colon_is_part_of_a_folders_name(tmp_path: Path) -> None:
    for name in ("n:1", "n:2"):
        draw(tmp_path / name / "0.png", 1)
    task = BENCHMARK.read(tmp_path, tmp_path)
    assert len(task.images) == 2
