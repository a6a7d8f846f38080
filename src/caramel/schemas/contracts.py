"""Define the contract of a table (its columns and their allowed values), and check rows against it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from caramel.errors import ContractError, format_items

TEXT, FLOAT, INT, BOOL = pa.string(), pa.float64(), pa.int64(), pa.bool_()
TEXTS = pa.list_(TEXT)
Range = tuple[float, float]
# Numbers are finite. NaN is an empty value, which a nullable column may hold. Infinity is never allowed.
FINITE: Range = (-sys.float_info.max, sys.float_info.max)
UNIT: Range = (0.0, 1.0)
COUNT: Range = (0, 2**63 - 1)
FROM_ONE: Range = (1, 2**63 - 1)
BATCH = 65536  # rows whose keys are Python objects at a time


@dataclass(frozen=True)
class Column:
    """One column: its Arrow type, its meaning, and its allowed values."""

    type: pa.DataType
    doc: str
    null: bool = False
    choices: tuple[str, ...] | None = None  # the closed set of its values
    range: Range = FINITE  # for numbers, both ends included
    formerly: str | None = None  # its name in tables of caramel 0.1


@dataclass(frozen=True)
class Table:
    """The contract of one table."""

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, Column]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, columns in contract order."""
        return pa.schema([pa.field(n, c.type, nullable=c.null) for n, c in self.columns.items()])

    @property
    def former_names(self) -> dict[str, str]:
        """The names that the columns had in caramel 0.1."""
        return {name: column.formerly or name for name, column in self.columns.items()}

    def map_stored_names(self, names: Sequence[str]) -> dict[str, str] | None:
        """Return each column's name in a file with these columns: the current names, or those of caramel 0.1.

        Return None if the file has other columns.
        """
        for stored in ({name: name for name in self.columns}, self.former_names):
            if list(stored.values()) == list(names):
                return stored
        return None


def check_table(table: Table, rows: pd.DataFrame, where: str) -> pa.Table:
    """Return the rows as an Arrow table that keeps the contract.

    Raises:
        ContractError: a column is missing, unknown, of the wrong type, null, outside its closed set
            or its range, or a key is a duplicate; the message names the column and up to five values.
    """
    missing = [c for c in table.columns if c not in rows.columns]
    extra = [str(c) for c in rows.columns if c not in table.columns]
    if missing or extra:
        raise ContractError(
            f"Table {table.name!r} at {where}: missing columns {missing}, unknown columns {extra}. "
            f"The contract is in src/caramel/schemas."
        )
    # Nullable first: pyarrow's own error about a null is a bare ValueError.
    lenient = pa.schema([field.with_nullable(True) for field in table.schema])
    types = {name: _infer_type(rows[name], table, where) for name in table.columns}
    for name, dtype in types.items():
        check_type(table, name, dtype, where)
    # pandas turns empty columns into numbers, which could not become lists.
    empty: dict[str, Any] = {name: "object" for name, dtype in types.items() if pa.types.is_null(dtype)}
    try:
        arrow = pa.Table.from_pandas(rows.astype(empty), schema=lenient, preserve_index=False)
    except pa.ArrowException as error:
        raise ContractError(f"Table {table.name!r} at {where}: {error}") from error
    check_values(table, arrow, where)
    check_key(table, arrow, where)
    return arrow.cast(table.schema).replace_schema_metadata(None)


def _infer_type(values: pd.Series, table: Table, where: str) -> pa.DataType:
    """Return the type of the values before any cast; null if all are empty."""
    try:
        array = pa.array(values, from_pandas=True)
        return pa.null() if array.null_count == len(array) else array.type
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise ContractError(
            f"Table {table.name!r} at {where}: column {values.name!r} must be {table.columns[str(values.name)].type}: {error}"
        ) from error


