"""A history is copied whole, to a server and back, and a second call copies only what is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from commands import call_command, run_command
from tracking_servers import PASSWORD, USER, Served

from caramel.errors import ConfigError, DataError, ResourceError
from caramel.runtime.mlflow import artifacts, store_copy, tracking
from caramel.runtime.mlflow.killed_runs import ENDED, PROCESS
from caramel.runtime.mlflow.store import get_store_uri
from caramel.runtime.mlflow.store_copy import ORIGIN, STATE, copy_history


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a finished run, one that failed and one that still runs; tests copy it."""
    root = tmp_path_factory.mktemp("logged")
    (root / "dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  s:\n    cmd: x\n    outs:\n    - path: data/s\n      md5: "
        + "0" * 32
        + ".dir\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CARAMEL_TRACKING_URI", raising=False)
        parent = write(root, "done")
        write(root, "failed", {tracking.PARENT: parent})
        tracking.create_run(tracking.plan_run("waiting", key="waiting", params={"a": "é"}, root=root))
    return root


@pytest.fixture
def history(logged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder ``mlruns`` of a copy, with its artifacts."""
    monkeypatch.delenv("CARAMEL_TRACKING_URI", raising=False)
    mlruns = Path(shutil.copytree(logged, tmp_path / "first")) / "mlruns"
    get_store_uri(mlruns)  # which writes into its database where the artifacts are now
    return mlruns


def write(root: Path, name: str, tags: Mapping[str, str] = MappingProxyType({})) -> str:
    """Log a run with all that a run can have; return its id."""
    import mlflow
    from mlflow.entities import Metric

    with (
        contextlib.chdir(root),
        tracking.run(
            name,
            key=name,
            params={"lr": 0.1},
            data=["data/s"],
            tags={"stage": "x", **tags},
            root=root,
        ) as run,
    ):
        client = mlflow.MlflowClient()
        points = [Metric("loss/train", 1.0 / (n + 1), 1000 + n, n) for n in range(1200)]
        points += [Metric("odd", value, 7, 3) for value in (1.0, 2.0, float("nan"))]
        client.log_batch(run.info.run_id, metrics=points)
        mlflow.log_dict({"x": name}, "config/deep/x.json")
        mlflow.log_text(name, "note.txt")
    if name == "failed":
        client.set_terminated(run.info.run_id, "FAILED")
    return str(run.info.run_id)


def told(place: str, run_id: str | None = None) -> dict[str, Any]:
    """Return all that a store holds of each run, by its name."""
    import mlflow

    client = mlflow.MlflowClient(place if "://" in place else get_store_uri(Path(place)))
    found = {}
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    runs = client.search_runs([experiment.experiment_id])
    names = {run.info.run_id: run.info.run_name for run in runs}
    for run in runs:
        files = {
            path: Path(client.download_artifacts(run.info.run_id, path)).read_bytes()
            for path, _ in artifacts._iter_files(client, run.info.run_id)
        }
        history = {
            key: sorted(
                (m.step, m.timestamp, str(m.value)) for m in client.get_metric_history(run.info.run_id, key)
            )
            for key in run.data.metrics
        }
        inputs = [
            (i.dataset.name, i.dataset.digest, i.dataset.source, [t.value for t in i.tags])
            for i in run.inputs.dataset_inputs
        ]
        tags = {key: value for key, value in run.data.tags.items() if key not in (ORIGIN, STATE, PROCESS)}
        tags |= {tracking.PARENT: names[tags[tracking.PARENT]]} if tracking.PARENT in tags else {}
        info = (run.info.status, run.info.start_time, run.info.end_time)
        found[run.info.run_name] = (info, run.data.params, tags, history, inputs, files)
    return found


def test_a_history_is_copied_whole_and_a_second_call_copies_nothing(history: Path, tmp_path: Path) -> None:
    target = tmp_path / "second"
    assert copy_history(str(history), str(target)) == (3, 3, 0, [], [])
    assert told(str(target)) == told(str(history))
    assert told(str(target))["failed"][2][tracking.PARENT] == "done"
    assert len(told(str(target))["done"][3]["loss/train"]) == 1200
    assert copy_history(str(history), str(target)) == (3, 0, 0, [], [])
    shutil.rmtree(history)
    assert told(str(target))["done"][5]["note.txt"] == b"done"


def test_a_copy_is_not_taken_for_a_run_of_the_originals_process(history: Path, tmp_path: Path) -> None:
    with tracking.open_store(history.parent) as (client, experiment):
        run_id = client.search_runs([experiment], "attributes.run_name = 'waiting'")[0].info.run_id
        client.set_tag(
            run_id, PROCESS, client.get_run(run_id).data.tags[PROCESS].replace('"boot": "', '"boot": "x')
        )
    (tmp_path / "second").mkdir()
    copy_history(str(history), str(tmp_path / "second" / "mlruns"))
    assert tracking.end_killed_runs(tmp_path / "second") == 0
    assert tracking.end_killed_runs(history.parent) == 1
    copy_history(str(history), str(tmp_path / "second" / "mlruns"))
    ((status, *_), _, tags, *_) = told(str(tmp_path / "second" / "mlruns"))["waiting"]
    assert status == "KILLED"
    assert not {PROCESS, ENDED} & tags.keys()


def test_a_run_that_a_later_commit_took_up_stands_under_the_younger_parent_in_the_copy_as_well(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_STAGE", "x")
    monkeypatch.chdir(history.parent)
    tracking.create_run(tracking.plan_run("done", key="done", params={"lr": 0.1}, root=history.parent))
    assert copy_history(str(history), str(tmp_path / "second")).created == 4
    assert told(str(tmp_path / "second"))["done"][2][tracking.PARENT] == "x at unknown"


def test_a_copy_that_was_stopped_goes_on_and_what_was_logged_since_is_added(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copied = str(tmp_path / "second"), store_copy.copy_artifacts

    def killed(*arguments: Any) -> None:
        copied(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(store_copy, "copy_artifacts", killed)
    with pytest.raises(KeyboardInterrupt):
        copy_history(str(history), target)
    monkeypatch.setattr(store_copy, "copy_artifacts", copied)
    assert copy_history(str(history), target) == (3, 2, 1, [], [])
    assert told(target) == told(str(history))
    write(history.parent, "waiting")
    assert copy_history(str(history), target) == (3, 0, 1, [], [])
    assert told(target) == told(str(history))


def test_what_is_copied_back_is_the_run_that_it_came_from(history: Path, tmp_path: Path) -> None:
    target = tmp_path / "second"
    copy_history(str(history), str(target))
    before = told(str(history))
    assert copy_history(str(target), str(history)) == (3, 0, 0, [], [])
    assert told(str(history)) == before
    third = tmp_path / "third"
    copy_history(str(target), str(third))
    assert copy_history(str(history), str(third)) == (3, 0, 0, [], [])


def test_runs_that_go_on_after_they_were_copied_go_on_in_the_copy(history: Path, tmp_path: Path) -> None:
    target = tmp_path / "second" / "mlruns"
    target.parent.mkdir()
    copy_history(str(history), str(target))
    with tracking.run("done", key="done", params={"lr": 0.1}, root=target.parent):
        pass
    assert len(told(str(target))) == 3


def test_artifacts_that_are_not_there_are_named_and_copied_by_a_later_call(
    history: Path, tmp_path: Path
) -> None:
    target, hidden = tmp_path / "second", tmp_path / "hidden"
    (history / "artifacts").rename(hidden)
    done = copy_history(str(history), str(target))
    assert (done.created, done.lost) == (3, [(history / "artifacts").as_uri()])
    hidden.rename(history / "artifacts")
    assert copy_history(str(history), str(target)) == (3, 0, 3, [], [])
    assert told(str(target)) == told(str(history))


def test_files_that_cannot_be_read_are_left_out_and_listed_and_all_others_are_copied(
    history: Path, tmp_path: Path
) -> None:
    folder = next(history.rglob("note.txt")).parent
    (folder / "dangling").symlink_to("nowhere")
    (folder / "outside").symlink_to("/etc/hostname")
    (folder / "inside").symlink_to("note.txt")
    (folder / "round").symlink_to(folder.parent)
    (folder / os.fsdecode(b"latin-\xe9")).write_text("x")
    (folder / f"{artifacts.UPLOADING}x").write_text("half")
    os.mkfifo(folder / "fifo")
    for copy in (run_command, call_command):  # a process of its own writes the odd names to a real stream
        done = copy(history.parent, "tracking", "copy", "mlruns", "../second")
        assert done.returncode == 1
        listed = dict(
            line[4:].rsplit(": ", 1) for line in done.stderr.splitlines() if line.startswith("  - ")
        )
        assert {Path(path).name.partition("-")[0]: reason for path, reason in listed.items()} == {
            "dangling": "is a link to nothing",
            "outside": "leads out of the folder that is copied",
            "round": "is no file",
            "latin": "has a name that is not in UTF-8",
            "fifo": "is no file",
        }
        assert done.stderr.splitlines()[-1].startswith(
            "Error: Files or folders of artifacts that were not copied: 5."
        )
    copies = told(str(tmp_path / "second"))
    assert [sorted(run[5]) for run in copies.values() if "inside" in run[5]] == [
        ["config/deep/x.json", "inside", "note.txt"]
    ]
    assert sum("note.txt" in run[5] for run in copies.values()) == 2
    for path in folder.iterdir():
        if path.name not in ("note.txt", "config", "inside"):
            path.unlink()
    assert call_command(history.parent, "tracking", "copy", "mlruns", "../second").returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_this_user_may_not_read_is_left_out(tmp_path: Path) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).write_text("x")
    (tmp_path / "closed").chmod(0)
    left = [f"{tmp_path}/closed: Permission denied"]
    assert artifacts.list_local_files(tmp_path, None) == ({"open": 1}, left)


def test_what_cannot_be_copied_is_told(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caramel.runtime.mlflow.server.PAUSES", ())
    with pytest.raises(DataError, match=r"no store of runs to copy in '.*nowhere'.*Give an mlruns/ folder"):
        copy_history(str(tmp_path / "nowhere"), str(history))
    with pytest.raises(ConfigError, match="are the same store"):
        copy_history(str(history), f"{history}/../mlruns")
    with pytest.raises(ConfigError, match="'htp://h' is not the address"):
        copy_history(str(history), "htp://h")
    with pytest.raises(ResourceError, match=r"The MLflow server at 'http://127.0.0.1:9' cannot be used now"):
        copy_history(str(history), "http://127.0.0.1:9")


def test_a_history_goes_to_a_server_and_back(
    history: Path, tmp_path: Path, tracking_servers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    moved = tmp_path / "moved"
    shutil.move(history, moved)
    url = tracking_servers.server.url
    assert copy_history(str(moved), url)[1:] == (3, 0, [], [])
    mine = told(str(moved))
    there = told(url)
    assert {name: there[name] for name in mine} == mine
    assert copy_history(str(moved), url)[1:] == (0, 0, [], [])
    back = tmp_path / "back"
    there_now = copy_history(url, str(back)).runs
    again = told(str(back))
    assert {name: again[name] for name in mine} == mine
    assert copy_history(url, str(moved))[:2] == (there_now, there_now - 3)


def test_a_run_is_copied_one_time_where_the_answer_to_its_making_breaks_off(
    history: Path, tracking_servers: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    write(history.parent, "new to the server")
    gate = tracking_servers.gate
    gate.break_off(b"/runs/create")
    url = f"http://127.0.0.1:{gate.port}"
    assert copy_history(str(history), url).created >= 1
    assert gate.broken == b"/runs/create"
    client = mlflow.MlflowClient(url)
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    origins = [run.info.run_id for run in mlflow.MlflowClient(get_store_uri(history)).search_runs(["1"])]
    assert len(origins) == 4
    for origin in origins:
        wanted, every = f"tags.`{ORIGIN}` = '{origin}'", mlflow.entities.ViewType.ALL
        assert len(client.search_runs([experiment.experiment_id], wanted, run_view_type=every)) == 1


@pytest.mark.parametrize(
    ("store", "uri", "said"),
    [
        ("http://store.example.org:5000", "file://{home}", "is a path of this machine"),
        ("http://store.example.org:5000", "{home}", "is a path of this machine"),
        ("http://store.example.org:5000", "mlflow-artifacts://evil.example.org/1", "lies at another server"),
        ("http://store.example.org:5000", "http://store.example.org:5001/1", "lies at another server"),
        ("http://127.0.0.1:5000", "https://me:s3cret@evil.example.org/1", "lies at another server"),
        ("sqlite:///a.db", "mlflow-artifacts://evil.example.org/1", "lies at another server"),
        ("http://store.example.org:5000", "runs:/1/of_a_path", "is another run or model"),
        ("http://store.example.org:5000", "Models:/m-1", "is another run or model"),
        ("http://store.example.org:5000", "http://evil.example.org:99999/1", "is no address"),
    ],
)
def test_a_server_names_neither_files_of_this_machine_nor_who_gets_the_password(
    store: str, uri: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "id_rsa").write_text("mine")
    run = SimpleNamespace(info=SimpleNamespace(run_id="1", artifact_uri=uri.format(home=tmp_path)))
    theirs, ours = (SimpleNamespace(tracking_uri=place) for place in (store, "http://127.0.0.1:9"))
    (line,) = artifacts.copy_artifacts(theirs, ours, run, "2", None)  # type: ignore[arg-type]
    assert said in line
    assert "s3cret" not in line


@pytest.mark.parametrize(
    ("store", "uri"),
    [
        ("http://store.example.org", "mlflow-artifacts:/1/artifacts"),
        (
            "http://me:pw@store.example.org:5000",
            "http://store.example.org:5000/api/2.0/mlflow-artifacts/artifacts/1",
        ),
        ("http://store.example.org", "s3://bucket/1"),
        ("http://localhost:5000", "file:///srv/mlruns/1"),
        ("http://[::1]:5000", "/srv/mlruns/1"),
        ("postgresql://host/runs", "/srv/mlruns/1"),
    ],
)
def test_artifacts_of_a_stores_own_are_none_of_others(store: str, uri: str) -> None:
    assert artifacts.explain_foreign(uri, store) == ""
