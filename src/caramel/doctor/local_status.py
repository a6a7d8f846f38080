"""What ``dvc status`` says of a project, unless it would ask another machine: a program, started in the project's folder.

A graph may name files at addresses. DVC asks their servers, by this user's logins, while it only says what is current.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

ELSEWHERE = 90  # exit code where something is at an address; none of DVC's


def find_addresses(stages: Iterable[Any]) -> Iterator[str]:
    """Yield what stages of DVC read or write that is no file of this machine."""
    from dvc.dependency import Dependency, ParamsDependency
    from dvc.output import Output

    for stage in stages:
        for item in (*stage.deps, *stage.outs):
            # Other classes are files of git repositories, tables of databases, data sets of a service.
            if type(item) not in (Dependency, ParamsDependency, Output) or item.protocol != "local":
                yield str(item.def_path)


def main() -> int:
    """Print the status as JSON; return DVC's exit code, or ``ELSEWHERE`` with the addresses on stderr."""
    from dvc.cli import main as dvc
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with suppress(DvcException), Repo() as repo:  # what is broken DVC says itself, below
            if addresses := sorted({*find_addresses(repo.index.stages)}):
                print(", ".join(addresses), file=sys.stderr)
                return ELSEWHERE
        return int(dvc(["status", "--json"]))
    except Exception as error:  # noqa: BLE001 - DVC's readers raise many kinds of settings and repositories that are none
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # A shell has it ignored by what it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
