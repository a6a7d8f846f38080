"""Commands on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

PORT = 6379  # Ray's own
PORTS = 105  # the head's and those after it: see ``cluster_start``
LEAST_MEMORY = 75 * 2**20  # bytes: Ray refuses less
Command = Callable[..., Any]


def _add_resource_options(command: Command) -> Command:
    """Add the options on what of a machine Ray may use."""
    for name, least, help_ in (
        (
            "--object-store-memory",
            LEAST_MEMORY,
            "Bytes of memory for what tasks send each other. [default: a share of the memory]",
        ),
        ("--num-gpus", 0, "GPUs that work may use. [default: all]"),
        ("--num-cpus", 0, "Processors that work may use; 0 on a machine that only drives. [default: all]"),
    ):
        command = click.option(name, type=click.IntRange(least), help=help_)(command)
    return click.option("--host", help="Address of this machine that the others reach. [default: found]")(
        command
    )


@click.group()
def cluster() -> None:
    """Join this machine with others to a cluster; they need no shared disk. See docs/cluster.md.

    \b
    Example:
      caramel cluster head                      # on one machine, which prints what the others need
      caramel cluster worker 10.0.0.1:6379      # on each of the others
      RAY_ADDRESS=10.0.0.1:6379 dvc repro       # on any of them
    """


@cluster.command()
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(1024, 65536 - PORTS),
    help=f"The next {PORTS - 1} are used as well.",
)
@_add_resource_options
def head(host: str | None, port: int, **resources: int | None) -> None:
    """Run the head of a cluster here, until Ctrl-C.

    \b
    Example:
      caramel cluster head --host 10.0.0.1
    """
    from caramel.runtime.ray.cluster_start import start_head

    start_head(host, port, resources)


@cluster.command()
@click.argument("address", metavar="HOST:PORT")
@_add_resource_options
def worker(address: str, host: str | None, **resources: int | None) -> None:
    """Run a further node of the cluster whose head is at HOST:PORT, until Ctrl-C.

    Where Ray ends on this machine, since the head was gone or the network was cut, it is started again.

    \b
    Example:
      caramel cluster worker 10.0.0.1:6379
      caramel cluster worker 10.0.0.1:6379 --num-gpus 1
    """
    from caramel.runtime.ray.cluster_start import start_worker

    start_worker(address, host, resources)
