"""The trials of the fine-tuning log to the runs that the process which drives has made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stored_images import stored

from caramel import tables
from caramel.running import tracking
from caramel.training.finetune import MEASURED_BY, finetune

SETTINGS = {"steps": 2, "batch": 8, "lr": 0.001, "warmup": 1, "weight_decay": 0.1, "checkpoint_every": 2}


@pytest.fixture
def sets(drawn_world: Any, world: Any, tmp_path: Path) -> dict[str, str]:
    """Paths of a training table with all negatives, which two variants take; the images lie beside it."""
    source, written = world
    taken = drawn_world[1]
    negatives = written.negatives[written.negatives["subtype"] == "replace_obj"]
    rows = source.pairs.merge(negatives, on="pair_id").head(24)
    others = list(taken.files)[-len(rows) :]
    rows = rows.assign(negative_image_id=others, split=["train"] * 20 + ["val"] * 4)
    tables.write(
        tables.TRAINING, tables.frame(tables.TRAINING, rows.to_dict("records")), tmp_path / "set.parquet"
    )
    images = [{**row, "data": taken.files[row["image_id"]]} for row in taken.rows]
    stored(tmp_path / "images.parquet", images)
    return {name: str(tmp_path / "set.parquet") for name in ("in_batch", MEASURED_BY)}


def test_each_trial_logs_to_the_run_that_was_made_before_it(
    sets: dict[str, str], clip_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    curves = finetune(
        variants=["in_batch", MEASURED_BY],
        seeds=[3],
        base=str(clip_folder),
        sets=sets,
        validation=sets[MEASURED_BY],
        images=str(tmp_path / "images.parquet"),
        data=[],
        settings={**SETTINGS, "device": "cpu", "precision": "fp32"},
        executor="inline",
        folder=tmp_path / "trials",
        out=tmp_path / "out",
        root=tmp_path,
    )
    assert set(curves["model"]) == {"in_batch-3", f"{MEASURED_BY}-3"}
    client = mlflow.MlflowClient(tracking.tracking_uri(tmp_path))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(found) == {"finetune in_batch-3", f"finetune {MEASURED_BY}-3"}
    for run in found.values():
        assert run.info.status == "FINISHED"
        assert {"seed": "3", "steps": "2", "train_rows": "20"}.items() <= run.data.params.items()
        assert {"loss", "group", "kept_step"} <= set(run.data.metrics)
        assert {"stage": "finetune", "seed": "3"}.items() <= run.data.tags.items()
