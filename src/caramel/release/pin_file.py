"""Read, check and write the file of a pin, without looking at the data on disk.

``pins/NAME.json`` holds the fields of ``Pin`` and a hash of them, so that an edit is detected.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from caramel.config.renamed import rename_params
from caramel.errors import ConfigError, DataError, format_items
from caramel.io.files import write_text
from caramel.io.regular_files import read_plain_text
from caramel.release.version_paths import explain_bad_path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FROM_GIT = "Take the file back from git."
CHECKSUM = "sha256"  # field of the file: hash of the other fields


def _validate_path(path: str) -> str:
    if problem := explain_bad_path(path):
        raise ValueError(problem)
    return path


def _validate_date(text: str) -> str:
    if str(date.fromisoformat(text)) != text:
        raise ValueError("not a date such as 2026-11-21")
    return text


DataPath = Annotated[str, AfterValidator(_validate_path)]
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
DvcHash = Annotated[str, Field(pattern=r"^[0-9a-f]{32}(\.dir)?$")]
Outs = dict[DataPath, DvcHash]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TableVersion(BaseModel):
    """One table: its number of rows, the hash of their content and the MD5 of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rows: int = Field(ge=0)
    content: Sha256
    md5: Md5


class Pin(BaseModel):
    """One version of the data set; ``data`` is one hash over all outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    created: Annotated[str, AfterValidator(_validate_date)]
    commit: str = Field(pattern=r"^([0-9a-f]{40}(-dirty)?|unknown)$")
    data: Sha256
    params: dict[str, Any]
    outs: Outs = Field(min_length=1)
    tables: dict[DataPath, TableVersion]


def get_pin_path(name: str, root: Path) -> Path:
    """Return the path of a pin's file.

    Raises:
        ConfigError: the name has characters other than letters, digits, ``.``, ``_`` and ``-``.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a version: use letters, digits, '.', '_' and '-', as in v1.0."
        )
    return root / "pins" / f"{name}.json"


def read_pin(name: str, root: Path, source: str | None = None) -> Pin:
    """Read a pin and check its internal consistency.

    Args:
        name: of the pin.
        root: the project's folder.
        source: name of the project in messages if the folder is a temporary copy of it.

    Raises:
        DataError: there is no such pin, or the file is broken: it is not JSON, a field has the wrong form, a
            hash does not match its content, or a table belongs to no output.
    """
    path = get_pin_path(name, root)
    label = f"{str(path)!r}" if source is None else f"'pins/{name}.json' of {source!r}"
    cure = FROM_GIT if source is None else "Ask its author for the correct file. Nothing was written."
    if not path.exists():
        names = sorted(p.stem for p in path.parent.glob("*.json"))
        raise DataError(
            f"There is no pin {name!r}. Pins: {', '.join(names) or 'none; make one with `caramel pin`'}."
        )
    try:
        text = read_plain_text(path)
        raw = json.loads(text, object_pairs_hook=_reject_duplicate_fields, parse_constant=_reject_constant)
        if not isinstance(raw, dict):
            raise ValueError(f"an object of fields is expected, not {type(raw).__name__}")
        checksum = raw.pop(CHECKSUM, None)
        pinned = Pin.model_validate(raw)
        problems = _find_contradictions(pinned, name)
    except ValidationError as error:
        raise build_pin_error(label, format_field_errors(error), cure) from error
    except (ValueError, RecursionError) as error:
        raise build_pin_error(label, [str(error)], cure) from error
    if checksum is None and not problems:
        raise DataError(
            f"Pin {label} has no {CHECKSUM}: an older caramel made it, so edits cannot be "
            f"detected. Pin the data again under another name with `caramel pin`."
        )
    if problems := [*problems, *_find_checksum_problems(raw, checksum)]:
        raise build_pin_error(label, problems, cure)
    return pinned.model_copy(update={"params": rename_params(pinned.params)})


def _reject_duplicate_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(fields)
    if len(values) < len(fields):
        raise ValueError(f"duplicate field among {[key for key, _ in fields][:5]!r}")
    return values


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def build_pin_error(label: str, problems: Sequence[str], cure: str = FROM_GIT) -> DataError:
    """Return the error for a broken pin file; ``label`` names the pin, ``cure`` says what to do."""
    return DataError(f"Pin {label} is broken:\n{format_items(list(problems))}\n{cure}")


def format_field_errors(error: ValidationError) -> list[str]:
    """Return one line for each field with the wrong form."""
    return [_format_field_error(dict(e)) for e in error.errors()]


def _format_field_error(error: dict[str, Any]) -> str:
    key = ": ".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return (
            f"{key}: a field that this caramel does not know. A newer one may have made the pin: install that"
        )
    return (
        f"{key}: missing"
        if error["type"] == "missing"
        else f"{key}: {error['msg']}, not {_shorten_value(error['input'])}"
    )


def _shorten_value(value: object) -> str:
    return textwrap.shorten(repr(value), 80)


def _find_checksum_problems(fields: Mapping[str, Any], checksum: object) -> list[str]:
    """Return a problem if the fields do not match the recorded hash."""
    if checksum == (right := _compute_checksum(fields)):
        return []
    return [
        f"{CHECKSUM}: {_shorten_value(checksum)} is not the hash of the other fields, {right!r}: one was edited"
    ]


def _find_contradictions(pinned: Pin, name: str) -> list[str]:
    """Return the contradictions between fields that have the right form."""
    problems = [] if pinned.name == name else [f"name: {pinned.name!r} in the file of {name!r}"]
    if pinned.data != (data := compute_data_hash(pinned.outs, pinned.tables)):
        problems.append(f"data: {pinned.data!r} is not the hash of outs and tables, {data!r}")
    for path, version in pinned.tables.items():
        out = next((out for out in pinned.outs if path == out or path.startswith(f"{out}/")), None)
        if out is None:
            problems.append(f"tables: {path}: in none of the outs")
        elif path == out and version.md5 != pinned.outs[out]:
            problems.append(f"tables: {path}: md5: {version.md5!r}, but {pinned.outs[out]!r} in outs")
    single = {out for out in pinned.outs if out.endswith(".parquet")}
    return problems + [f"tables: {path}: missing" for path in sorted(single - set(pinned.tables))]


def write_pin(pinned: Pin, path: Path) -> None:
    """Write a pin with the hash of its fields."""
    fields = pinned.model_dump()
    text = json.dumps(fields | {CHECKSUM: _compute_checksum(fields)}, indent=1, ensure_ascii=False) + "\n"
    write_text(path, text)


def compute_data_hash(outs: Mapping[str, str], tables: Mapping[str, TableVersion]) -> str:
    """Return one SHA-256 over everything: tables by content, other outputs by DVC's hash."""
    covered = {out for out in outs if out in tables}
    parts = {path: version.content for path, version in tables.items()}
    parts |= {out: digest for out, digest in outs.items() if out not in covered}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _compute_checksum(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
