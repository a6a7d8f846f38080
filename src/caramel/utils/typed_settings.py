"""Settings as frozen dataclasses, built from flat mappings such as a section of the params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from caramel.errors import ConfigError

Settings = TypeVar("Settings")


def build_settings(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return a dataclass whose fields have these values.

    A field that is a dataclass itself takes the keys of its own fields from the same mapping, or from a mapping under its name.
    A list becomes a tuple where the field is one.

    Raises:
        ConfigError: a key belongs to no field, or a field without default has no value.
    """
    unused = dict(values)
    built = _build_fields(cls, unused)
    if unused:
        raise ConfigError(f"Unknown settings of {cls.__name__}: {', '.join(sorted(unused))}.")
    return built


def _build_fields(cls: type[Settings], unused: dict[str, Any]) -> Settings:
    """Build the dataclass and take what it uses out of the mapping."""
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        declared = _strip_none(hints[field.name])
        if field.name in unused:
            given[field.name] = _convert_value(declared, unused.pop(field.name))
        elif is_dataclass(declared):
            given[field.name] = _build_fields(declared, unused)  # type: ignore[arg-type]
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"Missing setting of {cls.__name__}: {field.name}.")
    return cls(**given)


def _convert_value(declared: Any, value: Any) -> Any:
    if is_dataclass(declared) and isinstance(value, Mapping):
        return build_settings(declared, value)  # type: ignore[arg-type]
    return tuple(value) if get_origin(declared) is tuple and isinstance(value, list) else value


def _strip_none(declared: Any) -> Any:
    """Return ``X`` for ``X | None``."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    left = [option for option in get_args(declared) if option is not NoneType]
    return left[0] if len(left) == 1 else declared
