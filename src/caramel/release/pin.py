"""Pin the exact data set version that a paper cites, and check it later.

A pin is the file ``pins/NAME.json``. It holds:

- the git commit and the params;
- DVC's hash of every output;
- for every table, its number of rows and a hash of their content that does not depend on the writing program.

Images are identified by the SHA-256 in table ``images``. A pin is small, belongs into git, and can be checked
without a remote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from caramel.config.renamed import rename_params
from caramel.config.schema import read_mapping
from caramel.errors import ConfigError, DataError, format_items
from caramel.io.image_store import ImageStore, is_shard
from caramel.io.readers import open_parquet
from caramel.io.safe_yaml import refuse_secrets
from caramel.release.pin_file import (
    Outs,
    Pin,
    TableVersion,
    build_pin_error,
    compute_data_hash,
    format_field_errors,
    get_pin_path,
    read_pin,
    write_pin,
)
from caramel.release.version_paths import list_bad_files
from caramel.runtime.dvc.state import compute_listing_hash, parse_lock, read_lock
from caramel.runtime.git import read_git_file
from caramel.runtime.mlflow.tracking import get_git_commit
from caramel.schemas.images import IMAGES
from caramel.schemas.io import hash_content, read_table

REPORT = "report"  # stage whose output is not data


def create_pin(name: str, root: Path) -> Pin:
    """Write ``pins/NAME.json`` for the data on disk and return it; leave an equal pin as it is.

    Raises:
        ConfigError: the name is invalid, or a pin of this name has other data.
        DataError: an output is missing or differs from ``dvc.lock``, an image does not match its SHA-256, or a
            version may not hold one of the files (``version_paths``).
        ResourceError: git fails.
    """
    path = get_pin_path(name, root)
    outs = read_locked_outputs(root)
    _check_disk(outs, root)
    if bad := list_bad_files(path for out in outs for path in _list_files(out, root)):
        raise DataError(
            f"The data cannot be pinned: a version may hold only data files, because `caramel get` "
            f"writes them to readers' machines:\n{format_items(bad)}\nHave the stage write something else, or below work/."
        )
    tables = {p: compute_table_version(root / p) for out in outs for p in list_tables(out, root)}
    if damage := [line for path in tables if (line := _find_damaged_image(root / path))]:
        raise DataError(f"The data cannot be pinned:\n{format_items(damage)}")
    new_pin = Pin(
        name=name,
        created=datetime.now(UTC).date().isoformat(),
        commit=get_git_commit(root),
        data=compute_data_hash(outs, tables),
        params=load_params(root),
        outs=outs,
        tables=tables,
    )
    if path.exists():
        old = read_pin(name, root)
        if (old.data, old.params) != (new_pin.data, new_pin.params):
            raise ConfigError(
                f"Pin {name!r} exists with other content ({path}; data {old.data[:12]}, now {new_pin.data[:12]}). "
                f"Pins are never overwritten: choose another name."
            )
        return old
    write_pin(new_pin, path)
    return new_pin


def load_params(root: Path) -> dict[str, Any]:
    """Return ``params.yaml`` as plain JSON data, with today's names."""
    path = root / "params.yaml"
    raw = read_mapping(path, "Run `caramel config use default`.")
    try:
        held: dict[str, Any] = json.loads(json.dumps(raw, allow_nan=False))
    except ValueError as error:
        raise ConfigError(
            f"{path} holds a value that a pin cannot store: {error}. Run `caramel doctor`."
        ) from error
    refuse_secrets(held, str(path))
    return rename_params(held)


def verify_pin(name: str, root: Path) -> list[str]:
    """Return how the data on disk differs from the pinned version, one line for each difference.

    An empty list means that the data is the pinned version. The pin itself is checked first: its own
    consistency, the outputs in ``dvc.lock`` at its commit if git has that, and rows and hashes of the tables in
    the outputs that are on disk unchanged.

    Raises:
        DataError: there is no such pin, it is broken, or a table cannot be read.
    """
    pinned = read_pin(name, root)
    problems = [
        f"outs: {out}: missing in the pin, but in dvc.lock of its commit"
        for out in read_commit_outputs(pinned.commit, root)
        if out not in pinned.outs
    ]
    lines = []
    for out in pinned.outs:
        if (root / out).exists() and compute_dvc_hash(root / out) == pinned.outs[out]:
            problems += _list_table_problems(out, pinned, root)
        else:
            lines += _list_differences(out, pinned, root)
    if problems:
        raise build_pin_error(repr(str(get_pin_path(name, root))), problems)
    new = [out for out in _read_recorded_outputs(root / "dvc.lock") if out not in pinned.outs]
    return lines + [f"{out}: not in the pinned version" for out in new]


