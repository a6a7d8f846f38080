"""Tables whose columns are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from caramel.schemas.contracts import Table
from caramel.schemas.io import read_table


class ColumnSource(Protocol):
    """Rows of which some columns are taken at a time: a frame, or a ``StoredTable``."""

    @property
    def columns(self) -> Iterable[str]:
        """The names of all columns."""

    def __getitem__(self, names: list[str], /) -> pd.DataFrame:
        """Return the columns with these names."""


@dataclass(frozen=True)
class StoredTable:
    """A table on disk. Only the columns that are taken are in memory.

    Errors of ``stored[names]`` are those of ``read_table``.
    """

    table: Table
    path: Path

    @property
    def columns(self) -> list[str]:
        """The contract's columns."""
        return list(self.table.columns)

    def __getitem__(self, names: list[str], /) -> pd.DataFrame:
        """Read the columns with these names."""
        return read_table(self.table, self.path, names)
