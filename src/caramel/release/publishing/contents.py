"""Load the tables, metrics and images that a release takes from a pinned version, and check them against the pin."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from caramel.errors import DataError
from caramel.io.image_store import ImageStore
from caramel.release.pin import compute_dvc_hash, compute_table_version
from caramel.release.pin_file import read_pin
from caramel.release.pinned_tables import read_pinned
from caramel.schemas.contracts import Table, check_table
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table
from caramel.schemas.rejects import REJECTS

IMAGE_INDEX = "data/assemble/images.parquet"


class VersionContents:
    """A pinned version with its images on disk."""

    def __init__(self, name: str, root: Path) -> None:
        """Read the pin; errors as in ``read_pin``."""
        self.pinned, self.root = read_pin(name, root), root

    def load_table(self, table: Table, path: str) -> pd.DataFrame | None:
        """Return the pinned rows of a table; None if the version has no such table.

        Raises:
            ContractError: its rows break this caramel's contract for them.
            DataError: its rows are neither on disk nor in DVC's cache.
        """
        if path not in self.pinned.tables:
            return None
        rows = read_pinned(self.pinned.name, path, self.root)
        check_table(table, rows, f"version {self.pinned.name!r}, {path}")
        return rows

    def load_rejects(self) -> pd.DataFrame:
        """Return the rejects of all stages."""
        paths = [path for path in self.pinned.tables if path.endswith("/rejects.parquet")]
        frames = [
            rows for path in paths if (rows := self.load_table(REJECTS, path)) is not None and len(rows)
        ]
        return pd.concat(frames, ignore_index=True) if frames else build_frame(REJECTS, [])

    def load_json(self, path: str) -> dict[str, Any]:
        """Return the content of a JSON file of the version, or nothing if it has none.

        Errors as in ``find_file``.
        """
        json_path = self.find_file(path)
        content: dict[str, Any] = json.loads(json_path.read_text(encoding="utf-8")) if json_path else {}
        return content

    def find_file(self, path: str) -> Path | None:
        """Return the path of a file of the version; None if the version has none.

        Raises:
            DataError: the version has the file's output, but the output on disk differs from the pin.
        """
        out = next((out for out in self.pinned.outs if path == out or path.startswith(f"{out}/")), None)
        local_path = self.root / path
        if out is None:
            return None
        if not (self.root / out).exists() or compute_dvc_hash(self.root / out) != self.pinned.outs[out]:
            raise self._build_missing_error(out)
        return local_path if local_path.is_file() else None

    def load_image_index(self) -> pd.DataFrame:
        """Return the index of the images that instances and training rows use.

        Raises:
            DataError: the version has none, or it differs from the one on disk.
        """
        version, index_path = self.pinned.tables.get(IMAGE_INDEX), self.root / IMAGE_INDEX
        if version is None:
            raise DataError(
                f"Version {self.pinned.name!r} has no {IMAGE_INDEX}: there is nothing to release."
            )
        if not index_path.is_file() or compute_table_version(index_path).content != version.content:
            raise self._build_missing_error(IMAGE_INDEX)
        return read_table(IMAGES, index_path)

    def _build_missing_error(self, path: str) -> DataError:
        """Return the error for a file of the version that is missing on disk."""
        name = self.pinned.name
        return DataError(
            f"{path} of version {name!r} is not on disk as it was pinned. Get the version with `caramel get .@{name} "
            f"--out ../FOLDER`, and release it in that folder."
        )

    def open_images(self, rows: pd.DataFrame) -> ImageStore:
        """Return the images of rows of the index."""
        return ImageStore(self.root / IMAGE_INDEX, rows)


def list_image_ids(rows: pd.DataFrame) -> list[str]:
    """Return the ids of all images that rows use, each once, in order of first use."""
    names: dict[str, None] = {}
    for column in ("image_id", "negative_image_id", "negative_image_ids"):
        for value in rows.get(column, ()):
            names |= dict.fromkeys(list_names(value))
    return list(names)


def list_names(value: str | Iterable[str | None] | None) -> list[str]:
    """Return the ids in a cell that holds one id, a list of ids, or none."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, float):  # pandas' empty cell
        return []
    return [name for name in value if isinstance(name, str)]
