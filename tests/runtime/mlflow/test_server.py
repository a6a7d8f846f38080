"""A tracking server is looked for before work begins; what restarts in the middle of runs loses nothing."""

from __future__ import annotations

import dataclasses
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tracking_servers import PASSWORD, USER, Served, free_port, impostor, send_body

from caramel.errors import CaramelError, ConfigError, ResourceError
from caramel.release.pin_file import Pin
from caramel.release.runs import list_runs
from caramel.runtime.mlflow import http, retry, tracking
from caramel.runtime.mlflow import server as tracking_server
from caramel.runtime.mlflow.retry import retry_on_race, translate_errors
from caramel.runtime.mlflow.server import (
    NAME,
    explain_error,
    get_server_environment,
    get_tracking_server,
    require_server,
)
from caramel.runtime.mlflow.store_copy import copy_history
from caramel.training.tracked import log_curve

EXPERIMENTS = '{"experiments": [{"experiment_id": "0", "name": "Default"}]}'
LOCK = """schema: '2.0'
stages:
  scenes:
    cmd: x
    outs:
    - path: data/scenes
      md5: 0123456789abcdef0123456789abcdef.dir
"""


DEEP = "[" * 100_000
FOREIGN = (
    "{}",
    '{"experiments": []}',
    '{"status": "ok"}',
    "[]",
    "null",
    '"experiments"',
    '{"experiments": {"0": {}}}',
    '{"experiments": [{"experiment_id": 0, "name": "Default"}]}',
    '{"experiments": [{"experiment_id": "", "name": ""}]}',
    '{"experiments": ' + DEEP,
    "<" * 100_000,
    "\x00\ufffd",
)
# Of servers that pass for one at first: replies to whatever is asked.
JUNK = (
    (200, "{}"),
    (200, "[]"),
    (200, DEEP),
    (200, '{"experiment": 5, "experiments": 5, "runs": 5, "run": [], "experiment_id": {}}'),
    (
        200,
        '{"experiment": {"experiment_id": "1", "name": "caramel", "lifecycle_stage": "active"}, "experiment_id": "1"}',
    ),
    (200, '{"experiments": [{"experiment_id": "1"}], "next_page_token": "x"}'),
    (400, '{"error_code": {}, "message": {}}'),
    (500, '{"error_code": [1], "message": null}'),
    (404, '{"error_code": 1e999}'),
    (302, "elsewhere"),
    (418, "\x00<b>"),
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, where MLflow asks again sooner than it would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    for name in tracking_server.LOGIN:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "dvc.lock").write_text(LOCK)
    return tmp_path


@pytest.fixture
def served(project: Path, tracking_servers: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """The server, as this project's."""
    monkeypatch.setenv(NAME, f"http://127.0.0.1:{tracking_servers.gate.port}")
    monkeypatch.setenv(tracking_server.LOGIN[0], USER)
    monkeypatch.setenv(tracking_server.LOGIN[1], PASSWORD)
    return tracking_servers


class Scripted(ThreadingHTTPServer):
    """Answers with (status, text), one after the other, and the last one for ever."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        left = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def answers(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Return a function that names a server which gives these answers."""
    made: list[Scripted] = []
    monkeypatch.setattr(tracking_server, "PAUSES", (0.0, 0.0))

    def serve(*replies: tuple[int, str]) -> None:
        made.append(Scripted(*replies))
        monkeypatch.setenv(NAME, f"http://127.0.0.1:{made[-1].server_port}")

    yield serve
    for server in made:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "address",
    ["localhost:5000", "htp://h:5000", "http://", "http://h:port", "http://h:99999", "mlruns", "file:///x"],
)
def test_an_address_with_a_typo_is_told_before_anything_runs(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, address)
    with pytest.raises(
        ConfigError, match=f"{NAME}='{address}' is not the address of an MLflow server. Give http://"
    ):
        require_server()


