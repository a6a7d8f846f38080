"""Check a project's versions for ``caramel doctor``: git, DVC with its lock, and the store of tracked runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from caramel.doctor import local_status
from caramel.doctor.findings import FAIL, OK, WARN, Finding
from caramel.errors import CaramelError, DataError, ResourceError, count_of, redact_secrets
from caramel.runtime.dvc import cache, settings, state
from caramel.runtime.mlflow.server import get_tracking_server, require_server
from caramel.runtime.mlflow.store import DATABASE, count_runs, format_database_uri
from caramel.runtime.mlflow.tracking import get_git_commit

ABSENT = ("deleted", "not in cache")  # `dvc status` for outputs that are missing from the project
SLOW = 8.0  # seconds allowed for DVC's status
ENDING = 5.0  # seconds allowed for it to end after that


def check_dvc_repository(root: Path) -> Finding:
    """Check the DVC repository and its remote."""
    if not (root / ".dvc").is_dir():
        return Finding(
            FAIL, "dvc", "no DVC repository here", "run this in the project's folder, or `dvc init`"
        )
    if trouble := state.find_rwlock_problem(root):
        return Finding(FAIL, "dvc", f"{trouble}; no command of DVC runs", "caramel doctor --fix")
    if broken_entries := cache.find_broken_entries(root, whole=False):
        text = f"{len(broken_entries)} broken entries in its cache: stages fail or rerun every time"
        return Finding(FAIL, "dvc", text, "caramel doctor --fix")
    try:
        remotes = list(settings.list_remotes(settings.load_settings(root)))
        careless = settings.find_unverified_remotes(root)
    except CaramelError as error:
        return Finding(FAIL, "dvc", str(error))
    if careless:
        text = f"pulls from {', '.join(careless)} are not verified: DVC accepts damaged objects"
        return Finding(FAIL, "dvc", text, "caramel doctor --fix, and commit .dvc/config")
    if not remotes:
        return Finding(
            WARN, "dvc", "no remote: data can be rebuilt, but not pulled", "dvc remote add -d NAME URL"
        )
    return Finding(OK, "dvc", f"remote {', '.join(remotes)}; `caramel doctor --remote` tests it")


def check_site_cache(root: Path) -> Finding:
    """Check whether other users can write to DVC's folder of pickles, which run code when read."""
    try:
        folder = settings.find_site_cache(root)
    except CaramelError as error:
        return Finding(FAIL, "site cache", str(error))
    if settings.is_writable_by_others(folder):
        text = f"other users of this machine can write to {str(folder)!r}, and files that DVC reads there can run code"
        cure = "ignore this if you are the only user; otherwise set DVC_SITE_CACHE_DIR, see docs/security.md"
        return Finding(WARN, "site cache", text, cure)
    return Finding(OK, "site cache", f"{str(folder)!r}: no other user can write there")


def check_git(root: Path) -> Finding:
    """Check that git knows the commit, which tracked runs and pins name."""
    try:
        commit = get_git_commit(root)
    except ResourceError as error:
        return Finding(FAIL, "git", str(error))
    if commit == "unknown":
        return Finding(WARN, "git", "no commit: runs and pins cannot name the code", "git init, and commit")
    return Finding(OK, "git", f"commit {commit[:12]}{', with changed files' * commit.endswith('-dirty')}")


