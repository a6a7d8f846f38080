"""Measure what runs lose when the tracking server or its database restarts: `python bench/tracking_restart.py`.

Starts PostgreSQL, an S3 server (moto if that and boto3 are installed; otherwise a folder) and MLflow with
passwords on the loopback interface. Eight runs each log 60 points of a metric and an artifact, in three
conditions:

- undisturbed;
- PostgreSQL crashes half-way (SIGQUIT) and is away for ten seconds;
- the MLflow server is killed (SIGKILL) and restarted at once.

Printed are the runs, points and artifacts that exist afterwards (8, 480 and 8 if nothing is lost or
duplicated), the slowest call, and the total time. It takes two to six minutes. It needs PostgreSQL's programs
(`apt-get install postgresql`), psycopg2-binary and Flask-WTF.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tracking_servers import BUCKET, PASSWORD, USER, Postgres, Server, Storage, postgres_binaries

from caramel.runtime.environment import be_quiet
from caramel.runtime.mlflow import tracking
from caramel.runtime.mlflow.server import LOGIN, NAME
from caramel.training.tracked import log_curve

RUNS, POINTS, AWAY = 8, 60, 10.0


def log_run(planned: tracking.PlannedRun, half: threading.Event) -> float:
    """Log to a run and signal when half is done; return the seconds of the slowest call."""
    import mlflow

    slowest = 0.0
    with tracking.open_run(planned):
        for n in range(POINTS):
            start = time.monotonic()
            log_curve([(n, "loss", 1 / (n + 1))])
            slowest = max(slowest, time.monotonic() - start)
            if n == POINTS // 2:
                half.set()
        mlflow.log_text(planned.name, "note.txt")
    return slowest


def measure_disturbance(name: str, disturb: Callable[[], None]) -> str:
    """Run the eight runs, disturb them half-way, and return the line of the table."""
    import mlflow

    start = time.monotonic()
    plans = [tracking.plan_run(f"{name} {n}", key=f"{name} {n}", params={"n": n}) for n in range(RUNS)]
    half = threading.Event()
    with ThreadPoolExecutor(RUNS) as pool:
        calls = [pool.submit(log_run, planned, half) for planned in plans]
        half.wait()
        disturb()
        slowest = max(call.result() for call in calls)
    seconds = time.monotonic() - start
    client = mlflow.MlflowClient(plans[0].uri)
    runs = [run for run in client.search_runs([plans[0].experiment]) if run.info.run_name.startswith(name)]
    steps = [{m.step for m in client.get_metric_history(run.info.run_id, "loss")} for run in runs]
    finished = sum(run.info.status == "FINISHED" for run in runs)
    notes = sum(len(client.list_artifacts(run.info.run_id)) for run in runs)
    counts = f"{len(runs):>4}{finished:>10}{sum(map(len, steps)):>8}{notes:>11}"
    return f"{name:34}{counts}{slowest:>13.1f} s{seconds:>8.0f} s"


def main() -> None:
    """Print the table."""
    be_quiet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that its servers are stopped too
    binaries = postgres_binaries()
    if binaries is None or not find_spec("psycopg2") or not find_spec("flask_wtf"):
        sys.exit("PostgreSQL, psycopg2-binary or Flask-WTF is not installed.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        storage = Storage() if find_spec("boto3") and find_spec("moto") else None
        artifacts = f"s3://{BUCKET}/artifacts" if storage else str(folder / "artifacts")
        postgres = Postgres(binaries)
        server = Server(folder, postgres.uri, artifacts, environment=storage.environment if storage else {})
        os.environ |= {NAME: server.url, LOGIN[0]: USER, LOGIN[1]: PASSWORD, "DVC_ROOT": name}

        def restart_postgres() -> None:
            postgres.stop()
            time.sleep(AWAY)
            postgres.start()

        def restart_server() -> None:
            server.kill()
            server.start()

        try:
            if storage:
                storage.start()
            postgres.start()
            server.start()
            print(f"artifacts on {'S3 (moto)' if storage else 'a folder'}; {RUNS} runs of {POINTS} points")
            print(
                f"{'':34}{'runs':>4}{'finished':>10}{'points':>8}{'artifacts':>11}{'slowest call':>15}{'all':>10}"
            )
            print(measure_disturbance("undisturbed", lambda: None), flush=True)
            print(measure_disturbance(f"PostgreSQL away for {AWAY:.0f} s", restart_postgres), flush=True)
            print(measure_disturbance("MLflow server killed, started again", restart_server), flush=True)
        finally:
            server.kill()
            postgres.remove()
            if storage:
                storage.kill()


if __name__ == "__main__":
    main()
