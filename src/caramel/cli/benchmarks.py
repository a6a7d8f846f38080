"""Command ``benchmarks``: list the benchmarks that models can be scored on."""

from __future__ import annotations

import click

from caramel.cli.output import echo


@click.command("benchmarks")
@click.argument("name", required=False)
def list_benchmarks(name: str | None) -> None:
    """List the benchmarks, or show how to install one of them.

    With NAME, says where the benchmark is published and which files belong in which folder.

    \b
    Example:
      caramel benchmarks
      caramel benchmarks sugarcrepe
    """
    from caramel.registry import BENCHMARKS

    if name is None:
        for known in BENCHMARKS.targets:
            echo(f"{known:24}{', '.join(BENCHMARKS[known].metrics)}")
        for plugin in BENCHMARKS.plugins.values():
            echo(f"{plugin.name:24}of package {plugin}")
        return
    benchmark = BENCHMARKS[name]
    echo(
        f"{benchmark.name}\nmetrics: {', '.join(benchmark.metrics)}\n{benchmark.layout}\nChecked against: {benchmark.confirmed}."
    )
