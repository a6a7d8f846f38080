"""Pin the exact data set version that a paper cites, and check it later.

A pin is ``pins/NAME.json``: the git commit, the params, DVC's hash of every output, and for
every table its rows and a hash of their content, which holds whatever wrote the file. Images
count by the SHA-256 in table ``images``. It is small, goes into git, and needs no remote to be checked.
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
from caramel.errors import ConfigError, DataError, format_items
from caramel.io.image_store import ImageStore, is_shard
from caramel.io.readers import open_parquet
from caramel.io.safe_yaml import read_yaml, refuse_secrets
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

REPORT = "report"  # stage whose output is no data


def create_pin(name: str, root: Path) -> Pin:
    """Write ``pins/NAME.json`` for the data on disk and return it; an equal pin is left as it is.

    Raises:
        ConfigError: the name is not one, or is taken by other data.
        DataError: an output is missing, or is not what ``dvc.lock`` records, or an image is not what its SHA-256 says, or a
            file is none that a version may have (``version_paths``).
        ResourceError: git fails.
    """
    path = get_pin_path(name, root)
    outs = read_locked_outputs(root)
    _check_disk(outs, root)
    if bad := list_bad_files(path for out in outs for path in _list_files(out, root)):
        raise DataError(
            f"The data cannot be pinned: a version holds files of data alone, since `caramel get` writes them on the machine "
            f"of a reader:\n{format_items(bad)}\nHave the stage write something else, or below work/."
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
                f"What was cited is never overwritten: choose another name."
            )
        return old
    write_pin(new_pin, path)
    return new_pin


def load_params(root: Path) -> dict[str, Any]:
    """Return ``params.yaml`` as JSON holds it, by the names of today."""
    path = root / "params.yaml"
    try:
        held: dict[str, Any] = json.loads(
            json.dumps(dict(read_yaml(path, "Run `caramel config use default`.")), allow_nan=False)
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path} holds what a pin cannot: {error}. Run `caramel doctor`.") from error
    refuse_secrets(held, str(path))
    return rename_params(held)


def verify_pin(name: str, root: Path) -> list[str]:
    """Return how the data on disk differs from the pinned version, one line each; none: it is that version.

    The pin is checked first: by itself, against the outputs that ``dvc.lock`` had at its commit, where git
    knows that, and against the tables of the outputs that are on disk as they were pinned.

    Raises:
        DataError: there is no such pin, it is broken, or a table cannot be read.
    """
    pinned = read_pin(name, root)
    problems = [
        f"outs: {out}: missing, but dvc.lock of its commit has it"
        for out in read_commit_outputs(pinned.commit, root)
        if out not in pinned.outs
    ]
    lines = []
    for out in pinned.outs:
        if (root / out).exists() and compute_dvc_hash(root / out) == pinned.outs[out]:
            unlike = set(list_tables(out, root)) ^ set(_select_tables(out, pinned))
            problems += [f"tables: {path}: not those of {out}" for path in sorted(unlike)]
        else:
            lines += _list_differences(out, pinned, root)
    if problems:
        raise build_pin_error(repr(str(get_pin_path(name, root))), problems)
    new = [out for out in _read_recorded_outputs(root / "dvc.lock") if out not in pinned.outs]
    return lines + [f"{out}: not in the pinned version" for out in new]


def _select_tables(out: str, pinned: Pin) -> dict[str, TableVersion]:
    return {p: t for p, t in pinned.tables.items() if p == out or p.startswith(f"{out}/")}


def _list_differences(out: str, pinned: Pin, root: Path) -> list[str]:
    """Return how an output that is not as it was pinned differs, table by table where it holds tables."""
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
        return (
            f"{path}: the same {new.rows} rows in other bytes (written in another order or by other software)"
        )
    return f"{path}: other rows; {new.rows} on disk, {old.rows} pinned"


def _find_damaged_image(path: Path) -> str:
    """Return what is wrong with the first image of a table that is not what its SHA-256 says; "" if none is.

    Images are read one at a time; a table that is not ``images`` has none.
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
    """Return DVC's hash of every output in ``dvc.lock``, by path, but for the report's.

    The report is a view of the data, and tells when and from what commit it was made.

    Raises:
        DataError: nothing was ever made, or the file is broken.
    """
    lock = root / "dvc.lock"
    if outs := _read_recorded_outputs(lock):
        return outs
    raise DataError(f"There is no data to pin: {lock} records no outputs. Run `dvc repro`.")


