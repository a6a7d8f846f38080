"""Files of tracked runs, copied from one store to another; what cannot be read is left, and named."""

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

UPLOADING = ".artifact.uploading."  # how MLflow begins the name of a file that is not whole yet
DEPTH = 64  # folders within each other


def find_local_folder(uri: str) -> Path | None:
    """Return the folder that MLflow reads from a URI of artifacts; None for one on a server.

    Raises:
        DataError: it is no path.
    """
    from mlflow.utils.file_utils import get_local_path_or_none

    try:
        path = get_local_path_or_none(uri)
    except ValueError:  # brackets that are no address
        path = "\0"
    if path is not None and "\0" in path:
        raise DataError(f"The artifacts of a run are in {uri!r}, which is no path.")
    return None if path is None else Path(path)


def copy_artifacts(
    theirs: MlflowClient, ours: MlflowClient, run: Run, copy: str, folder: Path | None
) -> list[str]:
    """Copy the files of a run that its copy lacks, or has in another length.

    Args:
        theirs, ours: clients of the source and of the target.
        run: in the source.
        copy: id of its copy.
        folder: that of the source, where it is one: what lies outside of it is left. None: the source is a server.

    Returns:
        What was left, a line each with its reason.

    Raises:
        ConfigError, ResourceError: the source's server is away.
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
        for client in (theirs, ours):  # one that is away ends the copy; a file that cannot be read does not
            require_server(client.tracking_uri)
        reason = " ".join(redact_secrets(str(error)).split())[:200]
        return [f"{redact_secrets(run.info.artifact_uri)}: {reason}"]
    return []


def explain_foreign(uri: str, store: str) -> str:
    """Return why artifacts that a store names are none of its own; empty if they are.

    A server may name any files of this machine, or another server, which MLflow would send name and password of this user;
    or another run or model, whose files MLflow looks up by itself, wherever they are.
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
    """Return the length of each file below a folder that can be copied, by its path there, and what cannot with the reason.

    Args:
        root: the folder.
        allowed: folder that links must not lead out of; None: they may lead anywhere.
    """
    files: dict[str, int] = {}
    left: list[str] = []
    if not os.path.lexists(root):  # of a run that logged none
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
    """Return what keeps a file from being copied; empty if nothing does."""
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
    """Copy local files that a run lacks; return those that MLflow refuses for their name."""
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
        MlflowException: folders are nested without end.
    """
    from mlflow.exceptions import MlflowException

    if depth > DEPTH:
        raise MlflowException(f"its folders of artifacts are nested more than {DEPTH} deep")
    for entry in client.list_artifacts(run, folder):
        if entry.is_dir:
            yield from _iter_files(client, run, entry.path, depth + 1)
        else:
            yield entry.path, entry.file_size
