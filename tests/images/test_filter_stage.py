"""The stage ``filter_images`` as profile ``files`` has it: a CLIP judge whose threshold is calibrated."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from caramel import config, tables
from caramel.errors import DataError
from caramel.profile import write_profile

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(world, clip_folder, tmp_path, monkeypatch):
    """Return a function that runs a stage on the small world, all of whose images are of the val split."""
    source, written = world
    negatives = written.negatives.drop_duplicates("pair_id").head(20)
    drawn = source.images.head(20).assign(image_id=negatives["negative_id"].tolist())
    names = {"negative_id": drawn["image_id"], "image_id": drawn["image_id"], "candidate": 0, "seed": 1}
    candidates = drawn.assign(**names, generator="g", prompt="p")
    pairs = source.pairs.assign(split="val")
    for table, rows, path in (
        (tables.PAIRS, pairs, "refine/pairs"),
        (tables.NEGATIVES, written.negatives, "refine/negatives"),
        (tables.IMAGES, source.images, "scenes/images"),
        (tables.CANDIDATES, candidates, "synthesize/candidates"),
        (tables.IMAGES, drawn, "synthesize/images"),
    ):
        tables.write(table, tables.frame(table, rows), tmp_path / "data" / f"{path}.parquet")
    shutil.copytree(clip_folder, tmp_path / "data" / "base")
    shutil.copytree(ROOT / "params", tmp_path / "params")
    write_profile("files", {}, tmp_path)
    monkeypatch.chdir(tmp_path)

    def stage(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / "pipelines" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, name)(config.load())

    return stage


def test_profile_files_measures_its_threshold_and_says_what_it_reaches(run) -> None:
    run("filter_images")
    metrics = json.loads(Path("data/filter_images/metrics.json").read_text())
    asked, found = metrics["threshold"], metrics["threshold"]["calibration"]
    assert found["images"] == 110
    assert asked["min_faithful"] == found["threshold"]
    assert asked["faithful_from"] >= 0.5
    assert 0 < found["precision"] <= 1
    assert 0 < found["recall"] <= 1
    choices = tables.read(tables.CHOICES, "data/filter_images/choices.parquet")
    assert (choices.dropna(subset="chosen_by")["faithful"] >= found["threshold"]).all()


def test_too_few_images_to_measure_on_stop_the_gate_on_captions_before_anything_is_trained(run) -> None:
    pairs = tables.read(tables.PAIRS, "data/refine/pairs.parquet")
    tables.write(tables.PAIRS, pairs.assign(split="train"), "data/refine/pairs.parquet")
    with pytest.raises(DataError, match=r"cannot be calibrated on 0 images .* or a number in filter_images"):
        run("validate_captions")