def _read_recorded_outputs(lock: Path) -> dict[str, str]:
    """Return what ``locked_outs`` does, or nothing where nothing is recorded."""
    return _parse_outputs(read_lock(lock.parent), str(lock))


def read_commit_outputs(commit: str, root: Path) -> dict[str, str]:
    """Return the outputs in ``dvc.lock`` of a commit; none where git does not have it, or it was edited.

    Raises:
        DataError: it is broken.
        ResourceError: git fails, which does not say that it does not have it.
    """
    if commit == "unknown" or commit.endswith("-dirty"):
        return {}
    content = read_git_file(commit, "dvc.lock", root)
    if content is None:
        return {}
    where = f"dvc.lock of commit {commit}"
    return _parse_outputs(parse_lock(content, where), where)


def _parse_outputs(lock: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the outputs in what ``dvc.lock`` holds, by path.

    Raises:
        DataError: a path is none below the project's folder.
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
    """Raise a DataError unless what is on disk is what ``dvc.lock`` records."""
    missing = [out for out in outs if not (root / out).exists()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(outs)} outputs in dvc.lock are missing:\n{format_items(missing)}\n"
            f"Run `dvc repro` (or `dvc pull`, where there is a remote)."
        )
    changed = [out for out, digest in outs.items() if compute_dvc_hash(root / out) != digest]
    if changed:
        raise DataError(
            f"{len(changed)} of {len(outs)} outputs are not what dvc.lock records:\n{format_items(changed)}\n"
            f"Run `dvc repro`, so that the pin names data that these sources and params made."
        )


def compute_dvc_hash(path: Path) -> str:
    """Return DVC's hash of a file, or of a folder: the MD5 of its sorted listing, and ``.dir``."""
    if path.is_file():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return compute_listing_hash(
        {p.relative_to(path).as_posix(): compute_dvc_hash(p) for p in path.rglob("*") if p.is_file()}
    )


def _list_files(out: str, root: Path) -> list[str]:
    """Return the paths of the files of an output, which may be one or a folder of them."""
    if not (root / out).is_dir():
        return [out]
    return sorted(p.relative_to(root).as_posix() for p in (root / out).rglob("*") if p.is_file())


def list_tables(out: str, root: Path) -> list[str]:
    """Return the tables of an output, which may be one or a folder of them; shards of images are none."""
    if (root / out).is_dir():
        table_paths = (p for p in (root / out).rglob("*.parquet") if not is_shard(p))
        return sorted(p.relative_to(root).as_posix() for p in table_paths)
    return [out] if out.endswith(".parquet") else []


def compute_table_version(path: Path) -> TableVersion:
    """Return what a table is now.

    Raises:
        DataError: the file is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_metadata(path.absolute()).num_rows  # a:b/c would be taken for a URL
        return TableVersion(rows=rows, content=hash_content(path), md5=compute_dvc_hash(path))
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"Table {str(path)!r} cannot be read: {error}. Remove it and run `dvc repro`."
        ) from error


def list_warnings(pinned: Pin) -> list[str]:
    """Return what a reader would stumble over when rebuilding this version."""
    if pinned.commit == "unknown":
        return ["this is not a git repository: the pin names no sources. Run `git init` and commit."]
    if pinned.commit.endswith("-dirty"):
        return ["the sources differ from the commit: commit, and pin under another name before you cite."]
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
