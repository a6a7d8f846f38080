"""Command ``ui``: serve MLflow's pages of the tracked runs."""

from __future__ import annotations

import os
import sys

import click

from caramel.cli.output import echo
from caramel.errors import DataError, ResourceError, redact_secrets

UI_PORT = 5000


@click.command("ui")
@click.option(
    "--port",
    default=UI_PORT,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port on 127.0.0.1.",
)
def serve_tracking_ui(port: int) -> None:
    """Show the tracked runs in MLflow, until Ctrl-C.

    The pages can be opened on this machine only.

    \b
    Example:
      caramel ui
      caramel ui --port 5001
    """
    import subprocess

    from caramel.runtime.mlflow.server import get_tracking_server, require_server
    from caramel.runtime.mlflow.store import get_store_root, get_tracking_uri, has_store

    root = get_store_root()
    if address := get_tracking_server():
        require_server()
        echo(f"The server at {redact_secrets(address)} tracks the runs: open this address in a browser.")
        return
    if not has_store(root):
        raise DataError(f"No runs are tracked yet in {root / 'mlruns'}. Run `dvc repro` first.")
    _check_port(port)
    store = get_tracking_uri(root)
    environment = {
        **os.environ,
        # Job execution would start eight more processes, for features that need a language model.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # Not arguments: all users of a machine see these, and the address of a database may contain a password.
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_REGISTRY_STORE_URI": store,
        # Neither this process nor MLflow's server, which searches its --app-dir, may run a file mlflow.py of the project.
        "PYTHONSAFEPATH": "1",
        "MLFLOW_UVICORN_OPTS": f"--app-dir {os.devnull} {os.environ.get('MLFLOW_UVICORN_OPTS', '')}",
    }
    command = [sys.executable, "-m", "mlflow", "ui"]
    echo(f"Runs at http://127.0.0.1:{port} in about 20 seconds; Ctrl-C ends it.")
    try:
        done = subprocess.run(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
            env=environment,
            check=False,
        )
    except KeyboardInterrupt:
        return
    sys.exit(done.returncode)


def _check_port(port: int) -> None:
    """Raise a ResourceError if the port on 127.0.0.1 cannot be used."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ResourceError(
                f"Port {port} on 127.0.0.1 cannot be used: {error.strerror}. Try `caramel ui --port {port + 1}`."
            ) from error