def check_type(table: Table, name: str, dtype: pa.DataType, where: str) -> None:
    """Raise unless every value of the given type has the same meaning in the type of the column.

    Integers and floats of other sizes are accepted, and text in other encodings. Text is not accepted as a
    number, nor is a boolean or a time. pandas turns integers with empty values into floats.
    """
    column, is_ = table.columns[name], pa.types
    fits: dict[pa.DataType, Callable[[pa.DataType], bool]] = {
        TEXT: _is_text,
        TEXTS: lambda t: (is_.is_list(t) or is_.is_large_list(t)) and _is_text(t.value_type),
        FLOAT: lambda t: is_.is_floating(t) or is_.is_integer(t),
        INT: lambda t: is_.is_integer(t) or (column.null and is_.is_floating(t)),
    }
    same = dtype == column.type or is_.is_null(dtype)  # null: the column is all empty
    if not same and not (column.type in fits and fits[column.type](dtype)):
        raise ContractError(
            f"Table {table.name!r} at {where}: column {name!r} is of type {dtype}; it must be {column.type}."
        )


def _is_text(dtype: pa.DataType) -> bool:
    value_type = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    of = pa.types
    return any(f(value_type) for f in (of.is_string, of.is_large_string, of.is_string_view, of.is_null))


def check_values(table: Table, arrow: pa.Table, where: str) -> None:
    """Raise if a column is empty where it must not be, or has values outside its set or range."""
    for name in arrow.column_names:
        column, values = table.columns[name], arrow.column(name)
        empty = values.null_count
        if column.type == FLOAT:
            empty += pc.sum(pc.is_nan(values)).as_py() or 0
        if column.type == TEXTS:
            values = pc.list_flatten(values)
            empty += values.null_count
        if empty and not column.null:
            raise ContractError(
                f"Table {table.name!r} at {where}: {empty} empty values in column {name!r}, which must not be empty."
            )
        odd: list[Any] = []
        known = ""
        if column.choices is not None:
            odd = sorted(set(values.unique().to_pylist()) - {*column.choices, None})
            known = f"Choices: {', '.join(column.choices)}"
        elif column.type == FLOAT or column.range != FINITE:  # every integer is finite
            low, high = column.range
            outside = values.filter(pc.or_(pc.less(values, low), pc.greater(values, high)))
            odd = outside.unique().to_pylist()
            known = (
                "All must be finite"
                if column.range == FINITE
                else f"The minimum is {low}, the maximum {high}"
            )
        if odd:
            raise ContractError(
                f"Table {table.name!r} at {where}: column {name!r} has invalid values.\n"
                f"{format_items([repr(v) for v in odd])}\n{known}."
            )


def check_key(table: Table, arrow: pa.Table, where: str) -> None:
    """Raise if a key is a duplicate.

    Keys are compared by hashes of 64 bits. Only keys whose hash is not unique are compared by their values, so that
    a row takes 16 bytes, not the 160 of its key as a Python text in a hash table.
    """
    keys = arrow.select(list(table.key))
    hashes = _hash_rows(keys)
    ordered = np.sort(hashes)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated):
        return
    columns = keys.filter(pa.array(np.isin(hashes, repeated))).columns
    counts = Counter(zip(*(column.to_pylist() for column in columns), strict=True))
    twice = [str(key) for key, count in counts.items() if count > 1]
    if twice:
        raise ContractError(
            f"Table {table.name!r} at {where}: duplicate keys {table.key}: {len(twice)}\n{format_items(twice)}"
        )


def _hash_rows(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return a hash of each row, equal for equal rows. (n,)."""
    hashes, start = np.empty(len(rows), np.int64), 0
    for batch in rows.to_batches(max_chunksize=BATCH):
        values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        hashes[start : start + len(batch)] = np.fromiter(map(hash, values), np.int64, len(batch))
        start += len(batch)
    return hashes


def cast_column(table: Table, name: str, values: pa.ChunkedArray, where: str) -> pa.ChunkedArray:
    """Return the values of a column in its own type.

    Raises:
        ContractError: their type has another meaning, see ``check_type``, or they do not fit the column's
            type.
    """
    dtype = table.columns[name].type
    if pa.types.is_floating(values.type) and dtype != FLOAT:  # pandas writes empty values as NaN
        values = pc.if_else(pc.is_nan(values), None, values)
        if values.null_count == len(values):
            values = pa.chunked_array([pa.nulls(len(values))])
    check_type(table, name, values.type, where)
    try:
        return values.cast(dtype)
    except pa.ArrowException as error:
        raise ContractError(f"Table {table.name!r} at {where}: column {name!r}: {error}") from error
