"""Commands ``config``: write params.yaml from a profile."""

from __future__ import annotations

from pathlib import Path

import click

from caramel.cli.options import add_set_option, parse_set_options
from caramel.cli.output import echo
from caramel.errors import ConfigError


@click.group("config")
def config_group() -> None:
    """Write params.yaml from a profile.

    \b
    Example:
      caramel config use smoke
    """


@config_group.command("use")
@click.argument("name")
@add_set_option
def use_profile(name: str, sets: tuple[str, ...]) -> None:
    """Write params.yaml for a profile and print what changed.

    NAME is the name of a file params/NAME.yaml.

    \b
    Example:
      caramel config use smoke
      caramel config use default --set scenes.train=2000 --set "finetune.seeds=[11, 12]"
    """
    from caramel.config.profiles import write_profile
    from caramel.io.safe_yaml import flatten_mapping, read_yaml

    path = Path("params.yaml")
    try:
        before = flatten_mapping(read_yaml(path, ""))
    except ConfigError:
        before = {}  # missing or broken: this command fixes it
    write_profile(name, parse_set_options(sets), Path())
    after = flatten_mapping(read_yaml(path, ""))
    for key in [*after, *(k for k in before if k not in after)]:
        if before.get(key) != after.get(key):
            echo(f"{key}: {before.get(key)!r} -> {after.get(key)!r}")
    echo("params.yaml is unchanged." if before == after else f"Wrote {path}. Now run `dvc repro`.")