@pytest.mark.parametrize("address", ["", "sqlite:////tmp/x.db", "postgresql+psycopg2://u:p@h/db"])
def test_a_database_is_no_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, address)
    assert get_tracking_server() == ""
    require_server()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql+unknown://me:planted@h/db", "Can't load plugin"),
        ("mysql+absent+driver://me:planted@h/db", "too many values"),
        ("mysql+asyncmy://me:planted@h/db", "No module named 'asyncmy'"),
        ("sqlite+pysqlite://me:plan/ted@h:port/db", "invalid literal"),
    ],
)
def test_a_database_without_its_driver_is_told_without_its_password(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's own error is a traceback that ends with the whole address."""
    monkeypatch.setenv(NAME, address)
    with pytest.raises(ConfigError, match=f"database at {NAME}.* cannot be opened: .*{said}") as raised:
        require_server()
    assert "plan" not in str(raised.value)


def test_a_server_that_is_not_there_is_told_in_seconds_without_its_password(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv(NAME, f"http://me:secret@127.0.0.1:{port}/")
    start = time.monotonic()
    with pytest.raises(
        ResourceError, match=rf"'http://127.0.0.1:{port}/' cannot be used now: \[Errno 111\].*Start it"
    ):
        require_server()
    assert time.monotonic() - start < 60  # MLflow alone takes four minutes


def test_a_server_in_trouble_is_asked_again(answers) -> None:  # type: ignore[no-untyped-def]
    answers((503, '{"error_code": "TEMPORARILY_UNAVAILABLE"}'), (500, "no"), (200, EXPERIMENTS))
    require_server()
    answers((200, "{}"), (200, "3.1.0"))  # of a user who may see no experiment
    require_server()
    answers((503, '{"message": "connection to database refused"}'))
    with pytest.raises(
        ResourceError, match=r"it answers 503: .*connection to database refused.*and its database"
    ):
        require_server()


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, "<html>a page</html>", "is no MLflow server: it answers 200: a page"),
        (404, "Not found", "is no MLflow server: it answers 404: Not found"),
        (
            401,
            "<b>who?</b>",
            "answers 401: who\\? It asks for name and password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TR",
        ),
        (403, "Invalid Host header", "answers 403: .*--allowed-hosts 127.0.0.1"),
        (403, "Permission denied", "answers 403: Permission denied This user may not do that"),
    ],
)
def test_what_else_may_answer_is_named_with_its_cure(status: int, text: str, said: str, answers) -> None:  # type: ignore[no-untyped-def]
    answers((status, text))
    with pytest.raises(ConfigError, match=said):
        require_server()


@pytest.mark.parametrize("text", FOREIGN, ids=range(len(FOREIGN)))
def test_a_server_whose_answer_has_not_the_form_of_mlflows_is_none(text: str, answers) -> None:  # type: ignore[no-untyped-def]
    answers((200, text))
    with pytest.raises(ConfigError, match="is no MLflow server: it answers 200"):
        require_server()


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * 65536)


def slow_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.05)


def slow_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X")
        time.sleep(0.05)


def compressed(handler: BaseHTTPRequestHandler) -> None:
    send_body(handler, gzip.compress(bytes(10_000_000)), Content_Encoding="gzip")


def redirected(handler: BaseHTTPRequestHandler) -> None:
    send_body(handler, b"", 302, Location="http://elsewhere.example/")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (endless, ResourceError, "more than 100,000 bytes"),
        (slow_body, ResourceError, "not complete after 0.5 s"),
        (slow_headers, ResourceError, "did not answer within 2 s"),
        (compressed, ResourceError, r"is compressed \(gzip\)"),
        (redirected, ConfigError, "is no MLflow server: it answers 302: http://elsewhere.example/"),
    ],
)
def test_a_reply_is_read_within_bounds(
    answer: Callable[[BaseHTTPRequestHandler], None],
    error: type[Exception],
    message: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking_server, "PAUSES", ())
    monkeypatch.setattr(tracking_server, "ANSWER", 0.5)
    monkeypatch.setattr(tracking_server, "WHOLE", 2.0)
    monkeypatch.setattr(http, "LARGEST", 100_000)
    with impostor(answer) as url, pytest.raises(error, match=message):
        require_server(url)


