"""Command ``benchmarks``: list the benchmarks that models can be scored on, and fetch their public files."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import FOLDER
from caramel.cli.output import echo
from caramel.errors import BackendError


@click.command("benchmarks")
@click.argument("name", required=False)
@click.option(
    "--fetch",
    "folder",
    type=FOLDER,
    metavar="FOLDER",
    help="Download the public files of NAME into FOLDER/NAME, where their licence permits it.",
)
def list_benchmarks(name: str | None, folder: Path | None) -> None:
    """List the benchmarks, show how to install one, or fetch it.

    With NAME, says where the benchmark is published and which files belong in which folder. With --fetch, prints the
    licence and downloads the files, each checked by its SHA-256. An interrupted download continues.

    \b
    Example:
      caramel benchmarks
      caramel benchmarks sugarcrepe
      caramel benchmarks sugarcrepe --fetch data/
    """
    from caramel.registry import BENCHMARKS

    if name is None:
        if folder is not None:
            raise click.UsageError("--fetch needs the NAME of a benchmark.")
        for known in BENCHMARKS.targets:
            try:
                text = ", ".join(BENCHMARKS[known].metrics)
            except BackendError as error:  # a plugin has the same name
                text = str(error)
            echo(f"{known:24}{text}")
        for plugin in BENCHMARKS.plugins.values():
            echo(f"{plugin.name:24}of package {plugin}")
        return
    benchmark = BENCHMARKS[name]
    if folder is not None:
        _fetch_files(benchmark.name, folder)
        return
    echo(
        f"{benchmark.name}\nmetrics: {', '.join(benchmark.metrics)}\n{benchmark.layout}\nChecked against: {benchmark.confirmed}."
    )


def _fetch_files(name: str, folder: Path) -> None:
    """Fetch a benchmark's files, and print their licence before and each file after it."""
    from caramel.benchmarks.fetch import FetchedFile, fetch_benchmark, find_download

    def report(file: FetchedFile) -> None:
        echo(f"{file.path}: {'fetched' if file.is_new else 'is there'}, SHA-256 is right")

    download = find_download(name)
    echo(f"{name}, from {download.url}\nLicence: {download.licence}")
    fetch_benchmark(name, folder, report)
    echo(f"Not fetched: {download.absent}.")
