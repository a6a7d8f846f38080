"""Options ``--push`` and ``--yes`` of the commands that release, and what they print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from caramel.cli.options import Command
from caramel.cli.output import echo
from caramel.errors import ConfigError, count_of

if TYPE_CHECKING:
    from caramel.release.hub import HubRepository


def add_push_options(form: str) -> Callable[[Command], Command]:
    """Return a decorator that adds both options; ``form`` is the form of the address."""

    def decorate(command: Command) -> Command:
        command = click.option("--yes", is_flag=True, help="With --push: send the release.")(command)
        return click.option(
            "--push",
            metavar=form,
            help="Repository of the hub for the release; says what would be sent, and sends nothing without --yes. A "
            "finished release in OUT is checked and not built again.",
        )(command)

    return decorate


def open_repository(push: str | None, yes: bool, repo_type: str) -> HubRepository | None:
    """Return the repository to send to, or None without ``--push``.

    Raises:
        ConfigError: the address has another form.
        UsageError: ``--yes`` without ``--push``.
    """
    from caramel.release.hub import parse_hub_address

    if push is None and yes:
        raise click.UsageError("--yes belongs to --push.")
    return None if push is None else parse_hub_address(push, repo_type)


def is_release_of(
    out: Path, released: str, source: Path, options: Mapping[str, Any], *, strict: bool = False
) -> bool:
    """Return whether a folder holds a finished release whose file ``released`` is an unchanged copy of ``source``.

    Raises:
        ConfigError: that release was built with other options, or with ``strict`` it has open points.
    """
    from caramel.io.readers import read_json
    from caramel.release.publishing.build import OPTIONS, SUMS

    files = [out / SUMS, out / OPTIONS, out / released, source]
    if not all(file.is_file() for file in files) or (out / released).read_bytes() != source.read_bytes():
        return False
    built = read_json(out / OPTIONS)
    if not isinstance(built, dict) or not {*options, "open"} <= built.keys():
        return False
    different = [f"another --{name}" for name, value in options.items() if built[name] != value]
    if strict and built["open"]:
        different.append(count_of(built["open"], "open point"))
    if different:
        raise ConfigError(
            f"{str(out)!r} holds a finished release, which --push sends as it is, and it has {', '.join(different)}. "
            f"Give a new folder with --out, so that the options of this call count."
        )
    return True


def push_or_report(out: Path, repository: HubRepository, yes: bool, message: str) -> None:
    """Send a release, or print what would be sent."""
    from caramel.release.hub import list_release_files, push_release

    if yes:
        echo(f"Sent as one commit: {push_release(out, repository, message)}")
        return
    files = list_release_files(out)
    echo(
        f"Nothing was sent. --yes sends {count_of(len(files), 'file')}, {sum(files.values()) / 2**20:,.1f} MiB, to {repository.url} as "
        f"one commit, which removes all other files there. A new repository is private."
    )
