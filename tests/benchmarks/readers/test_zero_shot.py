"""Zero-shot classification: folders of images, judged one image at a time."""

import json
import os
import re
from pathlib import Path

import pytest
from published_b import SPECS, Verdict, agrees, draw, is_telling, know_failing, score_of, scored, verdict

from caramel import cli
from caramel.benchmarks.image_files import check_images
from caramel.benchmarks.readers.zero_shot import BENCHMARK, TEMPLATES
from caramel.errors import DataError
from caramel.interfaces.benchmark import Rankings

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
    assert set(rows["n_candidates"]) == {7}


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
    task = BENCHMARK.load_rows(write(tmp_path), tmp_path)
    assert isinstance(task, Rankings)
    assert [len(text) for text in task.texts] == [7] * 7
    assert ("itap of a great white shark.", "a bad photo of the great white shark.") in [
        text[:2] for text in task.texts
    ]
    assert all(template.count("{}") == 1 for template in TEMPLATES)


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "n99").mkdir()
    with pytest.raises(DataError, match=r"1 class folders have no image .*\n.*n99"):
        BENCHMARK.load_rows(data, data)


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
        BENCHMARK.load_rows(data, data)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a photo of a {}.\na photo\n", r"the template 'a photo' has no {}"), ("\n \n", "it has no template")],
)
def test_broken_templates_are_told(text: str, message: str, tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "templates.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        BENCHMARK.load_rows(data, data)


def test_folders_without_classes_are_told_the_layout(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    with pytest.raises(DataError, match=r"at least two classes\. Expected layout:\n  zero_shot/<class>"):
        BENCHMARK.load_rows(tmp_path, tmp_path / "nowhere")


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    data = write(tmp_path)
    (data / "n02" / "1.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 of 23 images .*\n.*n02/1\.png: corrupt"):
        check_images(BENCHMARK.load_rows(data, data).images, "zero_shot")


def test_a_file_name_that_is_no_unicode_is_told(tmp_path: Path) -> None:
    data = write(tmp_path)
    try:
        (data / "n05" / os.fsdecode(b"caf\xe9.png")).touch()
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(DataError, match="field 'file name' contains half a surrogate pair"):
        BENCHMARK.load_rows(data, data)


def test_a_colon_is_part_of_a_folders_name(tmp_path: Path) -> None:
    for name in ("n:1", "n:2"):
        draw(tmp_path / name / "0.png", 1)
    task = BENCHMARK.load_rows(tmp_path, tmp_path)
    assert len(task.images) == 2


# Names of folders as data sets have them -> whether they are words.
FOLDER_NAMES = {
    "n01440764": False,  # ImageNet
    "N02123045": False,
    "n02085620-Chihuahua": False,  # Stanford Dogs
    "n02085620_Chihuahua": False,
    "a00217728": False,
    "0": False,  # CIFAR, MNIST
    "0017": False,
    "747-400": False,
    "001.Black_footed_Albatross": False,  # CUB
    "class_7": False,
    "Label 12": False,
    "cls3": False,
    "id-4": False,
    "m_0bt9lr": False,  # Open Images
    "golden_retriever": True,
    "Golden Retriever": True,
    "AnnualCrop": True,  # EuroSAT
    "A": True,  # letters of a sign language
    "A320": True,
    "C-130": True,
    "n01": True,
    "nv00000001x": True,
    "2012_bmw": True,
    "class_of_its_own": True,
    "犬": True,
    "tench, Tinca tinca": True,
}


@pytest.mark.parametrize("name", FOLDER_NAMES)
def test_a_folder_whose_name_is_no_word_is_refused_until_its_name_is_stated(
    name: str, tmp_path: Path
) -> None:
    for number, folder in enumerate((name, "cat")):
        draw(tmp_path / folder / "0.png", number)
    if FOLDER_NAMES[name]:
        task = BENCHMARK.load_rows(tmp_path, tmp_path)
        assert f"itap of a {name.replace('_', ' ')}." in [text[0] for text in task.texts]
        return
    with pytest.raises(
        DataError, match=rf"1 class folders are named by ids.*\n  - '{re.escape(name)}'\n.*classes\.json"
    ):
        BENCHMARK.load_rows(tmp_path, tmp_path)
    (tmp_path / "classes.json").write_text(json.dumps({name: "tench", "cat": "cat"}))
    assert "itap of a tench." in [text[0] for text in BENCHMARK.load_rows(tmp_path, tmp_path).texts]


def test_a_number_is_a_name_where_it_is_stated_and_an_id_of_wordnet_never_is(tmp_path: Path) -> None:
    for number, folder in enumerate(("0", "1")):
        draw(tmp_path / folder / "0.png", number)
    (tmp_path / "classes.json").write_text(json.dumps({"0": "0", "1": "1"}))
    assert [text[0] for text in BENCHMARK.load_rows(tmp_path, tmp_path).texts] == [
        "itap of a 0.",
        "itap of a 1.",
    ]
    (tmp_path / "classes.json").write_text(json.dumps({"0": "n01440764", "1": "goldfish"}))
    with pytest.raises(DataError, match=r"classes\.json' gives 1 WordNet ids as names.*\n  - 'n01440764'"):
        BENCHMARK.load_rows(tmp_path, tmp_path)


def test_the_command_refuses_ids_before_any_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, folder in enumerate(("n01440764", "n01443537")):
        draw(tmp_path / "zero_shot" / folder / "0.png", number)
    places = ["--data", str(tmp_path), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        cli.main(["eval", "--model", "ViT-B-32:openai", "--benchmark", "zero_shot", *places, "--dry-run"])
    assert ended.value.code != 0
    said = "".join(capsys.readouterr())
    assert "named by ids, which are not words" in said
    assert "n01440764" in said
