"""A run's model in MLflow's registry: ``caramel register``, and ``models:/…`` as the spec of a model.

The registered model is the checkpoint as an artifact of the run that trained it, loaded by ``as_mlflow``. Its
source is said by the run's id, so that a store that is moved finds it.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from caramel.errors import BackendError, ConfigError, DataError
from caramel.models.clip.checkpoints import WEIGHTS
from caramel.release.pin_file import Pin
from caramel.release.publishing_models import as_mlflow
from caramel.release.publishing_models.model_release import checkpoint_of, pin_of
from caramel.release.runs import tracked
from caramel.running.tracking import opened_store
from caramel.running.tracking_store import store_root, tracking_uri
from caramel.running.work_folder import WORK
from caramel.storage.files import empty_folder, file_hash

if TYPE_CHECKING:
    from mlflow import MlflowClient

REGISTERED = "models:/"
ARTIFACT = "model"  # folder of the run
CONTENT = "caramel.weights"  # tag of a version: SHA-256 of its weights
_NAME = re.compile(r"[\w.-]{1,200}")
_PARTS = re.compile(r"([/@])")
_LABELLED = re.compile(rf"(?:(?P<label>[\w.+ -]+)=)?{REGISTERED}(?P<rest>[\w.-]+[/@][\w-]+)")


class Registered(NamedTuple):
    """A version in the registry."""

    name: str
    version: str
    alias: str  # that of its pin
    run: str  # id of the tracked run


def register(run: str, root: Path, *, name: str, pin: str | None = None) -> Registered:
    """Register a run's model, with the pin of its data as an alias; what is registered already keeps its version.

    Args:
        run: name of the model, as in the tables of results (``trohn_img-11``, ``base``).
        root: the project's folder.
        name: of the model in the registry: letters, digits, ``._-``.
        pin: version of the data; None: the one pin that names this model.

    Raises:
        ConfigError: there is no such run, or the name will not do.
        DataError: no pin names this model, or several do and none is given; or no tracked run made it.
        ResourceError: the store or server cannot be reached.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r}: a registered model is named by letters, digits and . _ - alone.")
    folder, output = checkpoint_of(run, root)
    pinned = pin_of(output, pin, root)
    run_id = _run_of("pretrain" if output == "data/base" else f"finetune {run}", pinned, root)
    weights, alias = file_hash(folder / WEIGHTS), alias_of(pinned)
    with opened_store(root) as (client, _):
        version = _version(client, name, weights) or _made(client, name, run_id, folder)
        told = {CONTENT: weights, "caramel.model": run, "pin": pinned.name, "data": pinned.data[:16]}
        for key, value in told.items():
            client.set_model_version_tag(name, version, key, value)
        client.set_registered_model_alias(name, alias, version)
    return Registered(name, version, alias, run_id)


def alias_of(pinned: Pin) -> str:
    """Return the alias of a pin's model: MLflow allows letters, digits, dashes and underscores."""
    return re.sub(r"[^\w-]", "_", f"pin-{pinned.name}")


def _run_of(name: str, pinned: Pin, root: Path) -> str:
    """Return the id of the latest finished run of that name which read the pinned data and no other."""
    found = [run.info.run_id for run in tracked(pinned, root) if run.info.run_name == name]
    if not found:
        raise DataError(
            f"No tracked run {name!r} read the data of version {pinned.name} alone, so that nothing says how this model was "
            f"trained. `caramel runs {pinned.name}` lists the runs that did."
        )
    return str(found[-1])


def _version(client: MlflowClient, name: str, weights: str) -> str | None:
    """Return the version of these weights, if there is one."""
    found = client.search_model_versions(f"name = '{name}'")
    return next((str(each.version) for each in found if each.tags.get(CONTENT) == weights), None)


def _made(client: MlflowClient, name: str, run_id: str, folder: Path) -> str:
    """Log the checkpoint to its run, and make a version of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own classes, when it is imported
        from mlflow.pyfunc import save_model

    logging.getLogger("mlflow.models.model").setLevel(logging.ERROR)  # that there is no signature
    with TemporaryDirectory() as scratch:
        model = Path(scratch, ARTIFACT)
        needed = [f"caramel=={metadata.version('caramel')}"]
        save_model(model, loader_module=as_mlflow.__name__, data_path=str(folder), pip_requirements=needed)
        client.log_artifacts(run_id, str(model), ARTIFACT)
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    return str(client.create_model_version(name, f"runs:/{run_id}/{ARTIFACT}", run_id).version)


def resolved(spec: str) -> str:
    """Return the spec of a model with the folder of a checkpoint in place of ``models:/NAME/VERSION`` or ``models:/NAME@ALIAS``.

    Other specs stay as they are. Without a label, the model's name in tables is what stands after ``models:/``.

    Raises:
        BackendError: there is no such version, or none that `caramel register` made.
        ConfigError, DataError, ResourceError: the store or server cannot be read.
    """
    named = _LABELLED.fullmatch(spec)
    if named is None:
        return spec
    root = store_root()
    uri, (name, mark, which) = tracking_uri(root), _PARTS.split(named["rest"])
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        client = mlflow.MlflowClient(uri)
        version = (
            client.get_model_version_by_alias(name, which)
            if mark == "@"
            else client.get_model_version(name, which)
        )
        # At a place of its own: what was scored before is found again.
        place = root / WORK / "registered" / f"{name}-{version.version}"
        folder = _whole(place, version.tags)
        if folder is None:
            empty_folder(place)
            mlflow.artifacts.download_artifacts(
                f"{REGISTERED}{name}/{version.version}", dst_path=str(place), tracking_uri=uri
            )
            folder = _whole(place, version.tags)
    except (MlflowException, OSError) as error:
        raise BackendError(f"Model {spec!r} cannot be had from the registry: {str(error)[:300]}") from error
    if folder is None:
        raise BackendError(
            f"Model {spec!r} holds no checkpoint as `caramel register` put it there, or other weights."
        )
    return f"{named['label'] or f'{name} {which}'}=open_clip:{folder}"


def _whole(place: Path, tags: Mapping[str, str]) -> Path | None:
    """Return the folder of the one checkpoint below a place whose weights are those that were registered."""
    found = [path for path in sorted(place.rglob(WEIGHTS)) if file_hash(path) == tags.get(CONTENT)]
    return found[0].parent if len(found) == 1 else None
