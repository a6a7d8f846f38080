"""Commands ``cluster``: join machines to a Ray cluster."""

from __future__ import annotations

import click

from caramel.cli.options import Command

PORT = 6379  # Ray's default
PORTS = 105  # number of ports from the head's port on: see ``cluster_start``
LEAST_MEMORY = 75 * 2**20  # in bytes; Ray's minimum


def _add_resource_options(command: Command) -> Command:
    """Add the options for the resources that Ray may use on this machine."""
    for name, least, help_ in (
        (
            "--object-store-memory",
            LEAST_MEMORY,
            "Bytes of memory for objects that tasks send each other.  [default: a share of the memory]",
        ),
        ("--num-gpus", 0, "Number of GPUs that tasks may use.  [default: all]"),
        (
            "--num-cpus",
            0,
            "Number of CPU cores that tasks may use; 0 on a machine that runs no tasks.  [default: all]",
        ),
    ):
        command = click.option(name, type=click.IntRange(least), help=help_)(command)
    return click.option(
        "--host", help="Address of this machine that the other machines can reach.  [default: detected]"
    )(command)


@click.group("cluster")
def cluster_group() -> None:
    """Join this machine with others to a cluster.

    The machines need no shared disk; docs/cluster.md says how they work together.

    \b
    Example:
      caramel cluster head                      # on one machine; it prints the commands for the rest
      caramel cluster worker 10.0.0.1:6379      # on each other machine
      RAY_ADDRESS=10.0.0.1:6379 dvc repro       # on any of them
    """


@cluster_group.command("head")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(1024, 65536 - PORTS),
    help=f"Port of the head; the next {PORTS - 1} ports are used as well.",
)
@_add_resource_options
def start_head_node(host: str | None, port: int, **resources: int | None) -> None:
    """Run the head node of a cluster here, until Ctrl-C.

    \b
    Example:
      caramel cluster head --host 10.0.0.1
    """
    from caramel.runtime.ray.cluster_start import start_head

    start_head(host, port, resources)


@cluster_group.command("worker")
@click.argument("address", metavar="HOST:PORT")
@_add_resource_options
def start_worker_node(address: str, host: str | None, **resources: int | None) -> None:
    """Run a worker node here, until Ctrl-C.

    The head of its cluster is at HOST:PORT. If Ray stops on this machine, because the head ended or the network
    failed, it is started again.

    \b
    Example:
      caramel cluster worker 10.0.0.1:6379
      caramel cluster worker 10.0.0.1:6379 --num-gpus 1
    """
    from caramel.runtime.ray.cluster_start import start_worker

    start_worker(address, host, resources)
