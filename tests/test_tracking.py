import subprocess

import pytest

from caramel import tracking


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    (tmp_path / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  scenes:\n    cmd: x\n    outs:\n"
        "    - path: data/scenes\n      md5: 0123456789abcdef0123456789abcdef.dir\n"
    )
    return tmp_path


DATA = ["data/scenes/pairs.parquet", "unknown"]


def runs(project):
    import mlflow

    client = mlflow.MlflowClient(tracking.tracking_uri(project))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    return client.search_runs([experiment.experiment_id])


def test_a_run_names_the_data_set_version_and_the_commit(project) -> None:
    params = {"lr": 0.1, "nested": [1, 2]}
    with tracking.run("readable name", key="k", params=params, data=DATA, workspace=project):
        pass
    (found,) = runs(project)
    assert found.info.run_name == "readable name"
    assert found.info.status == "FINISHED"
    assert found.data.params == {"lr": "0.1", "nested": "[1, 2]"}
    assert "git.commit" in found.data.tags
    (used,) = found.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("data/scenes", "0123456789abcdef0123456789abcdef.dir")


def test_a_killed_run_is_reopened_not_doubled(project) -> None:
    import mlflow

    def killed() -> None:
        with tracking.run("n", key="k", params={}):
            mlflow.log_metric("m", 1, step=1)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    with tracking.run("n", key="k", params={}):
        mlflow.log_metric("m", 2, step=2)
    (found,) = runs(project)
    assert found.info.status == "FINISHED"
    assert found.data.metrics["m"] == 2


def test_a_reopened_run_keeps_one_entry_per_data_set(project) -> None:
    for _ in range(2):
        with tracking.run("n", key="k", params={"a": 1}, data=DATA, workspace=project):
            pass
    (found,) = runs(project)
    assert len(found.inputs.dataset_inputs) == 1


def test_a_store_of_ones_own_can_be_named(project, monkeypatch) -> None:
    monkeypatch.setenv("CARAMEL_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking.tracking_uri(project) == "http://127.0.0.1:5000"


def test_runs_of_other_keys_are_other_runs(project) -> None:
    for key in ("a", "b"):
        with tracking.run("n", key=key, params={}):
            pass
    assert len(runs(project)) == 2


def test_the_store_lies_in_the_project_and_runs_in_write_ahead_mode(project) -> None:
    import sqlite3

    assert str(project / "mlruns" / "mlflow.db") in tracking.tracking_uri(project)
    with sqlite3.connect(project / "mlruns" / "mlflow.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_commit_with_changes_is_marked(tmp_path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    assert tracking.git_commit(tmp_path) == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    clean = tracking.git_commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "dvc.lock").write_text("a lock that a run of the pipeline wrote")
    git("add", "dvc.lock")
    assert tracking.git_commit(tmp_path) == clean
    (tmp_path / "file").write_text("2")
    assert tracking.git_commit(tmp_path) == f"{clean}-dirty"
