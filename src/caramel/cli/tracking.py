"""Commands ``tracking``: copy the history of tracked runs."""

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
