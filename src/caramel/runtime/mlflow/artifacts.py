"""Copy the files of tracked runs from one store to another, and report files that cannot be read."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from caramel.errors import DataError, redact_secrets
from caramel.runtime.mlflow.server import require_server

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

UPLOADING = ".artifact.uploading."  # MLflow's prefix for names of incomplete files
DEPTH = 64  # maximum nesting of folders


def find_local_folder(uri: str) -> Path | None:
    """Return the folder that MLflow reads for a URI of artifacts; None for artifacts on a server.

    Raises:
        DataError: the URI is not a path.
    """
    from mlflow.utils.file_utils import get_local_path_or_none

    try:
        path = get_local_path_or_none(uri)
    except ValueError:  # brackets that are not an address
        path = "\0"
    if path is not None and "\0" in path:
        raise DataError(f"The artifacts of a run are in {uri!r}, which is no path.")
    return None if path is None else Path(path)


def copy_artifacts(
    theirs: MlflowClient, ours: MlflowClient, run: Run, copy: str, folder: Path | None
) -> list[str]:
    """Copy the files of a run that are missing in its copy, or have another length there.

    Args:
        theirs, ours: clients of the source and of the target.
        run: run in the source.
        copy: id of its copy.
        folder: folder of the source; files outside it are skipped. None: the source is a server.

    Returns:
        The skipped files, one line each with the reason.

    Raises:
        ConfigError, ResourceError: the source's server is unavailable.
    """
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    if folder is None and (foreign := explain_foreign(run.info.artifact_uri, theirs.tracking_uri)):
        return [f"{redact_secrets(run.info.artifact_uri)}: {foreign}"]
    root = find_local_folder(run.info.artifact_uri)
    if root is not None:
        files, left = list_local_files(root, folder)
        return left + _copy_missing(ours, copy, {path: root / path for path in files}, files)
    try:
        files = dict(_iter_files(theirs, run.info.run_id))
        existing = dict(_iter_files(ours, copy)) if files else {}
        for path in [path for path, size in files.items() if existing.get(path) != size]:
            with tempfile.TemporaryDirectory() as scratch:
                local = Path(theirs.download_artifacts(run.info.run_id, path, scratch))
                _log_artifact(ours, copy, local, path)
    except (MlflowException, RequestException) as error:
        for client in (theirs, ours):  # an unavailable server ends the copy; an unreadable file does not
            require_server(client.tracking_uri)
        reason = " ".join(redact_secrets(str(error)).split())[:200]
        return [f"{redact_secrets(run.info.artifact_uri)}: {reason}"]
    return []


def explain_foreign(uri: str, store: str) -> str:
    """Return why artifacts named by a store do not belong to it; empty if they do.

    A server may name any files of this machine, or another server, to which MLflow would send this user's
    name and password. It may also name another run or model, whose files MLflow looks up itself, wherever
    they are.
    """
    server = urlsplit(store)
    try:
        parts = urlsplit(uri)
        host = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme in ("runs", "models"):
        return "is another run or model"
    if parts.scheme in ("http", "https", "mlflow-artifacts"):
        is_own = not parts.netloc or host == (server.hostname, server.port)
        return "" if is_own else "lies at another server, which is not asked"
    is_far = server.scheme in ("http", "https") and not _is_loopback(server.hostname or "")
    return (
        "is a path of this machine, and the server is on another" if is_far and find_local_folder(uri) else ""
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def list_local_files(root: Path, allowed: Path | None) -> tuple[dict[str, int], list[str]]:
    """Return the length of each copyable file in a folder by path, and the other files with the reason.

    Args:
        root: the folder.
        allowed: folder that links must not leave; None: they may lead anywhere.
    """
    files: dict[str, int] = {}
    left: list[str] = []
    if not os.path.lexists(root):  # the run logged no artifacts
        return files, left
    walk = os.walk(root, onerror=lambda error: left.append(f"{error.filename}: {error.strerror}"))
    for folder, folders, names in walk:
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(folder, name)
            if name.startswith(UPLOADING):
                continue
            if reason := _find_obstacle(path, allowed):
                left.append(f"{path}: {reason}")
            else:
                files[path.relative_to(root).as_posix()] = path.stat().st_size
    return files, left


def _find_obstacle(path: Path, allowed: Path | None) -> str:
    """Return why a file cannot be copied; empty if it can."""
    try:
        str(path).encode()
        if not stat.S_ISREG(path.stat().st_mode):
            return "is no file"
        if allowed is not None and not path.resolve().is_relative_to(allowed):
            return "leads out of the folder that is copied"
        with path.open("rb"):
            return ""
    except UnicodeEncodeError:
        return "has a name that is not in UTF-8"
    except OSError as error:
        return "is a link to nothing" if path.is_symlink() and not path.exists() else str(error.strerror)


def _copy_missing(ours: MlflowClient, copy: str, paths: dict[str, Path], sizes: dict[str, int]) -> list[str]:
    """Copy local files that a run lacks; return the files whose names MLflow refuses."""
    from mlflow.exceptions import MlflowException

    existing = dict(_iter_files(ours, copy)) if sizes else {}
    left = []
    for path in [path for path, size in sizes.items() if existing.get(path) != size]:
        try:
            _log_artifact(ours, copy, paths[path], path)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            left.append(f"{paths[path]}: {error.message}")
    return left


def _log_artifact(ours: MlflowClient, copy: str, local: Path, path: str) -> None:
    ours.log_artifact(copy, str(local), str(Path(path).parent) if "/" in path else None)


def _iter_files(
    client: MlflowClient, run: str, folder: str | None = None, depth: int = 0
) -> Iterator[tuple[str, int]]:
    """Yield path and length of each file of a run.

    Raises:
        MlflowException: the folders are nested too deeply.
    """
    from mlflow.exceptions import MlflowException

    if depth > DEPTH:
        raise MlflowException(f"its folders of artifacts are nested more than {DEPTH} deep")
    for entry in client.list_artifacts(run, folder):
        if entry.is_dir:
            yield from _iter_files(client, run, entry.path, depth + 1)
        else:
            yield entry.path, entry.file_size
