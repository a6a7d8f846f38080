import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from filelock import FileLock

from caramel.errors import DataError, ResourceError
from caramel.runtime.mlflow import store as tracking_store
from caramel.runtime.mlflow import tracking
from caramel.runtime.mlflow.system_metrics import SystemMonitor


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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

    client = mlflow.MlflowClient(tracking.get_tracking_uri(project))
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    return client.search_runs([experiment.experiment_id])


def test_a_run_names_the_data_set_version_and_the_commit(project) -> None:
    params = {"lr": 0.1, "nested": [1, 2]}
    with tracking.run("readable name", key="k", params=params, data=DATA):
        pass
    (found,) = runs(project)
    assert found.info.run_name == "readable name"
    assert found.info.status == "FINISHED"
    assert found.data.params == {"lr": "0.1", "nested": "[1, 2]"}
    assert "git.commit" in found.data.tags
    (used,) = found.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("data/scenes", "0123456789abcdef0123456789abcdef.dir")


def test_mlflows_pages_are_told_that_models_are_trained_also_in_a_store_that_is_older(project) -> None:
    import mlflow

    client = mlflow.MlflowClient(tracking.get_tracking_uri(project))
    name, kind = tracking.KIND
    for _ in range(2):
        tracking.plan_run("n", key="k", params={})
        experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
        assert experiment.tags[name] == kind
        client.delete_experiment_tag(experiment.experiment_id, name)


def test_a_run_of_an_experiment_of_dvc_says_its_name(project, monkeypatch) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "bulky-otter")
    with tracking.run("n", key="k", params={}):
        pass
    assert runs(project)[0].data.tags["dvc.experiment"] == "bulky-otter"


def test_runs_of_a_stage_in_one_experiment_have_one_parent(project, monkeypatch) -> None:
    monkeypatch.setenv("DVC_STAGE", "finetune")
    for name in ("", "bulky-otter"):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        for key in ("a", "b"):
            with tracking.run(key, key=f"{key} {name}", params={}):
                pass
    other = tracking.create_run(tracking.plan_run("c", key="c", params={}, tags={tracking.PARENT: "mine"}))
    found = {run.info.run_id: run for run in runs(project)}
    parents = {i: run for i, run in found.items() if run.data.tags.get("parent_of") == "finetune"}
    assert {run.info.run_name for run in parents.values()} == {
        "finetune at unknown",
        "finetune of bulky-otter",
    }
    assert {run.info.status for run in parents.values()} == {"FINISHED"}
    of = {
        (run.info.run_name, parents[run.data.tags[tracking.PARENT]].data.tags.get("dvc.experiment"))
        for i, run in found.items()
        if i not in parents and i != other
    }
    assert of == {(name, exp) for name in "ab" for exp in (None, "bulky-otter")}
    assert found[other].data.tags[tracking.PARENT] == "mine"


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


def test_a_run_that_the_store_fails_at_its_end_does_not_stay_open_in_its_process(
    project, monkeypatch
) -> None:
    import mlflow

    def fail(monitor) -> None:
        raise mlflow.MlflowException("no answer")

    def track_first() -> None:
        with tracking.run("first", key="a", params={}):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(SystemMonitor, "log_once", fail)
        with pytest.raises(mlflow.MlflowException, match="no answer"):
            track_first()
    with tracking.run("second", key="b", params={}):
        mlflow.log_metric("m", 1)
    assert {run.info.run_name: run.info.status for run in runs(project)} == {
        "first": "FAILED",
        "second": "FINISHED",
    }


def test_a_reopened_run_keeps_one_entry_per_data_set(project) -> None:
    for _ in range(2):
        with tracking.run("n", key="k", params={"a": 1}, data=DATA):
            pass
    (found,) = runs(project)
    assert len(found.inputs.dataset_inputs) == 1


