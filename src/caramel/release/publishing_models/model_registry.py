"""Register a run's model in MLflow (``caramel register``) and resolve ``models:/…`` model specs.

The registered model is the checkpoint as an artifact of its training run, loaded by ``mlflow_format``. Its
source is stored as the run's id, so that it is found after the store is moved.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from caramel.errors import BackendError, ConfigError, redact_secrets
from caramel.io.files import compute_file_hash, create_empty_folder
from caramel.io.validators import format_value
from caramel.models.open_clip.checkpoints import WEIGHTS
from caramel.release.pin_file import Pin
from caramel.release.publishing_models import mlflow_format
from caramel.release.publishing_models.model_release import find_checkpoint, find_pin
from caramel.release.publishing_models.trained_run import find_training_run
from caramel.runtime.installation import get_requirement
from caramel.runtime.mlflow.artifacts import explain_foreign
from caramel.runtime.mlflow.retry import translate_errors
from caramel.runtime.mlflow.store import get_store_root, get_tracking_uri, hold_lock, open_client
from caramel.runtime.mlflow.tracking import open_store
from caramel.runtime.paths import WORK

if TYPE_CHECKING:
    from mlflow import MlflowClient

REGISTERED = "models:/"
ARTIFACT = "model"  # artifact folder of the run
CONTENT = "caramel.checkpoint"  # tag of a version: SHA-256 of the folder's files and their names
_NAME = re.compile(r"[\w.-]{1,200}")
_PARTS = re.compile(r"([/@])")
_LABELLED = re.compile(rf"(?:(?P<label>[\w.+ -]+)=)?{REGISTERED}(?P<rest>[\w.-]+[/@][\w-]+)")


class RegisteredVersion(NamedTuple):
    """A version of a model in the registry."""

    name: str
    version: str
    alias: str  # alias of its pin
    run: str  # id of the tracked run


def register_model(run: str, root: Path, *, name: str, pin: str | None = None) -> RegisteredVersion:
    """Register a run's model with the pin of its data as an alias; a registered model keeps its version.

    Args:
        run: name of the model, as in the tables of results (``trohn_img-11``, ``base``).
        root: the project's folder.
        name: of the model in the registry: letters, digits, ``._-``.
        pin: version of the data; None: the only pin that names this model.

    Raises:
        ConfigError: there is no such run, or the name is invalid.
        DataError: no pin names this model, or several do and none is given; or no tracked run matches it, or
            several do.
        ResourceError: the store or server cannot be reached.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: the name of a registered model may contain only letters, digits and . _ -"
        )
    folder, output = find_checkpoint(run, root)
    pinned = find_pin(output, pin, root)
    run_id = find_training_run(run, output, pinned, root)
    content, alias = compute_file_hash(folder), format_alias(pinned)
    with open_store(root) as (client, _):
        version = _find_version(client, name, content) or _create_version(client, name, run_id, folder)
        tags = {CONTENT: content, "caramel.model": run, "pin": pinned.name, "data": pinned.data[:16]}
        for key, value in tags.items():
            client.set_model_version_tag(name, version, key, value)
        client.set_registered_model_alias(name, alias, version)
    return RegisteredVersion(name, version, alias, run_id)


def format_alias(pinned: Pin) -> str:
    """Return the alias of a pin's model; MLflow allows letters, digits, dashes and underscores."""
    return re.sub(r"[^\w-]", "_", f"pin-{pinned.name}")


def _find_version(client: MlflowClient, name: str, content: str) -> str | None:
    """Return the registered version of this checkpoint, if there is one."""
    versions = client.search_model_versions(f"name = '{name}'")
    return next(
        (str(candidate.version) for candidate in versions if candidate.tags.get(CONTENT) == content), None
    )


