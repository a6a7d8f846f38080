"""Commands around the pipeline: profile, doctor, ui, timings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from caramel.cli.output import echo
from caramel.errors import ConfigError, DataError, ResourceError, redact_secrets

UI_PORT = 5000


def parse_set_options(values: tuple[str, ...]) -> dict[str, str]:
    """Return ``key=value`` texts as a mapping."""
    settings = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign or not key:
            raise ConfigError(f"--set {value!r} is not key=value, as in --set scenes.train=2000.")
        settings[key] = text
    return settings


@click.command()
@click.argument("name")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A further value, by dotted key.")
def profile(name: str, sets: tuple[str, ...]) -> None:
    """Write params.yaml for the profile NAME (a file params/NAME.yaml) and print what changed.

    \b
    Example:
      caramel profile smoke
      caramel profile default --set scenes.train=2000 --set "finetune.seeds=[11, 12]"
    """
    from caramel.config.profiles import write_profile
    from caramel.io.safe_yaml import flatten_mapping, read_yaml

    path = Path("params.yaml")
    try:
        before = flatten_mapping(read_yaml(path, ""))
    except ConfigError:
        before = {}  # missing or broken: this command is how to mend it
    write_profile(name, parse_set_options(sets), Path())
    after = flatten_mapping(read_yaml(path, ""))
    for key in [*after, *(k for k in before if k not in after)]:
        if before.get(key) != after.get(key):
            echo(f"{key}: {before.get(key)!r} -> {after.get(key)!r}")
    echo("params.yaml was already so." if before == after else f"Wrote {path}. Now run `dvc repro`.")


@click.command()
@click.option("--fix", is_flag=True, help="First mend what a killed process left of DVC's files.")
@click.option("--cluster", is_flag=True, help="Look at each node of the cluster at RAY_ADDRESS instead.")
@click.option(
    "--remote",
    is_flag=True,
    help="Try DVC's remotes instead: reached, written, whole; --fix sends what they lack.",
)
def doctor(fix: bool, cluster: bool, remote: bool) -> None:
    """Check this machine and this project: one line per finding, with what to do.

    Makes no network call, but for the cluster at RAY_ADDRESS and the tracking server at
    CARAMEL_TRACKING_URI where those are set, and the remotes with --remote. Exits with code 1 if anything must be mended first.

    \b
    Example:
      caramel doctor
      caramel doctor --fix
      caramel doctor --remote
      RAY_ADDRESS=10.0.0.1:6379 caramel doctor --cluster
    """
    from caramel.doctor.cluster import examine_cluster
    from caramel.doctor.findings import FAIL
    from caramel.doctor.local import examine_project, fix_project
    from caramel.doctor.remote import examine_remotes, fix_remotes

    if cluster and remote:
        raise ConfigError("--cluster and --remote are two examinations: call the doctor for each.")
    for done in (fix_remotes if remote else fix_project)(Path()) if fix else ():
        echo(f"fixed {done}.")
    findings = examine_cluster() if cluster else (examine_remotes if remote else examine_project)(Path())
    failed = False
    for finding in findings:
        echo(str(finding))
        failed |= finding.state == FAIL
    if failed:
        sys.exit(1)


@click.command()
@click.option(
    "--port", default=UI_PORT, show_default=True, type=click.IntRange(1, 65535), help="Port on 127.0.0.1."
)
def ui(port: int) -> None:
    """Show the tracked runs in MLflow's pages, on this machine only, until Ctrl-C.

    \b
    Example:
      caramel ui
      caramel ui --port 5001
    """
    import subprocess

    from caramel.runtime.mlflow.server import NAME, get_tracking_server, require_server
    from caramel.runtime.mlflow.store import get_store_root, get_tracking_uri

    root = get_store_root()
    if address := get_tracking_server():
        require_server()
        echo(f"Runs are tracked by the server at {redact_secrets(address)}: open that in a browser.")
        return
    if not os.environ.get(NAME) and not (root / "mlruns" / "mlflow.db").exists():
        raise DataError(f"No runs are tracked yet in {root / 'mlruns'}. Run `dvc repro` first.")
    _check_port(port)
    store = get_tracking_uri(root)
    environment = {
        **os.environ,
        # Job execution would start eight more processes, for features that need a language model.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        # All users of a machine see the arguments of a process, and the address of a database may hold a password.
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_REGISTRY_STORE_URI": store,
        # A file mlflow.py of the project is not run, here and in MLflow's server, which would look for it in its --app-dir.
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
    """Raise a ResourceError if something listens on the port already."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ResourceError(
                f"Port {port} on 127.0.0.1 cannot be used: {error.strerror}. Try `caramel ui --port {port + 1}`."
            ) from error


@click.command()
def timings() -> None:
    """Print wall time and peak memory of the latest run of each stage.

    \b
    Example:
      caramel timings
    """
    from pydantic import ValidationError

    from caramel.io.regular_files import read_plain
    from caramel.runtime.paths import TIMINGS
    from caramel.runtime.timings import Timing

    if not TIMINGS.exists():
        raise DataError(f"No stage has run yet: {TIMINGS} is missing. Run `dvc repro`.")
    latest: dict[str, Timing] = {}
    damaged = 0
    for line in read_plain(TIMINGS).splitlines():
        try:
            row = Timing.model_validate_json(line)
        except ValidationError:
            damaged += 1
            continue
        latest.pop(row.stage, None)  # so that stages stand in the order of their latest runs
        latest[row.stage] = row
    if damaged:
        echo(
            f"Left out: {damaged} lines of {TIMINGS} that are cut, or give no time or a negative one.",
            err=True,
        )
    if not latest:
        raise DataError(f"{TIMINGS} holds no run of a stage. Run `dvc repro`.")
    echo(f"{'stage':24}{'profile':14}{'wall time':>12}{'peak memory':>14}")
    for row in latest.values():
        echo(f"{row.stage:24}{row.profile:14}{row.seconds:>10.1f} s{row.peak_mb:>11} MB")
    total = sum(row.seconds for row in latest.values())
    echo(f"{'total':38}{total:>10.1f} s{max(row.peak_mb for row in latest.values()):>11} MB")
