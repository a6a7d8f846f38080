"""Get a pinned version without its project: check everything fetched, then move it into place.

1. Everything is fetched into ``OUT/.caramel-get``. A file appears there only if its MD5 is the one in the pin.
2. Tables are compared with the pin's SHA-256 of their rows, images with the SHA-256 in their index.
3. Each file is renamed into its place.

An interrupted run resumes with the files that are complete.

Neither the version nor the folder is trusted: a version may hold only data files below ``data/``
(``version_paths``), and no link in the folder is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from tqdm import tqdm

from caramel.errors import CaramelError, DataError, ResourceError, format_items, redact_secrets
from caramel.io.files import forbid_overwriting_inputs, write_atomically
from caramel.io.image_store import ImageStore
from caramel.io.readers import open_parquet
from caramel.release.pin import compute_table_version
from caramel.release.pin_file import Pin, get_pin_path
from caramel.release.resolve import is_listed_shard
from caramel.release.source import VersionSource, open_source
from caramel.release.version_paths import list_bad_files
from caramel.runtime.dvc.remote import compute_md5, read_listing
from caramel.schemas.contracts import check_table
from caramel.schemas.images import IMAGES

STAGING = ".caramel-get"  # in the output folder; removed at the end
AT_ONCE = 8  # objects fetched at the same time


class FetchedVersion(NamedTuple):
    """The version that was fetched, and the paths of all its files and of its tables in the folder."""

    pinned: Pin
    files: list[str]
    tables: list[str]


def get_version(
    source: str,
    paths: Sequence[str] = (),
    *,
    out: Path,
    split: str | None = None,
    credentials: Sequence[str] = (),
) -> FetchedVersion:
    """Write all or some files of a pinned version to a folder.

    Args:
        source: ``SOURCE[@PIN]``: a git URL or a folder, and the name of a pin.
        paths: folders and files of the version, or the ends of tables' paths such as ``instances``. If empty,
            all files. The images of a selected index are fetched with it.
        out: the output folder. Existing files that are correct stay; nothing is overwritten.
        split: keep only rows of train, val or test in tables with a split, and only the shards of their images.
        credentials: addresses of remotes that may receive this user's login, such as
            ``https://s3.example.org`` or ``s3://BUCKET``. All other remotes are opened with the version's own
            settings.

    Raises:
        ConfigError: there are several pins and none is named, the folder is the source, or a remote's
            settings are wrong.
        DataError: there is no such repository, pin or path; an object is missing or damaged, or its content is
            different; another file is in the way; or a version may not hold one of the files.
        ResourceError: a remote cannot be reached, the disk is full, or another get fills the folder.
    """
    with open_source(source, credentials) as origin, _open_staging(out, origin) as staging:
        pin = {f"pins/{origin.pinned.name}.json": staging / "pin.json"}
        text = get_pin_path(origin.pinned.name, origin.root).read_bytes()
        write_atomically(staging / "pin.json", lambda temporary: temporary.write_bytes(text))
        _check_free(pin, out)
        files = _list_files(origin, staging)
        wanted = _select_files(paths, files, origin.pinned)
        stage = _StagedFiles(origin, files, staging / "files", out)
        stage.fetch_files([path for path in wanted if not (split and is_listed_shard(path, files))])
        split_rows = {} if split is None else _write_split(stage, wanted, split, staging / "split")
        shards = _list_shards(stage, split_rows)
        stage.fetch_files(shards)
        _check_content(stage, split_rows)
        got = sorted(stage.paths)
        _move_files({path: split_rows.get(path, stage.folder / path) for path in got} | pin, out)
        return FetchedVersion(origin.pinned, got, [path for path in got if path in origin.pinned.tables])


@contextmanager
def _open_staging(out: Path, origin: VersionSource) -> Iterator[Path]:
    """Give the staging folder to one get at a time; remove it at the end, keep it after an error."""
    forbid_overwriting_inputs([out], [origin.root])
    folder = out / STAGING
    # Existing content may come from someone else who had access to the folder, not from an earlier get.
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
            what = "a link" if path.is_symlink() else "a device, a FIFO or a socket"
            raise DataError(
                f"{str(path)!r} is {what}. Remove {str(folder)!r}: caramel writes only to regular files inside {str(out)!r}."
            )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=0):
            yield folder
            shutil.rmtree(folder)
    except Timeout as error:
        raise ResourceError(
            f"Another `caramel get` is filling {str(out)!r}. Wait for it, or give another --out."
        ) from error


def _list_files(origin: VersionSource, staging: Path) -> dict[str, str]:
    """Return path -> object for all files of the version.

    Raises:
        DataError: a listing is missing or broken, does not match the pin's tables, or names a file that no
            version may hold.
    """
    all_files: dict[str, str] = {}
    for out, oid in origin.pinned.outs.items():
        if not oid.endswith(".dir"):
            files = {out: oid}
        else:
            to = staging / "lists" / oid
            if not (to.is_file() and compute_md5(to) == oid.removesuffix(".dir")):
                origin.fetch_object(oid, out, to)
            files = {f"{out}/{name}": digest for name, digest in read_listing(to, oid).items()}
        if twice := sorted(files.keys() & all_files.keys()):
            raise DataError(
                f"Pin {origin.pinned.name!r} lists files in two of its outputs:\n{format_items(twice)}"
            )
        all_files |= files
    if bad := list_bad_files(all_files):
        raise DataError(
            f"Version {origin.pinned.name!r} of {redact_secrets(origin.source)!r} names {len(bad)} files that are not data and "
            f"might be run on this machine. Nothing was written:\n{format_items(bad)}"
        )
    unlike = [path for path, version in origin.pinned.tables.items() if all_files.get(path) != version.md5]
    if unlike:
        raise DataError(
            f"Pin {origin.pinned.name!r} names tables that are missing from its outputs:\n{format_items(unlike)}"
        )
    return all_files


def _select_files(paths: Sequence[str], files: Mapping[str, str], pinned: Pin) -> list[str]:
    """Return the requested files: by path, by folder, or by the end of an output's or table's path.

    Raises:
        DataError: a request matches nothing, or several tables.
    """
    if not paths:
        return list(files)
    selected: list[str] = []
    for requested in paths:
        plain = requested.removesuffix("/").removesuffix(".parquet")
        if not (inside := _expand_path(plain, files)):
            parts = PurePosixPath(plain).parts
            names = dict.fromkeys(p.removesuffix(".parquet") for p in (*pinned.outs, *pinned.tables))
            ends = [name for name in names if parts and PurePosixPath(name).parts[-len(parts) :] == parts]
            if len(ends) != 1:
                what = f"several tables {requested!r}" if ends else f"nothing named {requested!r}"
                raise DataError(
                    f"Pin {pinned.name!r} has {what}. Name one of:\n{format_items(ends or [*names], 100)}"
                )
            inside = _expand_path(ends[0], files)
        selected += inside
    return list(dict.fromkeys(selected))


def _expand_path(plain: str, files: Iterable[str]) -> list[str]:
    """Return a file, given with or without its suffix, or the files of a folder."""
    return [path for path in files if path in (plain, f"{plain}.parquet") or path.startswith(f"{plain}/")]


class _StagedFiles:
    """Files of a version that were fetched and are complete."""

    def __init__(self, origin: VersionSource, files: Mapping[str, str], folder: Path, out: Path) -> None:
        self.origin, self.files, self.folder, self._out = origin, files, folder, out
        self.paths: list[str] = []

    def fetch_files(self, paths: Sequence[str]) -> None:
        """Fetch missing files, several at a time, and report all errors together.

        Raises:
            CaramelError: of the type of the first error.
        """
        new = [path for path in dict.fromkeys(paths) if path not in self.paths]
        _refuse_links(new, self._out)
        errors: list[CaramelError] = []
        with (
            ThreadPoolExecutor(AT_ONCE) as pool,
            tqdm(total=len(new), desc="get", unit="file", disable=None) as bar,
        ):
            for error in pool.map(self._fetch_file, new):
                errors += [error] if error else []
                bar.update()
        if errors:
            lines = list(dict.fromkeys(str(error) for error in errors))
            raise type(errors[0])(
                f"{len(errors)} of {len(new)} files could not be fetched:\n{format_items(lines)}\nNothing was put into "
                f"{str(self._out)!r}. What is whole is kept in {STAGING} there: the same command goes on with it."
            )
        self.paths += new

    def _fetch_file(self, path: str) -> CaramelError | None:
        oid, to = self.files[path], self.folder / path
        try:
            for old in (to, self._out / path):
                if old.is_file() and not old.is_symlink() and compute_md5(old) == oid:
                    if old != to and not _try_hard_link(old, to):
                        break
                    return None
            self.origin.fetch_object(oid, path, to)
        except CaramelError as error:
            return error
        return None

    def read_image_index(self, path: str) -> pd.DataFrame | None:
        """Return the rows of a table ``images``; None for any other file.

        Raises:
            ContractError: the table has the columns of ``images`` but breaks its contract.
        """
        if path not in self.origin.pinned.tables:
            return None
        with open_parquet(self.folder / path) as file:
            if file.schema_arrow.names != list(IMAGES.columns):
                return None
            rows: pd.DataFrame = file.read().to_pandas()
        check_table(IMAGES, rows, f"{path} of version {self.origin.pinned.name!r}")
        return rows


def _write_split(stage: _StagedFiles, wanted: Sequence[str], split: str, folder: Path) -> dict[str, Path]:
    """Write the rows of one split of each table that has splits; return path -> file."""
    split_files: dict[str, Path] = {}
    for path in (path for path in wanted if path in stage.origin.pinned.tables):
        with open_parquet(stage.folder / path) as file:
            if "split" not in file.schema_arrow.names:
                continue
            rows = file.read()
        if not pa.types.is_string(column_type := rows.schema.field("split").type):
            raise DataError(f"{path}: column 'split' has type {column_type}; it must be text.")
        selected = rows.filter(pc.equal(rows["split"], split))
        split_files[path] = folder / path
        write_atomically(split_files[path], partial(pq.write_table, selected, compression="zstd"))
    return split_files


def _list_shards(stage: _StagedFiles, split_rows: Mapping[str, Path]) -> list[str]:
    """Return the shards of all images in the fetched indices.

    Raises:
        DataError: an index names a shard that the version does not have.
    """
    shards: list[str] = []
    for path in stage.paths:
        if (rows := stage.read_image_index(path)) is None:
            continue
        if path in split_rows:
            rows = pd.read_parquet(split_rows[path].absolute())
        folder = PurePosixPath(path).parent
        named = {shard: os.path.normpath(folder / shard) for shard in rows["shard"].unique()}
        if lacking := [shard for shard, shard_path in named.items() if shard_path not in stage.files]:
            raise DataError(f"{path} names shards that the version lacks:\n{format_items(lacking)}")
        shards += named.values()
    return shards


def _check_content(stage: _StagedFiles, split_rows: Mapping[str, Path]) -> None:
    """Check that tables hold the pin's rows and images match their index; raise a DataError otherwise.

    MD5 detects damage, but not a file that was crafted to have the same MD5.
    """
    for path in stage.paths:
        version = stage.origin.pinned.tables.get(path)
        if version is not None and compute_table_version(stage.folder / path) != version:
            raise DataError(f"{path} does not hold the rows that pin {stage.origin.pinned.name!r} names.")
        if (rows := stage.read_image_index(path)) is not None:
            if path in split_rows:
                rows = pd.read_parquet(split_rows[path].absolute())
            pictures = ImageStore(stage.folder / path, rows)
            for image_id in pictures:
                pictures.read_verified(image_id)


def _move_files(files: Mapping[str, Path], out: Path) -> None:
    """Move files into their places below the folder.

    Raises:
        DataError: as in ``_check_free``; then no file is moved.
    """
    _check_free(files, out)
    for path, new in files.items():
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(new, target)


def _check_free(files: Mapping[str, Path], out: Path) -> None:
    """Raise a DataError if a file's place is taken by other content, or the path to it has a link."""
    _refuse_links(files, out)
    taken = [
        path
        for path, new in files.items()
        if os.path.lexists(out / path) and not _has_same_content(out / path, new)
    ]
    if taken:
        raise DataError(
            f"{len(taken)} files of the version are already with other content in {str(out)!r}; nothing is written "
            f"over:\n{format_items(taken)}\nGive another --out."
        )


def _refuse_links(paths: Iterable[str], out: Path) -> None:
    """Raise a DataError if a folder on a file's path is a link or not a folder."""
    folders = {folder for path in paths for folder in PurePosixPath(path).parents if folder.parts}
    blocked = [str(f) for f in sorted(folders) if (out / f).is_symlink() or _is_other(out / f)]
    if blocked:
        raise DataError(
            f"{len(blocked)} folders of the version are links or files in {str(out)!r}; nothing is written through a link, "
            f"which may lead out of it:\n{format_items(blocked)}\nGive another --out."
        )


def _is_other(folder: Path) -> bool:
    """Return whether a path exists and is not a folder."""
    return folder.exists() and not folder.is_dir()


def _try_hard_link(old: Path, to: Path) -> bool:
    """Hard-link a file to a second name; return whether the file system supports it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    try:
        os.link(old, to)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        return False
    return True


def _has_same_content(old: Path, new: Path) -> bool:
    return old.is_file() and not old.is_symlink() and compute_md5(old) == compute_md5(new)