def _create_version(client: MlflowClient, name: str, run_id: str, folder: Path) -> str:
    """Log the checkpoint to its run and create a version from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns about its own classes at import
        from mlflow.pyfunc import save_model

    logging.getLogger("mlflow.models.model").setLevel(
        logging.ERROR
    )  # hides the warning about a missing signature
    with TemporaryDirectory() as scratch:
        model = Path(scratch, ARTIFACT)
        needed = [get_requirement()]
        save_model(
            model, loader_module=mlflow_format.__name__, data_path=str(folder), pip_requirements=needed
        )
        client.log_artifacts(run_id, str(model), ARTIFACT)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    return str(client.create_model_version(name, f"runs:/{run_id}/{ARTIFACT}", run_id).version)


def resolve_spec(spec: str) -> str:
    """Return a model spec with ``models:/NAME/VERSION`` or ``models:/NAME@ALIAS`` replaced by the checkpoint's folder.

    Other specs are returned unchanged. Without a label, the model's name in tables is the part after
    ``models:/``.

    Raises:
        BackendError: there is no such version, or `caramel register` did not make it.
        ConfigError, DataError, ResourceError: the store or server cannot be read.
    """
    named = _LABELLED.fullmatch(spec)
    if named is None:
        return spec
    root = get_store_root()
    uri, (name, mark, which) = get_tracking_uri(root), _PARTS.split(named["rest"])
    import mlflow

    def build_error(error: Exception) -> BackendError:
        return BackendError(f"Model {spec!r} cannot be loaded from the registry: {str(error)[:300]}")

    try:
        with translate_errors(build_error):
            client = open_client(uri)
            version = (
                client.get_model_version_by_alias(name, which)
                if mark == "@"
                else client.get_model_version(name, which)
            )
            if not str(version.version).isdecimal():  # it names a folder that may be replaced
                raise BackendError(
                    f"Model {spec!r}: its server names version {format_value(version.version)}, which is not a number."
                )
            # A fixed folder, so that results scored before are found again.
            target = root / WORK / "registered" / f"{name}-{version.version}"
            folder = _find_intact_checkpoint(target, version.tags)
            if folder is None:
                target.parent.mkdir(parents=True, exist_ok=True)
                with TemporaryDirectory(dir=target.parent) as scratch:
                    downloaded = create_empty_folder(Path(scratch, ARTIFACT))
                    mlflow.artifacts.download_artifacts(
                        _find_files(client, name, version.version), dst_path=str(downloaded), tracking_uri=uri
                    )
                    folder = _move_checkpoint(downloaded, target, version.tags)
    except OSError as error:
        raise build_error(error) from error
    if folder is None:
        raise BackendError(
            f"Model {spec!r} is not a checkpoint of `caramel register`: files are missing or differ."
        )
    return f"{named['label'] or f'{name} {which}'}=open_clip:{folder}"


def _find_files(client: MlflowClient, name: str, version: str) -> str:
    """Return the URI of a version's files.

    Raises:
        BackendError: its server names files of this machine, of another server, or of another run or model.
    """
    from mlflow.store.artifact.runs_artifact_repo import RunsArtifactRepository
    from mlflow.utils.uri import append_to_uri_path

    uri, path = str(client.get_model_version_download_uri(name, version)), ""
    if uri.startswith("runs:/"):
        run_id, path = RunsArtifactRepository.parse_runs_uri(uri)
        uri = str(client.get_run(run_id).info.artifact_uri)
    if reason := explain_foreign(uri, client.tracking_uri):
        raise BackendError(
            f"Model '{REGISTERED}{name}/{version}': its server names the files {format_value(redact_secrets(uri))}, which {reason}."
        )
    return str(append_to_uri_path(uri, path)) if path else uri


def _move_checkpoint(downloaded: Path, target: Path, tags: Mapping[str, str]) -> Path | None:
    """Move a fetched checkpoint into place unless it is broken or another process was faster.

    Return its folder.
    """
    with hold_lock(target.with_name(f"{target.name}.lock")):
        if _find_intact_checkpoint(downloaded, tags) and not _find_intact_checkpoint(target, tags):
            downloaded.rename(create_empty_folder(target))
    return _find_intact_checkpoint(target, tags)


def _find_intact_checkpoint(parent: Path, tags: Mapping[str, str]) -> Path | None:
    """Return the folder of the only checkpoint below a path if its files are the registered ones."""
    folders = [path.parent for path in sorted(parent.rglob(WEIGHTS))]
    matches = [folder for folder in folders if compute_file_hash(folder) == tags.get(CONTENT)]
    return matches[0] if len(matches) == 1 else None
