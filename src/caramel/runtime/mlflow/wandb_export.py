"""Export tracked runs to Weights & Biases: ``caramel tracking export``.

A run has the same id in W&B, and a tag in MLflow once it was exported: a second call goes on with the rest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from caramel.errors import ConfigError, ResourceError, redact_secrets
from caramel.io.readers import try_parse_json
from caramel.runtime.mlflow.killed_runs import UNFINISHED
from caramel.runtime.mlflow.retry import iter_pages, translate_errors
from caramel.runtime.mlflow.store import open_client
from caramel.runtime.mlflow.store_copy import explain_copy_error, get_origin, iter_runs, resolve_source

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_TARGET = re.compile(r"wandb://([\w.-]+)/([\w.-]+)")
# W&B would record console, code, commit, machine and load of the process that exports.
_OFF = dict.fromkeys(("silent", "disable_git", "disable_code", "x_disable_meta", "x_disable_stats"), True)


class ExportSummary(NamedTuple):
    """The result of an export."""

    exported: list[str]  # a line for each run that was exported, or would be
    known: int  # runs that were exported before
    unfinished: int  # runs that are not exported yet, because they are not finished


def export_runs(source: str, target: str, *, experiment: str | None, dry_run: bool) -> ExportSummary:
    """Export the finished runs that W&B lacks, oldest first: parameters, metrics with steps, tags.

    Artifacts, data sets and MLflow's system metrics are not exported.

    Args:
        source: folder with MLflow's SQLite store (``mlruns``), or the address of a server or database.
        target: ``wandb://ENTITY/PROJECT``.
        experiment: name of the only experiment to export; None: all.
        dry_run: whether to only list what would be exported.

    Raises:
        ConfigError: the target or the experiment does not exist in this form, or wandb is not installed.
        DataError: the source is missing, empty or broken.
        ResourceError: W&B or the server of the source does not take the requests.
    """
    parsed = _TARGET.fullmatch(target)
    if parsed is None:
        raise ConfigError(f"{target!r} is not a project of Weights & Biases. Give wandb://ENTITY/PROJECT.")
    uri, tag = resolve_source(source), f"caramel.exported.{parsed[1]}/{parsed[2]}"
    lines, known, unfinished = [], 0, 0
    with translate_errors(lambda error: explain_copy_error(error, source, target)):
        client = open_client(uri)
        for run in tqdm(_list_runs(client, source, experiment), desc="export", unit="run", disable=None):
            if run.info.status in UNFINISHED:
                unfinished += 1
            elif run.data.tags.get(tag) == str(run.info.end_time):  # else it was resumed since
                known += 1
            else:
                counts = f"{len(run.data.params)} parameters, {len(_list_metrics(run))} metrics"
                lines.append(f"{run.info.run_name}: {counts}")
                if not dry_run:
                    _export_run(client, run, parsed[1], parsed[2])
                    client.set_tag(run.info.run_id, tag, str(run.info.end_time))
    return ExportSummary(lines, known, unfinished)


def _list_runs(client: MlflowClient, source: str, experiment: str | None) -> list[Run]:
    experiments = {one.name: one.experiment_id for one in iter_pages(client.search_experiments)}
    if experiment is not None and experiment not in experiments:
        raise ConfigError(f"{source!r} has no experiment {experiment!r}. It has: {', '.join(experiments)}.")
    return [
        run
        for name, experiment_id in experiments.items()
        if experiment in (None, name)
        for run in iter_runs(client, experiment_id)
    ]


def _list_metrics(run: Run) -> list[str]:
    return [key for key in run.data.metrics if not key.startswith("system/")]


def _parse_param(text: str) -> Any:
    return text if (value := try_parse_json(text)) is None else value  # a number; MLflow stores texts


def _export_run(client: MlflowClient, run: Run, entity: str, project: str) -> None:
    try:
        import wandb
    except ImportError as error:
        raise ConfigError("The export needs wandb: pip install 'caramel[wandb]'.") from error

    steps: dict[int, dict[str, float]] = defaultdict(dict)
    for key in _list_metrics(run):
        for metric in client.get_metric_history(run.info.run_id, key):
            steps[metric.step][key] = metric.value
    tags = {key: value for key, value in run.data.tags.items() if not key.startswith(("mlflow.", "caramel."))}
    labels = [label for key, value in tags.items() if len(label := f"{key}:{value}") <= 64]  # characters
    config = {key: _parse_param(value) for key, value in run.data.params.items()}
    config |= {"tags": tags, "start_time": run.info.start_time}
    try:
        with wandb.init(
            entity=entity, project=project, id=get_origin(run), name=run.info.run_name, config=config,
            tags=labels, job_type=tags.get("stage"), resume="allow", reinit="finish_previous",
            settings=wandb.Settings(console="off", **_OFF),
        ) as exported:  # fmt: skip
            for step in sorted(steps):  # W&B skips the steps that a call before this one sent
                exported.log(steps[step], step=step)
            exported.finish(exit_code=int(run.info.status != "FINISHED"))
    except wandb.errors.Error as error:
        text = " ".join(redact_secrets(str(error)).split())[:300]
        raise ResourceError(f"Run {run.info.run_name!r} cannot be exported to W&B: {text}") from error
