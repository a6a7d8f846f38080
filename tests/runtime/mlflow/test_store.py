"""A store that was moved with its folder finds its artifacts again."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from caramel.doctor import versions
from caramel.errors import ConfigError
from caramel.runtime.mlflow import tracking
from caramel.runtime.mlflow.store import count_runs, get_store_uri


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

    client = mlflow.MlflowClient(get_store_uri(folder / "mlruns"))
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


NAMES = (
    "my project é",
    "a?b",
    "a%41b%",
    "a#b",
    "a&b=c;d",
    "q'u\"o`$x",
    "new\nline",
    "a@b:c",
    "-rf +",
    "x" * 200,
)


def test_a_store_is_in_its_folder_whatever_that_is_called_and_heals_where_it_is_moved(
    tracked: Path, tmp_path: Path
) -> None:
    """One store goes from name to name: nothing is made beside it, and it finds its artifacts each time."""
    other = tmp_path / "other"
    other.mkdir()
    project = tracked
    for name in NAMES:
        project = project.rename(other / name)
        assert '"x": 1' in content(project)
        with tracking.run("n", key="k", params={}, root=project) as run:
            run_id = run.info.run_id
        assert (
            tracking.open_client(get_store_uri(project / "mlruns")).get_run(run_id).info.status == "FINISHED"
        )
        assert places(project)[-1].startswith((project / "mlruns").as_uri())
        assert [path.name for path in other.iterdir()] == [name]
        assert {path.name for path in tmp_path.iterdir()} == {"other"}


def test_a_new_store_is_made_in_a_folder_of_an_odd_name(tmp_path: Path) -> None:
    project = tmp_path / "a?b%41#c"
    project.mkdir()
    assert get_store_uri(project / "mlruns").startswith("sqlite+pysqlite:///")
    assert count_runs(project / "mlruns" / "mlflow.db") == (0, 0)
    assert [path.name for path in tmp_path.iterdir()] == [project.name]


def test_a_path_that_no_uri_can_say_is_an_error_that_says_what_to_do_also_of_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    project = tmp_path / os.fsdecode(b"latin \xe9")
    project.mkdir()
    with pytest.raises(
        ConfigError, match=r"cannot be tracked in .*\\udce9.*Rename the folder, or set CARAMEL_TRACKING_URI"
    ):
        get_store_uri(project / "mlruns")
    assert not list((project / "mlruns").glob("*.db"))
    finding = versions.check_mlflow(project)
    assert (finding.state, "Rename the folder" in finding.text) == ("FAIL", True)


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
    get_store_uri(other / "mlruns")
    assert near in places(other)


def test_a_store_without_columns_of_mlflows_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    (tmp_path / "mlruns").mkdir()
    with closing(sqlite3.connect(tmp_path / "mlruns" / "mlflow.db")) as store:
        store.execute("CREATE TABLE runs (run_uuid TEXT, status TEXT)")
        store.execute("INSERT INTO runs VALUES ('a', 'FINISHED')")
        store.commit()
    command = "from caramel.runtime.mlflow import tracking; tracking.open_store(__import__('pathlib').Path()).__enter__()"
    done = subprocess.run(  # in a process of its own, whose MLflow makes its tables itself
        [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "DataError: The store of runs" in done.stderr
    assert "mlflow.db was not written by MLflow: no such column: runs." in done.stderr
