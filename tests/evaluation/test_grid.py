import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from stored_images import stored

from caramel.benchmarks.readers.zero_shot import has_content
from caramel.errors import BackendError, DataError
from caramel.evaluation import grid
from caramel.evaluation.grid import BenchmarkSelection
from caramel.evaluation.results.comparison import DIFFERENCE_COLUMNS
from caramel.evaluation.results.summary import VARIANT_COLUMNS, select_overall_metrics, summarise_variants
from caramel.interfaces.settings import Compute, Execution
from caramel.schemas.contracts import check_table
from caramel.schemas.evaluation import METRICS
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world.scenes import Scene, SceneObject
from caramel.utils.resampling import Bootstrap

BENCHMARKS = BenchmarkSelection(
    split="test", names=(), data=None, images=None, retrieval_images=4, zero_shot="folder", seed=0
)
SETTINGS: dict[str, Any] = {
    "models": [],
    "benchmarks": BENCHMARKS,
    "allow_unmentioned_objects": False,
    "compute": Compute("cpu", "fp32"),
    "batch_size": 8,
    "bootstrap": Bootstrap(100, 0),
    "execution": Execution("inline", Path("work/evaluate"), 1.0),
}
TUNED = [("infonce", 1), ("infonce", 2)]


def instance(number: int, split: str) -> dict[str, object]:
    """Return an instance with both images and a paraphrase."""
    return {
        "instance_id": f"p{number}:swap_obj",
        "image_id": f"image{number % 3}",
        "caption": f"caption {number}",
        "caption2": f"paraphrase {number}",
        "negative_caption": f"negative {number}",
        "negative_image_id": f"image{3 + number % 3}",
        "type": "swap",
        "subtype": "swap_obj",
        "split": split,
    }


def images() -> list[dict[str, object]]:
    """Return six small pictures, as ``stored`` takes them."""
    rows = []
    for number in range(6):
        file = io.BytesIO()
        Image.new("RGB", (4, 4), (40 * number, 0, 0)).save(file, "PNG")
        row = {"image_id": f"image{number}", "data": file.getvalue(), "width": 4, "height": 4}
        rows.append({**row, "source": "test", "split": "test"})
    return rows


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, families: None) -> Path:
    """Return a workspace with 12 test instances, 2 others, and checkpoints that hold only a name."""
    from caramel import registry

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    Path("folder").mkdir()
    Path("folder", "README.md").touch()
    monkeypatch.setitem(registry.FAMILIES.targets, "open_clip", "test_grid:LOADED")
    rows = [instance(n, "test" if n < 12 else "val") for n in range(14)]
    folder = Path(grid.ASSEMBLED)
    write_table(INSTANCES, build_frame(INSTANCES, rows), folder / "instances.parquet")
    stored(folder / "images.parquet", images())
    scene = Scene((SceneObject("ball", "red", "small", 0, 0),), "white").to_json()
    pairs = [
        {"pair_id": f"p{n}", "image_id": f"image{n}", "caption": f"caption {n // 2}", "scene": scene}
        for n in range(6)
    ]
    pairs = [{**pair, "split": "test", "source": "world"} for pair in pairs]
    write_table(PAIRS, build_frame(PAIRS, pairs), Path(grid.SCENES, "pairs.parquet"))
    stored(Path(grid.SCENES, "images.parquet"), images())
    for n, name in enumerate(("base", *(f"finetune/{v}-{s}" for v, s in TUNED))):
        Path("data", name).mkdir(parents=True)
        Path("data", name, "weights").write_text(name)
        save_file({"w": torch.full((4,), 2.0 + n), "logit_scale": torch.tensor(n)}, weights_of(name))
    return tmp_path


def weights_of(name: str) -> Path:
    return Path("data", name, "open_clip_model.safetensors")


def load(target: str, *, device: str, precision: str, name: str) -> encoders.CountingEncoder:
    """Stand in for the loader of checkpoints: a model whose vectors depend on its name."""
    assert Path(target, "weights").read_text().endswith(name)
    return encoders.CountingEncoder(name, alike=alike(name))


class Refusing(encoders.CountingEncoder):
    """Its vectors are in the store."""

    def _vectors(self, items: object) -> npt.NDArray[np.float32]:
        raise AssertionError("a finished trial was run again")


def refuse(target: str, *, device: str, precision: str, name: str) -> encoders.CountingEncoder:
    return Refusing(name, alike=alike(name))


def alike(name: str) -> dict[str, str]:
    """Return texts that models take for others, each model for its own."""
    return {f"caption {n}": f"{name} {n}" for n in range(12)}


LOADED, REFUSED = encoders.family("open_clip", load), encoders.family("open_clip", refuse)


def evaluate(tuned: Sequence[tuple[str, int]], **settings: Any) -> grid.EvaluationTables:
    """Score and compare the models, as the stage does."""
    unmentioned = settings.pop("allow_unmentioned_objects")
    scored = grid.score_models(tuned, **settings)
    del settings["models"], settings["benchmarks"]
    return grid.compare_models(scored, allow_unmentioned_objects=unmentioned, **settings)


