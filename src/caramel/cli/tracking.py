"""Commands ``tracking``: copy the history of tracked runs, and export it to Weights & Biases."""

from __future__ import annotations

import click

from caramel.cli.output import echo
from caramel.errors import DataError, count_of, format_items


@click.group("tracking")
def tracking_group() -> None:
    """Copy the history of tracked runs to another store.

    \b
    Example:
      caramel tracking copy mlruns http://tracking.example.org:5000
    """


@tracking_group.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy_runs(source: str, target: str) -> None:
    """Copy all tracked runs from one store to another.

    FROM and TO are each an mlruns/ folder, or the address of an MLflow server. Copies the experiments, runs, parameters,
    metrics with steps and times, tags, inputs and artifacts that are missing in TO. A second call continues an
    interrupted one. Nothing is removed. Artifacts beside the database are found even if the folder was moved. Files
    that cannot be read are skipped and listed, with exit code 1.

    \b
    Example:
      caramel tracking copy mlruns http://tracking.example.org:5000
      caramel tracking copy http://tracking.example.org:5000 mlruns
    """
    from caramel.runtime.mlflow.store_copy import copy_history

    done = copy_history(source, target)
    echo(
        f"{count_of(done.runs, 'run')}: {done.created} copied, {done.mended} completed, the others were already complete."
    )
    if done.unread:
        echo(f"Skipped, because they cannot be read:\n{format_items(done.unread, 50)}", err=True)
    if done.lost:
        raise DataError(
            f"Artifacts of these runs were not copied, because their folder is missing:\n{format_items(done.lost)}\n"
            f"Restore each at its path, or beside the database as `artifacts`, and run this command again."
        )
    if done.unread:
        raise DataError(
            f"Files or folders of artifacts that were not copied: {len(done.unread)}. Make them readable, or delete them, "
            f"and run this command again."
        )


@tracking_group.command("export")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--experiment", help="Name of the only experiment to export.  [default: all]")
@click.option("--dry-run", is_flag=True, help="List what would be exported, and export nothing.")
def export_tracked_runs(source: str, target: str, experiment: str | None, dry_run: bool) -> None:
    """Export finished runs to Weights & Biases.

    FROM is an mlruns/ folder, or the address of an MLflow server. TO is wandb://ENTITY/PROJECT. Exports parameters,
    metrics with steps, and tags, but no artifacts. A run that was exported has a tag in FROM and is not exported again,
    unless it was resumed since. Needs wandb (pip install 'caramel[wandb]') and its login; with WANDB_MODE=offline the
    runs are written to the folder wandb/.

    \b
    Example:
      caramel tracking export mlruns wandb://my-team/caramel --dry-run
      caramel tracking export mlruns wandb://my-team/caramel
    """
    from caramel.runtime.mlflow.wandb_export import export_runs

    done = export_runs(source, target, experiment=experiment, dry_run=dry_run)
    for line in done.exported:
        echo(line)
    echo(
        f"{len(done.exported)} runs {'would be exported' if dry_run else 'exported'}; {done.known} were exported before, "
        f"{done.unfinished} are not finished."
    )
