from pathlib import Path

import pandas as pd
import pytest
from encoders import CountingEncoder
from test_instances import images, instance

from caramel import tables
from caramel.errors import BackendError, DataError
from caramel.evaluation import grid
from caramel.evaluation.summary import DIFFERENCE_COLUMNS, VARIANT_COLUMNS

SETTINGS = {
    "split": "test",
    "batch": 8,
    "bootstrap": 100,
    "seed": 0,
    "device": "cpu",
    "precision": "fp32",
    "executor": "inline",
    "folder": "work/evaluate",
}
TUNED = [("in_batch", 1), ("in_batch", 2)]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace with 12 test instances, 2 others, and checkpoints that hold only a name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    rows = [instance(n, split="test" if n < 12 else "val") for n in range(14)]
    tables.write(tables.INSTANCES, tables.frame(tables.INSTANCES, rows), grid.INSTANCES)
    tables.write(tables.IMAGES, images(), grid.IMAGES)
    for name in ("base", *(f"finetune/{v}-{s}" for v, s in TUNED)):
        Path("data", name).mkdir(parents=True)
        Path("data", name, "weights").write_text(name)
    return tmp_path


def load(folder: str, *, device: str, precision: str, name: str) -> CountingEncoder:
    """Stand in for ``load_encoder``: a model whose vectors depend on its name."""
    assert Path(folder, "weights").read_text().endswith(name)
    return CountingEncoder(name, width=16 + len(name))


def test_every_model_is_scored_on_the_split_and_has_its_run(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "load_encoder", load)
    found = grid.evaluate_models(TUNED, **SETTINGS)
    assert found.similarities["model"].unique().tolist() == ["base", "in_batch-1", "in_batch-2"]
    assert len(found.similarities) == 3 * 12
    tables.check(tables.METRICS, found.metrics, "test")
    assert tuple(found.variants.columns) == VARIANT_COLUMNS
    assert tuple(found.differences.columns) == DIFFERENCE_COLUMNS

    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{workspace}/mlruns/mlflow.db")
    runs = mlflow.search_runs(experiment_names=["caramel"]).set_index("tags.mlflow.runName")
    assert sorted(runs.index) == ["evaluate base", "evaluate in_batch-1", "evaluate in_batch-2"]
    run = runs.loc["evaluate in_batch-2"]
    assert (run["tags.variant"], run["tags.seed"], run["status"]) == ("in_batch", "2", "FINISHED")
    expected = grid.overall(found.metrics[found.metrics["model"] == "in_batch-2"])
    assert run["metrics.group/all"] == pytest.approx(expected["group"], abs=1e-6)
    assert run["metrics.i2t/swap_obj"] == pytest.approx(expected["i2t"], abs=1e-6)
    assert (workspace / "mlruns/artifacts" / run["run_id"] / "artifacts/subtypes.png").exists()

    def refuse(*_: object, **__: object) -> CountingEncoder:
        raise AssertionError("a finished trial was run again")

    monkeypatch.setattr(grid, "load_encoder", refuse)
    again = grid.evaluate_models(TUNED, **SETTINGS)
    pd.testing.assert_frame_equal(again.metrics, found.metrics)
    pd.testing.assert_frame_equal(again.differences, found.differences)


def test_a_split_without_instances_says_so(workspace: Path) -> None:
    with pytest.raises(DataError, match="No instance of split 'train'"):
        grid.evaluate_models(TUNED, **{**SETTINGS, "split": "train"})


def test_a_missing_checkpoint_is_named(workspace: Path) -> None:
    with pytest.raises(BackendError, match=r"'negative_texts-1'.*data/finetune/negative_texts-1"):
        grid.evaluate_models([("negative_texts", 1)], **SETTINGS)
