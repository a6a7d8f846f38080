"""Apply a profile: a file in ``params/`` with the differences from ``params/default.yaml``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caramel.config.schema import Config, parse_config, read_mapping
from caramel.errors import ConfigError
from caramel.io.files import write_atomically
from caramel.io.regular_files import read_plain_text
from caramel.io.safe_yaml import parse_yaml


def write_profile(name: str, sets: Mapping[str, str], root: Path) -> Path:
    """Write ``params.yaml`` for a profile, keeping the comments of ``params/default.yaml``.

    Arguments and errors are those of ``read_profile``. On an error the old file is kept.
    """
    target = root / "params.yaml"
    text, _ = read_profile(name, sets, root)
    write_atomically(target, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return target


def read_profile(name: str, sets: Mapping[str, str], root: Path) -> tuple[str, Config]:
    """Return the content of ``params.yaml`` for a profile, as text and as config.

    Args:
        name: a file ``params/NAME.yaml``.
        sets: further values by dotted key, as YAML text.
        root: the project's folder.

    Raises:
        ConfigError: ``root`` is not a project, the profile does not exist, or a key or value is invalid.
    """
    choices = sorted(p.stem for p in (root / "params").glob("*.yaml"))
    if not choices:
        raise ConfigError(
            f"{root.resolve()} holds no profile (params/*.yaml): it is not a caramel project. "
            f"Run this in the project's folder, or create one: `caramel new DIR`."
        )
    if name not in choices:
        raise ConfigError(f"Unknown profile {name!r}. Choices: {', '.join(choices)}.")
    default = root / "params" / "default.yaml"
    values = read_mapping(default, "Restore it from git.")
    text = read_plain_text(default)
    if name != "default" or sets:
        text = _merge_profile(text, read_mapping(root / "params" / f"{name}.yaml", ""), sets)
        values = parse_yaml(text, f"profile {name!r}")
    return text, parse_config(values, f"profile {name!r}")


def _merge_profile(default: str, profile: Mapping[str, Any], sets: Mapping[str, str]) -> str:
    """Return the text of the default with the changes of a profile and further values. Comments are kept."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 120
    merged = yaml.load(default)
    _merge_changes(merged, profile)
    for key, text in sets.items():
        nested = parse_yaml(text, f"--set {key}={text!r}")
        for part in reversed(key.split(".")):
            nested = {part: nested}
        _merge_changes(merged, nested)
    written = io.StringIO()
    yaml.dump(merged, written)
    return written.getvalue()


def _merge_changes(base: Any, changes: Mapping[str, Any]) -> None:
    """Merge nested changes into ``base`` in place."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            _merge_changes(base[key], value)
        else:
            base[key] = value
