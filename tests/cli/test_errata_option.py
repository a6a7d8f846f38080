"""Option ``--errata`` of the commands that have it: a file, or the errata that caramel holds."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from commands import call_command

from caramel.cli.commands import cli
from caramel.cli.options import ERRATA_FILE
from caramel.io.validators import format_value

COMMANDS = ("eval", "explore", "metrics", "table")


def test_the_option_is_the_same_in_all_commands() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    types = {name: p.type for name, one in commands.items() if one for p in one.params if p.name == "errata"}
    assert types == dict.fromkeys(COMMANDS, ERRATA_FILE)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", ["", "nowhere.yaml", "knwon", ".", "a\0b", "a" * 300])
def test_what_is_no_file_is_one_clear_error(value: str, command: str, tmp_path: Path) -> None:
    done = call_command(tmp_path, command, "--errata", value)
    assert done.returncode == 2
    assert (
        f"'--errata': {format_value(value)} is not a file. Give a file of errata, or `known`." in done.stderr
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", ["errata.yaml", "known"])
def test_a_file_and_the_known_errata_are_taken(value: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "errata.yaml").touch()
    done = call_command(tmp_path, command, "--errata", value)
    assert (done.returncode, "--errata" in done.stderr, "Missing" in done.stderr) == (2, False, True)
