"""Pin the exact data set version that a paper cites, and check it later.

A pin is ``pins/NAME.json``: the git commit, the params, DVC's hash of every output, and for
every table its rows and a hash of their content, which holds whatever wrote the file. It is
small, goes into git, and needs neither DVC nor a remote to be checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from caramel import tables
from caramel.config import read_yaml
from caramel.errors import ConfigError, DataError, shown
from caramel.files import write_atomically
from caramel.tracking import git_commit

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


REPORT = "report"  # stage whose output is no data


@dataclass(frozen=True)
class TableVersion:
    """One table: its rows, the hash of their content and the hash of the file's bytes."""

    rows: int
    content: str
    md5: str


@dataclass(frozen=True)
class Pin:
    """One version of the data set. ``data`` is one hash over all that was made."""

    name: str
    created: str
    commit: str
    data: str
    params: Mapping[str, Any]
    outs: Mapping[str, str]
    tables: Mapping[str, TableVersion]


def pin(name: str, root: Path) -> Pin:
    """Write ``pins/NAME.json`` for the data on disk and return it; an equal pin is left as it is.

    Raises:
        ConfigError: the name is not one, or is taken by other data.
        DataError: an output is missing, or is not what ``dvc.lock`` records.
    """
    path = pin_path(name, root)
    outs = locked_outs(root)
    _check_disk(outs, root)
    found = {p: table_version(root / p) for out in outs for p in tables_in(out, root)}
    made = Pin(
        name=name,
        created=datetime.now(UTC).date().isoformat(),
        commit=git_commit(root),
        data=combined_hash(outs, found),
        params=read_yaml(root / "params.yaml"),
        outs=outs,
        tables=found,
    )
    if path.exists():
        old = read_pin(name, root)
        if (old.data, old.params) != (made.data, made.params):
            raise ConfigError(
                f"Pin {name!r} exists with other content ({path}; data {old.data[:12]}, now {made.data[:12]}). "
                f"What was cited is never overwritten: choose another name."
            )
        return old
    text = json.dumps(asdict(made), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return made


def pin_path(name: str, root: Path) -> Path:
    """Return the file of a pin.

    Raises:
        ConfigError: the name holds other characters than letters, digits, ``.``, ``_`` and ``-``.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a version: use letters, digits, '.', '_' and '-', as in v1.0."
        )
    return root / "pins" / f"{name}.json"


def read_pin(name: str, root: Path) -> Pin:
    """Return a pin that was written.

    Raises:
        DataError: there is none of that name, or the file is broken.
    """
    path = pin_path(name, root)
    if not path.exists():
        names = sorted(p.stem for p in path.parent.glob("*.json"))
        raise DataError(
            f"There is no pin {name!r}. Pins: {', '.join(names) or 'none; make one with `caramel pin`'}."
        )
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["tables"] = {p: TableVersion(**t) for p, t in raw["tables"].items()}
        return Pin(**raw)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"Pin {str(path)!r} is broken: {error}. Take the file back from git.") from error


def verify(name: str, root: Path) -> list[str]:
    """Return how the data on disk differs from the pinned version, one line each; none: it is that version.

    Raises:
        DataError: there is no such pin, or a table cannot be read.
    """
    pinned = read_pin(name, root)
    return [line for out in pinned.outs for line in _differences(out, pinned, root)]


def _differences(out: str, pinned: Pin, root: Path) -> list[str]:
    """Return how one output differs, table by table where it holds tables."""
    if not (root / out).exists():
        return [f"{out}: missing; run `dvc checkout` or `dvc repro`"]
    if dvc_hash(root / out) == pinned.outs[out]:
        return []
    old = {p: t for p, t in pinned.tables.items() if p == out or p.startswith(f"{out}/")}
    lines = [_difference(path, version, root) for path, version in old.items()]
    lines += [f"{path}: not in the pinned version" for path in tables_in(out, root) if path not in old]
    return [line for line in lines if line] or [f"{out}: changed"]


def _difference(path: str, old: TableVersion, root: Path) -> str:
    """Return how one table differs, or nothing."""
    if not (root / path).exists():
        return f"{path}: missing; run `dvc checkout` or `dvc repro`"
    new = table_version(root / path)
    if new == old:
        return ""
    if new.content == old.content:
        return (
            f"{path}: the same {new.rows} rows in other bytes (written in another order or by other software)"
        )
    return f"{path}: other rows; {new.rows} on disk, {old.rows} pinned"


def locked_outs(root: Path) -> dict[str, str]:
    """Return DVC's hash of every output in ``dvc.lock``, by path, but for the report's.

    The report is a view of the data, and tells when and from what commit it was made.

    Raises:
        DataError: nothing was ever made.
    """
    lock = root / "dvc.lock"
    stages = ((read_yaml(lock) if lock.exists() else None) or {}).get("stages") or {}
    outs = {
        out["path"]: out["md5"]
        for name, stage in stages.items()
        if name != REPORT
        for out in stage.get("outs", ())
    }
    if not outs:
        raise DataError(f"There is no data to pin: {lock} records no outputs. Run `dvc repro`.")
    return dict(sorted(outs.items()))


def _check_disk(outs: Mapping[str, str], root: Path) -> None:
    """Raise a DataError unless what is on disk is what ``dvc.lock`` records."""
    missing = [out for out in outs if not (root / out).exists()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(outs)} outputs in dvc.lock are missing:\n{shown(missing)}\n"
            f"Run `dvc repro` (or `dvc pull`, where there is a remote)."
        )
    changed = [out for out, digest in outs.items() if dvc_hash(root / out) != digest]
    if changed:
        raise DataError(
            f"{len(changed)} of {len(outs)} outputs are not what dvc.lock records:\n{shown(changed)}\n"
            f"Run `dvc repro`, so that the pin names data that these sources and params made."
        )


def dvc_hash(path: Path) -> str:
    """Return DVC's hash of a file, or of a folder: the MD5 of its sorted listing, and ``.dir``."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    files = {p.relative_to(path).as_posix(): p for p in path.rglob("*") if p.is_file()}
    listing = [{"md5": dvc_hash(p), "relpath": name} for name, p in sorted(files.items())]
    text = json.dumps(listing, sort_keys=True).encode()
    return hashlib.md5(text, usedforsecurity=False).hexdigest() + ".dir"


def tables_in(out: str, root: Path) -> list[str]:
    """Return the Parquet files of an output, which may be one or a folder of them."""
    if (root / out).is_dir():
        return sorted(p.relative_to(root).as_posix() for p in (root / out).rglob("*.parquet"))
    return [out] if out.endswith(".parquet") else []


def table_version(path: Path) -> TableVersion:
    """Return what a table is now.

    Raises:
        DataError: the file is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_metadata(path).num_rows
        return TableVersion(rows, tables.content_hash(path), dvc_hash(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"Table {str(path)!r} cannot be read: {error}. Remove it and run `dvc repro`."
        ) from error


def combined_hash(outs: Mapping[str, str], found: Mapping[str, TableVersion]) -> str:
    """Return one SHA-256 over all: tables by content, everything else by DVC's hash."""
    covered = {out for out in outs if out in found}
    parts = {path: version.content for path, version in found.items()}
    parts |= {out: digest for out, digest in outs.items() if out not in covered}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def warnings(pinned: Pin) -> list[str]:
    """Return what a reader would stumble over when rebuilding this version."""
    if pinned.commit == "unknown":
        return ["this is not a git repository: the pin names no sources. Run `git init` and commit."]
    if pinned.commit.endswith("-dirty"):
        return ["the sources differ from the commit: commit, and pin under another name before you cite."]
    return []


def bibtex(pinned: Pin) -> str:
    """Return a BibTeX entry that names version, commit and data."""
    return (
        f"@misc{{caramel-{pinned.name},\n"
        f"  title   = {{Data set {{{pinned.name}}}, made with caramel}},\n"
        f"  year    = {{{pinned.created[:4]}}},\n"
        f"  version = {{{pinned.name}}},\n"
        f"  note    = {{git commit {pinned.commit}; data SHA-256 {pinned.data}}}\n"
        f"}}"
    )


def statement(pinned: Pin) -> str:
    """Return a one-line data statement for a paper."""
    rows = sum(version.rows for version in pinned.tables.values())
    return (
        f"Data version {pinned.name} ({pinned.created}): {rows:,} rows in {len(pinned.tables)} tables, git commit "
        f"{pinned.commit[:12]}, data SHA-256 {pinned.data[:16]}; rebuild with `dvc repro`, check with "
        f"`caramel verify {pinned.name}`."
    )
