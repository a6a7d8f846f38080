"""Find the tracked run that trained a model on disk: it finished, read only the pin's data, and had the pin's params."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.config.renamed import rename_params
from caramel.errors import DataError
from caramel.release.pin_file import Pin
from caramel.release.runs import find_tracked_runs
from caramel.training.variants import Schedule, resolve_steps, set_up

if TYPE_CHECKING:
    from mlflow.entities import Run

OVERRIDES = "data/finetune/overrides.json"  # settings of single variants, including those chosen by a search
FORMER_OVERRIDES = "data/finetune/own.json"  # of caramel 0.1


def find_training_run(run: str, output: str, pinned: Pin, root: Path) -> str:
    """Return the id of the latest run that could have made a model; runs with equal params give equal models.

    Args:
        run: name of the model, as in the tables of results.
        output: the model's output, ``data/base`` or ``data/finetune``, unchanged on disk since it was pinned.
        pinned: version of the data.
        root: the project's folder.

    Raises:
        DataError: no run matches, or several with different params do.
        ConfigError, ResourceError: the store cannot be read.
    """
    name = "pretrain" if output == "data/base" else f"finetune {run}"
    named = [candidate for candidate in find_tracked_runs(pinned, root) if candidate.info.run_name == name]
    if not named:
        raise DataError(
            f"No tracked run {name!r} read only the data of version {pinned.name}, so it is unknown how this model was "
            f"trained. `caramel runs {pinned.name}` lists the runs that did."
        )
    why = {
        candidate.info.run_id: _explain_mismatch(candidate, run, output, pinned, root) for candidate in named
    }
    matches = [candidate for candidate in named if not why[candidate.info.run_id]]
    if not matches:
        reasons = "; ".join(f"{run_id} {reason}" for run_id, reason in why.items())
        raise DataError(f"No tracked run {name!r} made this model of version {pinned.name}: {reasons}.")
    params = [candidate.data.params for candidate in matches]
    if unlike := sorted(
        {
            key
            for candidate in params
            for key in {**candidate, **params[0]}
            if candidate.get(key) != params[0].get(key)
        }
    ):
        raise DataError(
            f"Several tracked runs {name!r} could have made this model: {', '.join(candidate.info.run_id for candidate in matches)}. They differ in "
            f"{', '.join(unlike)}. Delete the wrong ones: `mlflow runs delete --run-id ID`."
        )
    return str(matches[-1].info.run_id)


def _explain_mismatch(tried: Run, run: str, output: str, pinned: Pin, root: Path) -> str:
    """Return why a run cannot have made the model; "" if it can."""
    if tried.info.status != "FINISHED":
        return f"is {tried.info.status}"
    section = "pretrain" if output == "data/base" else "finetune"
    params = rename_params({section: tried.data.params})[section]  # caramel 0.1 logged its former names
    try:
        wanted = (
            pinned.params["pretrain"]
            if output == "data/base"
            else _build_variant_params(run, pinned.params["finetune"], int(params.get("train_rows", 0)), root)
        )
    except KeyError as error:
        raise DataError(
            f"The params of version {pinned.name} lack {error}: another version of caramel wrote them, so the run that made "
            f"the model cannot be found."
        ) from error
    other = [
        f"{key} {params[key]}, not {value}"
        for key, value in wanted.items()
        if not _is_logged_value(params.get(key), value)
    ]
    return f"had {', '.join(other)}" if other else ""


def _build_variant_params(run: str, section: Mapping[str, Any], rows: int, root: Path) -> dict[str, Any]:
    """Return the params that stage ``finetune`` tracks for a model, from those of its section."""
    variant = run.rpartition("-")[0]
    paths = [path for name in (OVERRIDES, FORMER_OVERRIDES) if (path := root / name).is_file()]
    overrides = json.loads(paths[0].read_text(encoding="utf-8")) if paths else section["overrides"]
    overrides = rename_params({"finetune": {"overrides": overrides}})["finetune"]["overrides"]
    settings = {**section, **overrides.get(variant, {})}
    method = set_up(variant, settings["negatives"], settings.pop("weights", {}))
    weights = {f"weight_{name}": weight for name, weight in method.weights.items()}
    schedule = Schedule(**{field.name: settings[field.name] for field in fields(Schedule)})
    steps, checkpoint_every = resolve_steps(method, schedule, rows)
    resolved = {**settings, "steps": steps, "checkpoint_every": checkpoint_every}
    del resolved["epochs"], resolved["evals_per_epoch"]
    return {**resolved, **weights, "negatives": method.negatives}


def _is_logged_value(logged: str | None, value: object) -> bool:
    """Return whether a param was logged with this JSON value, or not at all."""
    if logged is None or logged == value:
        return True
    try:
        return bool(
            json.loads(json.dumps(ast.literal_eval(logged))) == value
        )  # Python's tuples are JSON's lists
    except (SyntaxError, TypeError, ValueError):
        return False
