"""Find the tracked runs that used a pinned version, and tag them with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from caramel.release.pin_file import Pin
from caramel.runtime.mlflow.retry import iter_pages
from caramel.runtime.mlflow.store import has_store
from caramel.runtime.mlflow.tracking import DIGEST, open_store

if TYPE_CHECKING:
    from mlflow.entities import Run

COLUMNS = ("run", "name", "stage", "variant", "seed", "benchmark", "commit")


def format_tag(pinned: Pin) -> str:
    """Return the tag of a version's runs; its value is the start of the version's hash."""
    return f"pin.{pinned.name}"


def list_runs(pinned: Pin, root: Path) -> pd.DataFrame:
    """Return the tracked runs whose recorded inputs are all this version's data, oldest first, as ``COLUMNS``.

    Raises:
        ConfigError, DataError, ResourceError: the store cannot be read; see ``tracking.plan``.
    """
    return pd.DataFrame([_build_row(run) for run in find_tracked_runs(pinned, root)], columns=list(COLUMNS))


def tag_runs(pinned: Pin, root: Path) -> int:
    """Tag the version's runs, so that MLflow's pages find them; return their number.

    Raises:
        ConfigError, DataError, ResourceError: as in ``list_runs``.
    """
    if not (runs := find_tracked_runs(pinned, root)):
        return 0
    with open_store(root) as (client, _):
        for run in runs:
            client.set_tag(run.info.run_id, format_tag(pinned), pinned.data[:16])
    return len(runs)


def find_tracked_runs(pinned: Pin, root: Path) -> list[Run]:
    """Return the runs whose inputs are all outputs of the version; create no store if there is none."""
    if not has_store(root):
        return []
    digests = {path: digest[:DIGEST] for path, digest in pinned.outs.items()}
    with open_store(root) as (client, experiment):
        order = ["attributes.start_time ASC"]
        runs = list(iter_pages(client.search_runs, experiment_ids=[experiment], order_by=order))

    def is_of_version(run: Run) -> bool:
        inputs = [item.dataset for item in run.inputs.dataset_inputs]
        return bool(inputs) and all(digests.get(item.name) == item.digest for item in inputs)

    return [run for run in runs if is_of_version(run)]


def _build_row(run: Run) -> tuple[Any, ...]:
    """Return the values of ``COLUMNS`` for a run; missing ones are empty."""
    tags, params = run.data.tags, run.data.params
    values = [tags.get(name) or params.get(name, "") for name in ("stage", "variant", "seed", "benchmark")]
    return (run.info.run_id, run.info.run_name, *values, tags.get("git.commit", "")[:12])