@pytest.mark.parametrize(("status", "text"), JUNK, ids=range(len(JUNK)))
def test_replies_that_are_none_of_mlflows_are_errors_wherever_they_are_read(
    status: int, text: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    def answer(handler: BaseHTTPRequestHandler) -> None:
        is_check = handler.path == tracking_server.LOOKED_FOR
        send_body(handler, *((EXPERIMENTS.encode(), 200) if is_check else (text.encode(), status)))

    planned = tracking.PlannedRun("n", "k", "", str(project), "1", {}, {"git.commit": "c"}, {}, {})
    with impostor(answer) as url:
        monkeypatch.setenv(NAME, url)
        for use in (
            lambda: tracking.plan_run("n", key="k", params={"a": 1}),
            lambda: copy_history(url, str(project / "copy")),
            lambda: tracking.create_run(dataclasses.replace(planned, uri=url)),
            lambda: tracking.end_planned_run(dataclasses.replace(planned, uri=url), "FAILED"),
            lambda: list_runs(Pin.model_construct(name="v1", outs={}), project),
        ):
            with suppress(CaramelError):  # of some replies that are no answer, nothing is read
                use()


def test_a_listing_of_artifacts_that_is_none_is_an_error() -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    bodies = [
        '{"files": 5}',
        '{"files": [{"path": 5}]}',
        '{"files": [{"path": "a", "is_dir": false, "file_size": "x"}]}',
        "[]",
        DEEP,
    ]
    left = iter(bodies)
    with impostor(lambda handler: send_body(handler, next(left).encode())) as url:
        for _ in bodies:
            with (
                pytest.raises(ResourceError, match="its list of artifacts is none"),
                translate_errors(lambda e: explain_error(e, url)),
            ):
                get_artifact_repository(f"{url}/api/2.0/mlflow-artifacts/artifacts/1").list_artifacts()


def test_a_stage_ends_before_it_begins_where_the_server_is_not_there(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from caramel.runtime import stage_runner

    monkeypatch.chdir(project)
    monkeypatch.setenv(NAME, "localhost:5000")
    root = Path(__file__).parents[3]
    (project / "params.yaml").write_bytes((root / "params" / "default.yaml").read_bytes())
    (project / "inputs/zero_shot").mkdir(parents=True)

    def main(config: object) -> None:
        raise AssertionError("must not run")

    with pytest.raises(SystemExit):
        stage_runner.run_stage(main)
    assert "'localhost:5000' is not the address of an MLflow server" in capsys.readouterr().err


def test_workers_elsewhere_get_what_reaches_the_server_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in get_server_environment() if name != NAME]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(NAME, "http://h:1")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "p")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert get_server_environment() == {NAME: "http://h:1", "MLFLOW_TRACKING_PASSWORD": "p"}


# With real servers.


