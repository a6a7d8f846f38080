"""Tables of a data set version that a pin cites: from the project's folder, DVC's cache, or where they were got."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from caramel.errors import BackendError, DataError, format_items
from caramel.io.image_store import ImageStore
from caramel.io.readers import open_parquet
from caramel.release.pin import compute_dvc_hash, compute_table_version
from caramel.release.pin_file import Pin, TableVersion, read_pin
from caramel.runtime.dvc.cache import OBJECTS
from caramel.schemas.catalogue import TABLES
from caramel.schemas.images import IMAGES


def read_pinned(version: str, table: str, root: Path) -> pd.DataFrame:
    """Return a table as it was when the version was pinned, whatever lies on disk now.

    The rows are those of the pin, by their hash; their columns are those that the table had then.

    Args:
        version: name of the pin.
        table: its path in the pin, such as ``data/assemble/instances.parquet``, or the end of it: ``instances``.
        root: the project's folder.

    Raises:
        DataError: there is no such pin or it is broken, it has no such table or several, or its rows are
            neither on disk nor in DVC's cache of the project.
    """
    pinned = read_pin(version, root)
    return read_version_table(pinned, _find_table(table, pinned), root)


def read_version_table(pinned: Pin, path: str, root: Path) -> pd.DataFrame:
    """Return a table of a version by its path, a table of caramel 0.1 with the columns of today; otherwise as ``read_pinned``.

    Raises:
        DataError: its rows are neither on disk nor in DVC's cache of the project.
    """
    rows = load_frame(_find_file(root, path, pinned.tables[path], pinned))
    for table in TABLES.values():
        if stored := table.map_stored_names(list(rows.columns)):
            return rows.set_axis(list(stored), axis=1)
    return rows


def find_local_file(path: str, md5: str, root: Path) -> Path | None:
    """Return a file of a project that has this content: at its path, or in DVC's cache; None if neither does."""
    candidates = (root / path, root / OBJECTS / md5[:2] / md5[2:])
    return next((file for file in candidates if file.is_file() and compute_dvc_hash(file) == md5), None)


def load_frame(path: Path) -> pd.DataFrame:
    """Return a table that was got, with the columns that it had when it was pinned."""
    with open_parquet(path) as file:
        frame: pd.DataFrame = file.read().to_pandas()
    return frame


def build_dataset(path: Path) -> Any:
    """Return a table that was got as a ``datasets.Dataset``; an index of images has column ``image``, its pictures.

    Raises:
        BackendError: the library is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise BackendError("form='datasets' needs the library: pip install datasets.") from error
    rows = load_frame(path)
    dataset = datasets.Dataset.from_pandas(rows, preserve_index=False)
    if list(rows.columns) != list(IMAGES.columns):
        return dataset
    pictures = ImageStore(path, rows)

    def add_image(row: dict[str, Any]) -> dict[str, Any]:
        return {"image": {"bytes": pictures[row["image_id"]], "path": None}}

    features = datasets.Features({**dataset.features, "image": datasets.Image()})
    return dataset.map(add_image, features=features)


def _find_table(table: str, pinned: Pin) -> str:
    """Return the path of the one table of a pin whose path ends so."""
    wanted = PurePosixPath(table.removesuffix(".parquet")).parts
    ends = {path: PurePosixPath(path.removesuffix(".parquet")).parts for path in pinned.tables}
    matches = [path for path, parts in ends.items() if wanted and parts[-len(wanted) :] == wanted]
    exact = [path for path in matches if ends[path] == wanted]
    if len(matches) == 1 or exact:
        return (exact or matches)[0]
    what = "several tables" if matches else "no table"
    raise DataError(
        f"Pin {pinned.name!r} has {what} {table!r}. Name one of:\n{format_items(matches or list(pinned.tables), 100)}"
    )


def _find_file(root: Path, path: str, version: TableVersion, pinned: Pin) -> Path:
    """Return a file that holds the pinned rows."""
    if file := find_local_file(path, version.md5, root):
        return file
    if (root / path).is_file() and compute_table_version(root / path).content == version.content:
        return root / path  # the same rows, written by other software
    raise DataError(
        f"The {version.rows} rows of {path!r} that version {pinned.name!r} cites are neither on disk nor in DVC's cache "
        f"({root / OBJECTS / version.md5[:2] / version.md5[2:]}). Run `git checkout {pinned.commit} -- dvc.lock` and `dvc checkout` (`dvc pull`, where there is a "
        f"remote), or `dvc repro`."
    )