def start_dvc_status(root: Path) -> subprocess.Popen[str] | None:
    """Start ``dvc status``, which takes seconds, most of them for imports.

    ``dvc repro --dry`` is no alternative: it fails if an output is missing, as in a fresh clone. No Python
    file of the project is imported (``-P``), whatever its name: the project may be a stranger's.
    """
    if not (root / "dvc.lock").exists():
        return None
    return subprocess.Popen(
        [sys.executable, "-P", "-m", local_status.__name__],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop_dvc_status(status: subprocess.Popen[str] | None) -> None:
    """Stop DVC's status and its child processes if it is still running.

    It is terminated before it is killed, because a kill could leave half a file.
    """
    if status is None:
        return
    with status:  # closes its pipes
        if status.poll() is None:
            family = psutil.Process(status.pid).children(recursive=True)
            status.send_signal(signal.SIGINT)
            try:
                with suppress(subprocess.TimeoutExpired):
                    status.communicate(timeout=ENDING)  # not `wait`: its output could fill the pipe
            finally:  # also if the user interrupts the wait
                for process in family:
                    with suppress(psutil.Error):
                        process.kill()
                status.kill()


def find_lock_problem(root: Path) -> str:
    """Return why DVC would refuse ``dvc.lock``; nothing if it is missing or intact.

    Raises:
        ResourceError: the system refuses to read it; replacing the file would not help.
    """
    try:
        state.read_lock(root)
    except DataError as error:
        return str(error)
    return ""


def check_dvc_lock(root: Path, status: subprocess.Popen[str] | None) -> Finding:
    """Check that ``dvc.lock`` matches sources and params, and that its outputs are in the project."""
    try:
        if status is None:
            in_git = state.lock_in_git(root) is not None
            message, cure = (
                ("git has it", "git checkout dvc.lock") if in_git else ("no stage has run yet", "dvc repro")
            )
            return Finding(WARN, "dvc.lock", f"missing: {message}", cure)
        if broken := find_lock_problem(root):
            return Finding(FAIL, "dvc.lock", broken, "caramel doctor --fix, then dvc repro")
        output, errors = status.communicate(timeout=SLOW)
        changes = json.loads(output) if status.returncode == 0 else {}
    except ValueError:
        return Finding(FAIL, "dvc.lock", "unknown: DVC's output cannot be parsed", "dvc status")
    except ResourceError as error:
        return Finding(FAIL, "dvc.lock", str(error))
    except subprocess.TimeoutExpired:
        return Finding(WARN, "dvc.lock", f"unknown: DVC took over {SLOW:.0f} s", "dvc status")
    if "Unable to acquire lock" in errors:
        return Finding(WARN, "dvc.lock", "unknown: another DVC process is running", "wait for it")
    if status.returncode == local_status.ELSEWHERE:
        message = f"unknown: the graph names {redact_secrets(errors.strip())[:300]}, and doctor contacts no other machine"
        return Finding(WARN, "dvc.lock", message, "dvc status, which contacts them with your logins")
    if status.returncode:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        text = " ".join(lines)[:300] or "DVC failed"
        return Finding(FAIL, "dvc.lock", f"unknown: {text}", "dvc status, and git diff dvc.yaml params.yaml")
    outputs = [
        out["path"]
        for stage in state.read_lock(root).get("stages", {}).values()
        for out in stage.get("outs", ())
    ]
    stale = [stage for stage, entries in changes.items() if _is_stale(entries, outputs)]
    absent = [stage for stage, entries in changes.items() if _has_missing_outputs(entries)]
    text = f"{count_of(len(stale), 'stage')} to run, from {stale[0]!r} on" if stale else "current"
    if absent:
        text += f"; outputs of {len(absent)} stages are missing"
    if stale or absent:
        cure = "dvc repro" if stale else "dvc repro; or dvc pull if there is a remote"
        return Finding(WARN, "dvc.lock", text, cure)
    return Finding(OK, "dvc.lock", "current")


def _is_stale(entries: list[str | dict[str, dict[str, object]]], outputs: list[str]) -> bool:
    """Return whether a stage differs from the lock by more than missing outputs, its own or of earlier stages."""
    for entry in entries:
        if isinstance(entry, str):  # "changed command"
            return True
        for path, change in (item for changed in entry.values() for item in changed.items()):
            is_output = any(Path(path).is_relative_to(o) or Path(o).is_relative_to(path) for o in outputs)
            if not (is_output and change in ABSENT):
                return True
    return False


def _has_missing_outputs(entries: list[str | dict[str, dict[str, object]]]) -> bool:
    """Return whether an output of a stage is missing from the project."""
    outputs = [entry.get("changed outs", {}) for entry in entries if not isinstance(entry, str)]
    return any(change in ABSENT for changed in outputs for change in changed.values())


def check_mlflow(root: Path) -> Finding:
    """Check the store of tracked runs, or the tracking server."""
    try:
        require_server()
        if address := get_tracking_server():
            return Finding(OK, "mlflow", f"the server at {redact_secrets(address)} answers")
        database = root.resolve() / "mlruns" / DATABASE
        format_database_uri(database)
    except CaramelError as error:
        return Finding(FAIL, "mlflow", str(error))
    if not database.exists():
        return Finding(OK, "mlflow", "no runs yet; the first run creates the store")
    try:
        count, running = count_runs(database)
    except CaramelError as error:
        return Finding(FAIL, "mlflow", str(error))
    return Finding(OK, "mlflow", f"{count_of(count, 'run')}, {running} still running")