def _select_tables(out: str, pinned: Pin) -> dict[str, TableVersion]:
    return {p: t for p, t in pinned.tables.items() if p == out or p.startswith(f"{out}/")}


def _list_table_problems(out: str, pinned: Pin, root: Path) -> list[str]:
    """Return what a pin says wrongly of the tables in an output that is on disk unchanged."""
    recorded = _select_tables(out, pinned)
    computed = {path: compute_table_version(root / path) for path in list_tables(out, root)}
    problems = [
        f"tables: {p}: differs from the table in {out}" for p in sorted(recorded.keys() ^ computed.keys())
    ]
    for path in sorted(recorded.keys() & computed.keys()):
        right = computed[path].model_dump()
        problems += [
            f"tables: {path}: {field}: {value!r}, but {right[field]!r} on disk"
            for field, value in recorded[path].model_dump().items()
            if value != right[field]
        ]
    return problems


def _list_differences(out: str, pinned: Pin, root: Path) -> list[str]:
    """Return how a changed output differs, table by table if it holds tables."""
    if not (root / out).exists():
        return [f"{out}: missing; run `dvc checkout` or `dvc repro`"]
    old = _select_tables(out, pinned)
    lines = [_compare_table(path, version, root) for path, version in old.items()]
    on_disk = list_tables(out, root)
    lines += [f"{path}: not in the pinned version" for path in on_disk if path not in old]
    lines += [f"{path}: {damage}" for path in on_disk if (damage := _find_damaged_image(root / path))]
    return [line for line in lines if line] or [f"{out}: changed"]


def _compare_table(path: str, old: TableVersion, root: Path) -> str:
    """Return how one table differs, or nothing."""
    if not (root / path).exists():
        return f"{path}: missing; run `dvc checkout` or `dvc repro`"
    new = compute_table_version(root / path)
    if new == old:
        return ""
    if new.content == old.content:
        return f"{path}: the same {new.rows} rows in other bytes (another order or another writing program)"
    return f"{path}: different rows; {new.rows} on disk, {old.rows} pinned"


def _find_damaged_image(path: Path) -> str:
    """Return what is wrong with the first image that does not match its SHA-256; "" if all match.

    Images are read one at a time. A table other than ``images`` has none.
    """
    try:
        with open_parquet(path) as file:
            if file.schema_arrow.names != list(IMAGES.columns):
                return ""
        pictures = ImageStore(path, read_table(IMAGES, path))
        for image_id in pictures:
            pictures.read_verified(image_id)
    except DataError as error:
        return str(error)
    return ""


def read_locked_outputs(root: Path) -> dict[str, str]:
    """Return path -> DVC's hash of every output in ``dvc.lock`` except the report's.

    The report is a view of the data and holds the time and commit of its making.

    Raises:
        DataError: no output is recorded, or the file is broken.
    """
    lock = root / "dvc.lock"
    if outs := _read_recorded_outputs(lock):
        return outs
    raise DataError(f"No data to pin: {lock} records no outputs. Run `dvc repro`.")


def _read_recorded_outputs(lock: Path) -> dict[str, str]:
    """Return the same as ``read_locked_outputs``, or nothing if no output is recorded."""
    return _parse_outputs(read_lock(lock.parent), str(lock))


def read_commit_outputs(commit: str, root: Path) -> dict[str, str]:
    """Return the outputs in ``dvc.lock`` of a commit; none if git lacks the commit or sources were edited.

    Raises:
        DataError: the file is broken.
        ResourceError: git fails for another reason than a missing commit.
    """
    if commit == "unknown" or commit.endswith("-dirty"):
        return {}
    content = read_git_file(commit, "dvc.lock", root)
    if content is None:
        return {}
    where = f"dvc.lock of commit {commit}"
    return _parse_outputs(parse_lock(content, where), where)


