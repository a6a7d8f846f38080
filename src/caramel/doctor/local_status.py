"""Print ``dvc status`` of a project unless it would contact another machine; a program run in the project's folder.

A graph may name files at remote addresses. DVC contacts their servers with this user's logins even for a mere
status.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

ELSEWHERE = 90  # exit code for remote addresses; DVC does not use it


def find_addresses(stages: Iterable[Any]) -> Iterator[str]:
    """Yield the dependencies and outputs of DVC stages that are not files on this machine."""
    from dvc.dependency import Dependency, ParamsDependency
    from dvc.output import Output

    for stage in stages:
        for item in (*stage.deps, *stage.outs):
            # Other classes are files of git repositories, database tables and data sets of a service.
            if type(item) not in (Dependency, ParamsDependency, Output) or item.protocol != "local":
                yield str(item.def_path)


def main() -> int:
    """Print the status as JSON; return DVC's exit code, or ``ELSEWHERE`` with the addresses on stderr."""
    from dvc.cli import main as dvc
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with suppress(DvcException), Repo() as repo:  # DVC reports broken files itself, below
            if addresses := sorted({*find_addresses(repo.index.stages)}):
                print(", ".join(addresses), file=sys.stderr)
                return ELSEWHERE
        return int(dvc(["status", "--json", "dvc.yaml"]))
    except Exception as error:  # noqa: BLE001 - DVC's readers raise many kinds of settings and repositories that are none
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # Background jobs of a shell ignore this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