def test_a_store_of_ones_own_can_be_named(project, monkeypatch) -> None:
    monkeypatch.setenv("CARAMEL_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking.get_tracking_uri(project) == "http://127.0.0.1:5000"


def test_runs_of_other_keys_are_other_runs(project) -> None:
    for key in ("a", "b"):
        with tracking.run("n", key=key, params={}):
            pass
    assert len(runs(project)) == 2


def test_the_store_lies_in_the_project_and_runs_in_write_ahead_mode(project) -> None:
    import sqlite3

    assert str(project / "mlruns" / "mlflow.db") in tracking.get_tracking_uri(project)
    with sqlite3.connect(project / "mlruns" / "mlflow.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_commit_with_changes_is_marked(tmp_path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    assert tracking.get_git_commit(tmp_path) == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    clean = tracking.get_git_commit(tmp_path)
    assert len(clean) == 40
    (tmp_path / "dvc.lock").write_text("a lock that a run of the pipeline wrote")
    git("add", "dvc.lock")
    assert tracking.get_git_commit(tmp_path) == clean
    (tmp_path / "file").write_text("2")
    assert tracking.get_git_commit(tmp_path) == f"{clean}-dirty"


def test_no_run_is_made_when_what_it_reads_cannot_be_named(project) -> None:
    (project / "dvc.lock").write_text("")
    with (
        pytest.raises(DataError, match="caramel doctor --fix"),
        tracking.run("n", key="k", params={}, data=DATA),
    ):
        raise AssertionError("must not run")
    assert runs(project) == []


def test_a_planned_run_is_created_when_its_work_begins_so_that_its_duration_is_that_of_the_work(
    project,
) -> None:
    import mlflow

    planned = tracking.plan_run("n", key="k", params={"a": 1}, data=DATA)
    assert runs(project) == []
    time.sleep(0.05)
    begun = time.time()
    with tracking.open_run(planned):
        mlflow.log_metric("m", 1.0)
    (found,) = runs(project)
    assert found.info.start_time >= int(1000 * begun)
    assert found.info.status == "FINISHED"
    assert {"mlflow.runName": "n", "caramel.key": "k"}.items() <= found.data.tags.items()
    assert (found.data.params, found.data.metrics["m"]) == ({"a": "1"}, 1.0)


def test_a_run_that_never_began_is_not_marked_as_killed_and_one_that_did_is(project) -> None:
    planned = tracking.plan_run("n", key="k", params={})
    tracking.end_planned_run(planned, "KILLED")
    assert runs(project) == []
    tracking.create_run(planned)
    tracking.end_planned_run(planned, "KILLED")
    assert [run.info.status for run in runs(project)] == ["KILLED"]


def fill(folder) -> None:
    with (folder / "filling").open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(2**20))


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_a_volume_that_cannot_take_runs_is_named_and_nothing_else_is_said(
    state, project, mount, capfd
) -> None:
    place = mount(project / "mlruns", 64)
    if state == "full":
        tracking.get_tracking_uri(project)
        fill(place)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    capfd.readouterr()
    with pytest.raises(ResourceError, match=f"its volume {place} "), tracking.run("n", key="k", params={}):
        raise AssertionError("must not run")
    assert capfd.readouterr() == ("", "")


def test_a_volume_that_fills_in_a_run_is_named_without_the_librarys_traceback(project, mount, capfd) -> None:
    import mlflow

    place = mount(project / "mlruns", 40)

    def fills() -> None:
        with tracking.run("n", key="k", params={}):
            fill(place)
            for step in range(200):
                mlflow.log_metrics({f"m{i}": float(i) for i in range(100)}, step=step)

    with pytest.raises(
        ResourceError, match=f"Run 'n' cannot be tracked: .*its volume {place} has 0 MiB free"
    ):
        fills()
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"this is no database", "is broken: file is not a database")]
)
def test_a_store_that_was_cut_is_an_error_not_a_new_store(content, said, project) -> None:
    database = project / "mlruns" / "mlflow.db"
    database.parent.mkdir()
    database.write_bytes(content)
    with pytest.raises(DataError, match=f"{said}.* The runs that it held are gone"):
        tracking.get_tracking_uri(project)
    assert database.read_bytes() == content