def _parse_outputs(lock: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return path -> hash of the outputs in the content of ``dvc.lock``.

    Raises:
        DataError: a path lies outside the project's folder.
    """
    stages = lock.get("stages", {}).items()
    outs = {
        out["path"]: out["md5"] for name, stage in stages if name != REPORT for out in stage.get("outs", ())
    }
    try:
        return dict(sorted(TypeAdapter(Outs).validate_python(outs, strict=True).items()))
    except ValidationError as error:
        raise DataError(f"{where} has wrong outputs:\n{format_items(format_field_errors(error))}") from error


def _check_disk(outs: Mapping[str, str], root: Path) -> None:
    """Raise a DataError unless the outputs on disk match ``dvc.lock``."""
    missing = [out for out in outs if not (root / out).exists()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(outs)} outputs in dvc.lock are missing:\n{format_items(missing)}\n"
            f"Run `dvc repro`, or `dvc pull` if there is a remote."
        )
    changed = [out for out, digest in outs.items() if compute_dvc_hash(root / out) != digest]
    if changed:
        raise DataError(
            f"{len(changed)} of {len(outs)} outputs differ from dvc.lock:\n{format_items(changed)}\n"
            f"Run `dvc repro`, so that the pinned data is the result of these sources and params."
        )


def compute_dvc_hash(path: Path) -> str:
    """Return DVC's hash of a file, or of a folder: the MD5 of its sorted listing, with suffix ``.dir``."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return compute_listing_hash(
        {p.relative_to(path).as_posix(): compute_dvc_hash(p) for p in path.rglob("*") if p.is_file()}
    )


def _list_files(out: str, root: Path) -> list[str]:
    """Return the paths of the files of an output, which is a file or a folder."""
    if not (root / out).is_dir():
        return [out]
    return sorted(p.relative_to(root).as_posix() for p in (root / out).rglob("*") if p.is_file())


def list_tables(out: str, root: Path) -> list[str]:
    """Return the tables of an output, which is a file or a folder; shards of images are not tables."""
    if (root / out).is_dir():
        table_paths = (p for p in (root / out).rglob("*.parquet") if not is_shard(p))
        return sorted(p.relative_to(root).as_posix() for p in table_paths)
    return [out] if out.endswith(".parquet") else []


def compute_table_version(path: Path) -> TableVersion:
    """Return the version of a table on disk: rows, hash of their content, MD5 of the file.

    Raises:
        DataError: the file is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_metadata(
            path.absolute()
        ).num_rows  # pyarrow would take the relative path a:b/c for a URL
        return TableVersion(rows=rows, content=hash_content(path), md5=compute_dvc_hash(path))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"Table {str(path)!r} cannot be read: {error}. Remove it and run `dvc repro`."
        ) from error


def list_warnings(pinned: Pin) -> list[str]:
    """Return what would hinder a reader who rebuilds this version."""
    if pinned.commit == "unknown":
        return [
            "There is no git commit, so the pin names no sources. Commit (first `git init`, if this is no repository)."
        ]
    if pinned.commit.endswith("-dirty"):
        return ["The sources differ from the commit. Commit, and pin under another name before you cite."]
    return []


def format_bibtex(pinned: Pin) -> str:
    """Return a BibTeX entry that names version, commit and data."""
    return (
        f"@misc{{caramel-{pinned.name},\n"
        f"  title   = {{Data set {{{pinned.name}}}, made with caramel}},\n"
        f"  year    = {{{pinned.created[:4]}}},\n"
        f"  version = {{{pinned.name}}},\n"
        f"  note    = {{git commit {pinned.commit}; data SHA-256 {pinned.data}}}\n"
        f"}}"
    )


def format_data_statement(pinned: Pin) -> str:
    """Return a one-line data statement for a paper."""
    rows = sum(version.rows for version in pinned.tables.values())
    return (
        f"Data version {pinned.name} ({pinned.created}): {rows:,} rows in {len(pinned.tables)} tables, git commit "
        f"{pinned.commit[:12]}, data SHA-256 {pinned.data[:16]}; rebuild with `dvc repro`, check with "
        f"`caramel verify {pinned.name}`."
    )
