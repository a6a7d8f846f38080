"""docs/papers.md has all 97 items, and every path, command and profile that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from caramel.cli.commands import cli
from caramel.config.profiles import read_profile

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
NAMED = sorted({name for row in ROWS for cell in row[1:] for name in re.findall(r"`([^`]+)`", cell)})
PATHS = [
    name for name in NAMED if re.fullmatch(r"[\w./-]+", name) and ("/" in name or name.endswith(".yaml"))
]
COMMANDS = [name.removeprefix("caramel ").split() for name in NAMED if name.startswith("caramel ")]
KEYS = [
    name
    for name in NAMED
    if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) and not name.endswith((".yaml", ".csv"))
]
OPTIONS = re.findall(r"`(--[a-z-]+)` of `caramel ([a-z -]+)`", PAGE)


def test_every_item_has_one_row() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 98))
    assert len(PATHS) > 70


@pytest.mark.parametrize("name", PATHS)
def test_every_path_exists(name: str) -> None:
    assert (ROOT / name).exists() or (ROOT / "src" / "caramel" / name).exists()


def find_command(words: list[str]) -> click.Command:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None, word
        command = found
    return command


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_exists(words: list[str]) -> None:
    assert find_command(words).name == words[-1]


@pytest.mark.parametrize(("option", "words"), OPTIONS)
def test_every_option_exists(option: str, words: str) -> None:
    assert any(option in parameter.opts for parameter in find_command(words.split()).params)


@pytest.mark.parametrize("name", KEYS)
def test_every_key_of_the_params_exists(name: str) -> None:
    value: object = read_profile("default", {}, ROOT)[1]
    for part in name.split("."):
        value = getattr(value, part)


def test_each_row_says_where_it_is_or_what_is_missing() -> None:
    for number, _, where, differs in ROWS:
        assert re.search(r"`|the same", where), number
        assert differs.strip(), number
