"""What broke off is asked for again, and what is made is made one time."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from caramel.runtime.mlflow import retry, tracking


def test_an_answer_that_broke_off_is_asked_for_again_with_the_whole_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from mlflow.utils import rest_utils
    from mlflow.utils.rest_utils import MlflowHostCreds, http_request

    seen: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}" if len(seen) > 1 else b"{")
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setattr(
        rest_utils, "_get_http_response_with_retries", rest_utils._get_http_response_with_retries
    )
    monkeypatch.setattr(retry, "PAUSES", (0.0,))
    retry.enable_retries()
    retry.enable_retries()
    (tmp_path / "f").write_bytes(b"whole")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, (tmp_path / "f").open("rb") as file:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        creds = MlflowHostCreds(f"http://127.0.0.1:{server.server_port}")
        assert http_request(creds, "/x", "PUT", data=file).text == "{}"
        server.shutdown()
    assert seen == [b"whole", b"whole"]


def test_of_two_runs_that_were_made_for_one_key_the_first_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import mlflow

    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    first = tracking.plan_run("n", key="k", params={})
    client = mlflow.MlflowClient(first.uri)
    experiment, other = first.experiment, tracking.create_run(first)
    made: list[str] = []

    def twice() -> None:
        made.extend(client.create_run(experiment, tags={"key": "other"}).info.run_id for _ in range(2))

    stays = retry.get_or_create_run(client, experiment, "key", "other", twice)
    assert stays in made
    assert retry.get_or_create_run(client, experiment, "key", "other", twice) == stays
    assert len(made) == 2
    left = {run.info.run_id: run.info.status for run in client.search_runs([experiment])}
    assert left == {other: "SCHEDULED", stays: "SCHEDULED"}
