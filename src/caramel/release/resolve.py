"""Resolve a version's name to its files: a pin, a git revision with ``dvc.lock``, or ``.`` for the data on disk."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from caramel.config.renamed import rename_params
from caramel.errors import DataError
from caramel.io.safe_yaml import parse_yaml
from caramel.release.pin import (
    compute_dvc_hash,
    compute_table_version,
    load_params,
    read_commit_outputs,
    read_locked_outputs,
)
from caramel.release.pin_file import NAME, Pin, TableVersion, compute_data_hash, get_pin_path, read_pin
from caramel.release.pinned_tables import find_local_file, read_version_table
from caramel.runtime.dvc.cache import OBJECTS
from caramel.runtime.dvc.remote import read_listing
from caramel.runtime.git import query_git, read_git_file
from caramel.runtime.mlflow.tracking import get_git_commit
from caramel.schemas.contracts import check_table
from caramel.schemas.images import IMAGES

HERE = "."


def resolve_version(name: str, root: Path) -> Pin:
    """Return a version in the form of a pin.

    Args:
        name: a pin, a git revision such as ``HEAD~1``, or ``.``. A pin wins over a branch of the same name.
        root: the project's folder.

    Raises:
        DataError: there is no such version, or its tables are neither on disk nor in DVC's cache.
        ResourceError: git fails for another reason than an unknown revision.
    """
    if NAME.fullmatch(name) and get_pin_path(name, root).exists():
        return read_pin(name, root)
    if name == HERE:
        outs = {
            out: compute_dvc_hash(root / out) for out in read_locked_outputs(root) if (root / out).exists()
        }
        return _build_version(name, get_git_commit(root), outs, load_params(root), root)
    command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    commit = (query_git(*command, folder=root) or b"").decode().strip()
    outs = read_commit_outputs(commit, root) if commit else {}
    if not outs:
        names = sorted(p.stem for p in (root / "pins").glob("*.json"))
        what = (
            "is a git revision without outputs in dvc.lock"
            if commit
            else "is neither a pin nor a git revision"
        )
        raise DataError(f"{name!r} {what}. Pins: {', '.join(names) or 'none'}; '.' is the data on disk.")
    where = f"params.yaml of {name}"
    text = (read_git_file(commit, "params.yaml", root) or b"").decode(errors="replace")
    params = rename_params(json.loads(json.dumps(parse_yaml(text, where) or {})))
    return _build_version(name, commit, outs, params, root)


class VersionImages:
    """The encoded image files of a version's image index, by image id.

    Args:
        pinned: the version.
        index: path of the index in the version.
        root: the project's folder.
    """

    def __init__(self, pinned: Pin, index: str, root: Path) -> None:
        rows = read_version_table(pinned, index, root)
        check_table(IMAGES, rows, f"{index} of version {pinned.name!r}")
        self.rows = rows.set_index("image_id")
        self._places = {str(row["image_id"]): row for row in self.rows.reset_index().to_dict("records")}
        self._pinned, self._index, self._root = pinned, index, root
        self._shards: dict[str, Path] = {}  # by their names in the index

    def __getitem__(self, image_id: str) -> bytes:
        """Return the encoded file of an image.

        Raises:
            DataError: its shard is not available, or lacks the image.
        """
        row = self._places[image_id]
        named = str(row["shard"])
        if named not in self._shards:
            self._shards[named] = self._find_shard(named)
        file = self._shards[named]
        with file.open("rb") as stream:
            stream.seek(int(row["offset"]))
            data = stream.read(int(row["length"]))
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise DataError(
                f"Image {image_id!r} in {str(file)!r} does not match its SHA-256. Run `caramel doctor --fix`."
            )
        return data

    def _find_shard(self, named: str) -> Path:
        """Return a file that holds a shard."""
        name = self._pinned.name
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self._index), named))
        for out, digest in self._pinned.outs.items():
            if path.startswith(f"{out}/") and path in (
                files := list_output_files(out, digest, name, self._root)
            ):
                return _find_file(path, files[path], name, self._root)
        raise DataError(f"{self._index!r} names the shard {path!r}, which version {name!r} lacks.")


def list_output_files(out: str, digest: str, name: str, root: Path) -> dict[str, str]:
    """Return path -> MD5 of the files of an output, from DVC's listing for this hash or from disk.

    Raises:
        DataError: neither is available, or the listing is broken.
    """
    if not digest.endswith(".dir"):
        return {out: digest}
    listing_path = root / OBJECTS / digest[:2] / digest[2:]
    if listing_path.is_file():
        return {f"{out}/{path}": md5 for path, md5 in read_listing(listing_path, digest).items()}
    if (root / out).is_dir() and compute_dvc_hash(root / out) == digest:
        return {
            p.relative_to(root).as_posix(): compute_dvc_hash(p)
            for p in (root / out).rglob("*")
            if p.is_file()
        }
    raise _build_missing_error(out, name)


def is_listed_shard(path: str, files: Container[str]) -> bool:
    """Return whether a version's file is a shard of images, that is, its folder's name is also an index."""
    return path.endswith(".parquet") and f"{PurePosixPath(path).parent}.parquet" in files


def _find_file(path: str, md5: str, name: str, root: Path) -> Path:
    """Return a file with this content; raise a DataError if there is none."""
    if file := find_local_file(path, md5, root):
        return file
    raise _build_missing_error(path, name)


def _build_missing_error(path: str, name: str) -> DataError:
    return DataError(
        f"{path!r} of version {name!r} is neither on disk nor in DVC's cache. Run `dvc fetch --all-commits` if there is a "
        f"remote, or `dvc repro` at that version."
    )


def _build_version(name: str, commit: str, outs: dict[str, str], params: dict[str, Any], root: Path) -> Pin:
    """Return a version of these outputs; read their tables for the content hashes."""
    tables: dict[str, TableVersion] = {}
    for out, digest in outs.items():
        files = list_output_files(out, digest, name, root)
        for path, md5 in files.items():
            if path.endswith(".parquet") and not is_listed_shard(path, files):
                tables[path] = compute_table_version(_find_file(path, md5, name, root))
    return Pin(
        name=name, created=datetime.now(UTC).date().isoformat(), commit=commit, data=compute_data_hash(outs, tables),
        params=params, outs=outs, tables=tables,
    )  # fmt: skip