def test_a_store_that_is_damaged_in_a_run_is_named_with_its_cure(project, capfd) -> None:
    import mlflow

    database = project / "mlruns" / "mlflow.db"

    def is_damaged() -> None:
        with tracking.run("n", key="k", params={}):
            with closing(sqlite3.connect(database)) as store:
                store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with database.open("r+b") as stream:
                stream.seek(4096)  # behind the page that says it is a database
                stream.write(b"\0" * (database.stat().st_size - 4096))
            mlflow.log_metric("m", 1.0)

    with pytest.raises(
        DataError, match=r"is broken: database disk image is malformed\. .*mlflow\.db\.broken"
    ):
        is_damaged()
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_new_store_takes_nothing_from_the_log_of_one_that_was_moved_away(project) -> None:
    database = project / "mlruns" / "mlflow.db"
    database.parent.mkdir()
    with closing(sqlite3.connect(database)) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.execute("CREATE TABLE old (x)")
        old.commit()
        left, log = database.read_bytes(), database.with_name("mlflow.db-wal").read_bytes()
    database.unlink()
    database.with_name("mlflow.db.broken").write_bytes(left)
    database.with_name("mlflow.db-wal").write_bytes(log)  # as a killed process leaves it
    tracking.get_tracking_uri(project)
    with closing(sqlite3.connect(database)) as new:
        names = {name for (name,) in new.execute("SELECT name FROM sqlite_master")}
    assert "runs" in names
    assert "old" not in names
    with closing(sqlite3.connect(database.with_name("mlflow.db.broken"))) as moved:
        assert moved.execute("SELECT name FROM sqlite_master").fetchall() == [("old",)], "its log is lost"


def test_a_lock_that_another_process_does_not_let_go_of_is_named(project, monkeypatch) -> None:
    monkeypatch.setattr(tracking_store, "LOCK_WAIT", 0.1)
    tracking.get_tracking_uri(project)
    for lock in (project / "mlruns" / "mlflow.db.lock", project / "work" / "locks" / "runs.lock"):
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock), pytest.raises(ResourceError, match=f"held the lock {lock} for .*fuser"):
            tracking.run("n", key="k", params={}).__enter__()


def test_runs_of_a_store_of_ones_own_write_nothing_to_mlruns(project, monkeypatch) -> None:
    monkeypatch.setenv("CARAMEL_TRACKING_URI", f"sqlite:///{project}/elsewhere.db")
    with tracking.run("n", key="k", params={}):
        pass
    assert not (project / "mlruns").exists()


def test_a_run_of_data_that_dvc_does_not_track_needs_no_lock_file_of_dvc(project) -> None:
    (project / "dvc.lock").write_text("[]")
    with tracking.run("n", key="k", params={}):
        pass
    assert len(runs(project)) == 1


def tracked_in_a_repository(root: Path) -> bytes:
    """Run a stage that tracks a run, as a process of its own, in a repository of one commit; return what was tracked."""
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.fsmonitor=false")
    subprocess.run(["git", "-C", str(root), *author, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    script = root / "stage.py"
    script.write_text(
        "from caramel.runtime.mlflow import tracking\n"
        "with tracking.run('n', key='k', params={'a': 1}, root='.'):\n    pass\n"
    )
    environment = os.environ | {"DVC_STAGE": "stage"}
    subprocess.run([sys.executable, str(script)], cwd=root, env=environment, check=True, timeout=300)
    return b"".join(path.read_bytes() for path in (root / "mlruns").rglob("*") if path.is_file())


def test_the_password_of_the_git_remote_is_not_in_a_tracked_run(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    url = "https://me:ghp_planted@git.example/x.git"
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", url], check=True)
    content = tracked_in_a_repository(tmp_path)
    assert b"https://git.example/x.git" in content
    assert b"ghp_planted" not in content


def test_a_tracked_run_has_the_commit_and_runs_no_program_that_the_repository_names(tmp_path: Path) -> None:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    with (root / ".git" / "config").open("a") as stream:
        stream.write(f"[core]\n\tfsmonitor = touch {tmp_path}/ran\n")
    content = tracked_in_a_repository(root)
    head = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, check=True)
    assert content.count(head.stdout.strip()) >= 2  # git.commit, and mlflow.source.git.commit
    assert not (tmp_path / "ran").exists()
