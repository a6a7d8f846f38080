"""Option ``--config``: a YAML file with the options of a command. Options on the command line have precedence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from caramel.errors import ConfigError
from caramel.io.safe_yaml import read_yaml

CONFIG = "config"  # the option that a file cannot hold


def _read_defaults(ctx: click.Context, option: click.Parameter, path: Path | None) -> None:
    """Make the file's values the defaults of the command, before its other options are processed."""
    if path is not None:
        ctx.default_map = read_options(path, ctx.command)


add_config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_read_defaults,
    metavar="FILE",
    help="YAML file with options of this command as keys, such as `batch-size: 64`. The command line has precedence.",
)


def read_options(path: Path, command: click.Command) -> dict[str, Any]:
    """Return the options in a YAML file by the names of the command's parameters.

    Keys are the options without ``--``. A value is written as on the command line, a flag as true or false. A list
    gives a repeatable option several times. Where an option takes names joined by commas, it gives the names. Paths
    are relative to the working directory, as on the command line.

    Raises:
        ConfigError: the file is missing or not such a mapping, or a key is unknown or occurs twice.
    """
    document = read_yaml(path, "Give the path of a YAML file with --config.")
    if not isinstance(document, Mapping):
        raise ConfigError(
            f"{str(path)!r} must hold options as keys, such as `model: ViT-B-32-quickgelu:openai`."
        )
    options = {
        name.removeprefix("--"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name.startswith("--") and name.removeprefix("--") != CONFIG
    }
    values: dict[str, Any] = {}
    for key, value in document.items():
        option = options.get(str(key).replace("_", "-"))
        if option is None:
            near = difflib.get_close_matches(str(key), options, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"{str(path)!r}: unknown key {str(key)!r}.{hint} The keys are the options of `caramel {command.name}`: "
                f"{', '.join(options)}."
            )
        assert option.name is not None
        if option.name in values:
            raise ConfigError(f"{str(path)!r}: option {str(key)!r} is given twice. Remove one of the lines.")
        if value is not None:
            values[option.name] = _convert_value(value, option, f"{str(path)!r}: {key}")
    return values


def _convert_value(value: Any, option: click.Option, where: str) -> Any:
    """Return a value in the form in which click parses a default; click then checks its type and range.

    Raises:
        ConfigError: it is a mapping, a flag that is not true or false, or a list for an option with one value.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{where} is {value!r}. Write true or false.")
        return value
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in items):
        raise ConfigError(f"{where} is {value!r}. Write a text, a number or a list of these.")
    texts = list(map(str, items))
    if option.multiple:
        return texts
    if isinstance(value, list) and "," not in (option.metavar or ""):
        raise ConfigError(f"{where} is a list, but the option has one value.")
    return ",".join(texts)