def test_every_model_is_scored_on_the_split_and_has_its_run(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = evaluate(TUNED, **SETTINGS)
    assert found.similarities["model"].unique().tolist() == ["base", "infonce-1", "infonce-2"]
    assert (found.similarities["benchmark"] == "instances").sum() == 3 * 12
    check_table(METRICS, found.metrics, "test")
    assert tuple(found.variants.columns) == VARIANT_COLUMNS
    assert tuple(found.differences.columns) == DIFFERENCE_COLUMNS

    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{workspace}/mlruns/mlflow.db")
    runs = mlflow.search_runs(experiment_names=["caramel"]).set_index("tags.mlflow.runName")
    models = ("base", "infonce-1", "infonce-2")
    forms = ("", " on held_out_retrieval", " on world_classes")
    of_models = [f"evaluate {model}{form}" for model in models for form in forms]
    assert sorted(runs.index) == sorted([*of_models, "evaluate infonce"])
    above = runs.loc["evaluate infonce"]
    ours = runs.loc[[name for name in of_models if "infonce" in name]]
    assert {*ours["tags.mlflow.parentRunId"]} == {above["run_id"]}
    run = runs.loc["evaluate infonce-2"]
    assert (run["tags.variant"], run["tags.seed"], run["status"]) == ("infonce", "2", "FINISHED")
    mine = found.metrics[found.metrics["benchmark"] == "instances"]
    expected = select_overall_metrics(mine[mine["model"] == "infonce-2"])
    assert run["metrics.uncertainty.group.ci_low"] <= run["metrics.group"]
    assert run["metrics.system/system_memory_usage_megabytes"] > 0
    artifacts = workspace / "mlruns/artifacts" / run["run_id"] / "artifacts"
    by_subset = pd.read_csv(artifacts / "subsets.csv").set_index(["metric", "subset"])["value"]
    assert by_subset["group", "all"] == pytest.approx(expected["group"], abs=1e-6)
    assert by_subset["i2t", "swap_obj"] == pytest.approx(expected["i2t"], abs=1e-6)
    assert run["metrics.group"] == by_subset["group", "without_add"]
    assert (artifacts / "subsets.png").exists()

    from caramel import registry
    from caramel.models.specs import open_model

    monkeypatch.setitem(registry.FAMILIES.targets, "open_clip", "test_grid:REFUSED")
    open_model.cache_clear()
    again = evaluate(TUNED, **SETTINGS)
    pd.testing.assert_frame_equal(again.metrics, found.metrics)
    pd.testing.assert_frame_equal(again.differences, found.differences)


@pytest.mark.usefixtures("empty_figure")
def test_what_a_model_kept_stands_beside_how_far_it_went_from_the_base(workspace: Path) -> None:
    found = evaluate(TUNED, **SETTINGS)
    kept = found.retained.pivot(index="model", columns="measure", values="value")
    assert kept.loc["base", ["weights", "images", "texts"]].tolist() == pytest.approx([0, 1, 1])
    assert kept["weights"].round(6).tolist() == [0, 0.5, 1]  # of 2: 3 and 4; the temperature does not count
    metrics = found.metrics.set_index(["model", "benchmark", "metric", "subset"])["value"]
    assert kept.loc["infonce-2", "t2i_5"] == metrics["infonce-2", "held_out_retrieval", "recall@5", "t2i"]
    assert kept.loc["infonce-1", "classes"] == metrics["infonce-1", "world_classes", "recall@1", "macro"]
    assert "zero_shot" not in kept


@pytest.mark.usefixtures("empty_figure")
def test_classes_of_a_folder_of_images_are_measured_too(workspace: Path) -> None:
    Path("folder", ".DS_Store").touch()
    assert not has_content(Path("folder"))
    for name in ("red", "blue"):
        Path("folder", name).mkdir(parents=True)
        Image.new("RGB", (4, 4), name).save(Path("folder", name, "1.png"))
    found = evaluate(TUNED, **SETTINGS)
    assert (found.retained["measure"] == "zero_shot").sum() == 3


@pytest.mark.usefixtures("empty_figure")
def test_further_models_and_benchmarks_are_scored_but_not_compared_as_variants(
    workspace: Path,
) -> None:
    found = evaluate(TUNED, **{**SETTINGS, "models": ["other=counting:8"]})
    assert set(found.similarities["model"]) == {"base", "infonce-1", "infonce-2", "other"}
    assert set(found.differences["a"]) | set(found.differences["b"]) == {"base", "infonce"}


@pytest.mark.usefixtures("empty_figure")
def test_the_benchmark_is_scored_in_its_other_form_too_where_there_is_one(workspace: Path) -> None:
    folder = Path(grid.ASSEMBLED)
    rows = read_table(INSTANCES, folder / "instances.parquet")
    swapped = rows.rename(columns={"image_id": "negative_image_id", "negative_image_id": "image_id"})
    write_table(INSTANCES, build_frame(INSTANCES, swapped), folder / "instances_source.parquet")
    found = evaluate(TUNED, **SETTINGS)
    assert {"instances", "instances_source"} <= set(found.metrics["benchmark"])
    assert (found.similarities["benchmark"] == "instances").sum() == 3 * 12
    alone = found.metrics[found.metrics["benchmark"] == "instances"]
    assert found.variants.equals(summarise_variants(alone))
    assert {*found.bounds["benchmark"]} == {"instances", "instances_source"}
    of_group = found.differences[found.differences["metric"] == "group"]
    values = of_group.pivot(index="subset", columns="benchmark", values="difference")
    between = values["instances"] - values["instances_source"]
    pd.testing.assert_series_equal(values["instances − instances_source"], between, check_names=False)


def test_a_split_without_instances_says_so(workspace: Path) -> None:
    with pytest.raises(DataError, match="No pair of split 'train'"):
        evaluate(TUNED, **{**SETTINGS, "benchmarks": replace(BENCHMARKS, split="train")})


def test_a_missing_checkpoint_is_named(workspace: Path) -> None:
    with pytest.raises(BackendError, match=r"'trohn_text-1'.*data/finetune/trohn_text-1"):
        evaluate([("trohn_text", 1)], **SETTINGS)
