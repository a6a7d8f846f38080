"""A store that was moved with its folder finds its artifacts again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from caramel.running import tracking
from caramel.running.tracking_store import store_in


@pytest.fixture
def tracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one run that has one artifact."""
    import mlflow

    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    project = tmp_path / "a project"
    project.mkdir()
    with tracking.run("n", key="k", params={}, root=project):
        mlflow.log_dict({"x": 1}, "config/x.json")
    return project


def content(folder: Path) -> str:
    """Return the artifact as MLflow finds it."""
    import mlflow

    client = mlflow.MlflowClient(store_in(folder / "mlruns"))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    (run,) = client.search_runs([experiment.experiment_id])
    return Path(client.download_artifacts(run.info.run_id, "config/x.json", str(folder))).read_text()


def places(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "mlruns" / "mlflow.db")) as store:
        found = store.execute("SELECT artifact_location FROM experiments UNION SELECT artifact_uri FROM runs")
        return sorted(place for (place,) in found)


@pytest.mark.parametrize("move", [shutil.move, shutil.copytree])
def test_a_store_that_was_moved_or_copied_has_the_artifacts_beside_it(
    move, tracked: Path, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    other = tmp_path / "else where"
    move(tracked, other)
    assert '"x": 1' in content(other)
    assert all(place.startswith((other / "mlruns").as_uri()) for place in places(other)[1:]), places(other)
    before = places(other)
    assert '"x": 1' in content(other)
    assert places(other) == before


def test_a_database_that_was_taken_away_from_its_artifacts_still_names_them(
    tracked: Path, tmp_path: Path
) -> None:
    other = tmp_path / "b"
    (other / "mlruns").mkdir(parents=True)
    for part in (tracked / "mlruns").glob("mlflow.db*"):
        shutil.copy(part, other / "mlruns")
    before = places(other)
    assert '"x": 1' in content(other)
    assert places(other) == before


def test_folders_whose_name_only_begins_alike_are_left_alone(tracked: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tracked / "mlruns" / "mlflow.db")) as store:
        near = f"{(tracked / 'mlruns' / 'artifacts').as_uri()}2/x"
        store.execute(
            "INSERT INTO experiments (name, artifact_location, lifecycle_stage) VALUES ('o', ?, 'active')",
            [near],
        )
        store.commit()
    other = tmp_path / "b"
    shutil.move(tracked, other)
    store_in(other / "mlruns")
    assert near in places(other)