def test_who_is_refused_is_told_which_of_name_and_password_is_missing_or_wrong(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_server()
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong")
    with pytest.raises(ConfigError, match=f"answers 401: You are not auth.* It refuses the user '{USER}'"):
        require_server()
    with (
        pytest.raises(ConfigError, match=r"Run 'n' cannot be tracked. The MLflow server at .* answers 401"),
        tracking.run("n", key="refused", params={}),
    ):
        raise AssertionError("must not run")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    with pytest.raises(ConfigError, match="It asks for name and password: set MLFLOW_TRACKING_PASSWORD"):
        require_server()


def test_a_data_set_that_eight_runs_log_at_once_is_one_input_of_each(served: Served, project: Path) -> None:
    import mlflow

    client = mlflow.MlflowClient(served.server.url)
    first = tracking.plan_run("first", key="race 0", params={})
    made = [client.create_run(first.experiment).info.run_id for _ in range(8)]
    entry = tracking._build_dataset_input("data/raced", "f" * 32 + ".dir", "c")

    def log(run_id: str) -> None:
        for _ in range(2):
            retry_on_race(lambda: client.log_inputs(run_id, datasets=[entry]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(log, made))
    for run_id in made:
        (used,) = client.get_run(run_id).inputs.dataset_inputs
        assert (used.dataset.name, used.dataset.digest) == ("data/raced", "f" * 32 + ".dir")


def test_a_run_goes_to_the_server_with_its_inputs_and_artifacts_and_is_reopened(
    served: Served, project: Path
) -> None:
    import mlflow

    for value in (1.0, 2.0):
        data = ["data/scenes/pairs.parquet"]
        with tracking.run("n", key="whole", params={"a": 1}, data=data):
            mlflow.log_metric("m", value, step=int(value))
            mlflow.log_dict({"x": value}, "config.json")
    client = mlflow.MlflowClient(served.server.url)
    experiment = client.get_experiment_by_name(tracking.EXPERIMENT)
    (found,) = client.search_runs([experiment.experiment_id], "tags.`caramel.key` = 'whole'")
    assert (found.info.status, found.data.params, found.data.metrics["m"]) == ("FINISHED", {"a": "1"}, 2.0)
    assert [i.dataset.name for i in found.inputs.dataset_inputs] == ["data/scenes"]
    assert [entry.path for entry in client.list_artifacts(found.info.run_id)] == ["config.json"]
    assert not (project / "mlruns").exists()


def logged(key: str) -> list[tuple[int, float]]:
    """Return (step, value) of the metric ``m`` of a run."""
    import mlflow

    planned = tracking.plan_run("n", key=key, params={})
    history = mlflow.MlflowClient(planned.uri).get_metric_history(tracking.create_run(planned), "m")
    return sorted((point.step, point.value) for point in history)


def test_nothing_is_lost_while_the_server_is_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracking.run("n", key="away", params={}):
        log_curve([(0, "m", 0.0)])
        with served.gate.closed():
            back = threading.Timer(1.5, served.gate.shut.clear)
            back.start()
            log_curve([(1, "m", 1.0)])
        log_curve([(2, "m", 2.0)])
    assert logged("away") == [(n, float(n)) for n in range(3)]


def test_nothing_is_lost_while_its_database_starts_again(served: Served) -> None:
    if served.postgres is None:
        pytest.skip(served.why)
    with tracking.run("n", key="restart", params={}):
        log_curve([(0, "m", 0.0)])
        served.postgres.stop()
        back = threading.Timer(1.0, served.postgres.start)
        back.start()
        log_curve([(1, "m", 1.0)])
        back.join()
        log_curve([(2, "m", 2.0)])
    assert logged("restart") == [(n, float(n)) for n in range(3)]


def test_a_server_that_does_not_come_back_ends_the_run_with_what_to_do(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")

    def away() -> None:
        with tracking.run("n", key="gone", params={}), served.gate.closed():
            log_curve([(0, "m", 0.0)])

    with pytest.raises(
        ResourceError, match=r"Run 'n' cannot be tracked. The MLflow server at .* cannot be used now: .*St"
    ):
        away()


def test_a_run_is_made_one_time_where_the_answer_to_its_making_breaks_off(served: Served) -> None:
    import mlflow

    served.gate.break_off(b"/runs/create")
    planned = tracking.plan_run("n", key="broken", params={"a": 1})
    run_id = tracking.create_run(planned)
    assert served.gate.broken == b"/runs/create"
    client = mlflow.MlflowClient(planned.uri)
    every = mlflow.entities.ViewType.ALL
    (found,) = client.search_runs([planned.experiment], "tags.`caramel.key` = 'broken'", run_view_type=every)
    assert (found.info.run_id, found.info.status) == (run_id, "SCHEDULED")
    assert found.data.params == {"a": "1"}


def test_what_is_logged_is_there_one_time_where_each_answer_breaks_off_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setattr(retry, "PAUSES", (0.0,))
    with tracking.run("n", key="each", params={}):
        for step, request in enumerate((b"/runs/log-batch", b"/runs/get")):
            served.gate.break_off(request)
            log_curve([(step, "m", float(step))])
            mlflow.get_run(mlflow.active_run().info.run_id)
            assert served.gate.broken == request
        served.gate.break_off(b"PUT ")
        mlflow.log_text("whole", "note.txt")
        assert served.gate.broken == b"PUT "
        assert mlflow.artifacts.load_text(mlflow.get_artifact_uri("note.txt")) == "whole"
    assert logged("each") == [(0, 0.0), (1, 1.0)]
