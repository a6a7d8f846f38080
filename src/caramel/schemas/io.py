"""Read and write tables as Parquet files, and check them against their contracts.

A table on disk is one Parquet file that is written with fixed settings, so that equal rows give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from caramel.errors import ContractError, DataError
from caramel.io.files import write_atomically
from caramel.io.readers import open_parquet
from caramel.schemas.columns import LAYOUT
from caramel.schemas.contracts import TEXT, TEXTS, Table, cast_column, check_key, check_table, check_values

GROUP = 65536  # rows per row group
AGAIN = "If a stage wrote this table, remove the file and run `dvc repro`."


def build_frame(table: Table, rows: Sequence[Mapping[str, object]] | pd.DataFrame) -> pd.DataFrame:
    """Return the rows as a frame with the contract's columns, in the contract's order."""
    return pd.DataFrame(rows, columns=list(table.columns))


def write_table(table: Table, rows: pd.DataFrame, path: str | Path) -> Path:
    """Write the rows atomically to one Parquet file, by a temporary name and a rename.

    Equal rows give equal bytes: the caller decides the order, and no metadata is stored.
    """
    path = Path(path)
    arrow = check_table(table, rows, str(path))
    write_atomically(path, lambda new: pq.write_table(arrow, new, compression="zstd", row_group_size=GROUP))
    return path


def write_table_parts(
    table: Table, parts: Iterable[pd.DataFrame], path: str | Path, *, by: str | None = None
) -> Path:
    """Write rows that come in parts to one Parquet file, with the same bytes as ``write_table`` for all rows.

    When the next part is requested, only the last rows of the previous one are in memory.

    Args:
        by: column of the key. Two parts never share a value of it, so that each key is in only one part. None: parts
            may share values of each column; the keys are read again after the last part, to be checked.

    Raises:
        ContractError: a part breaks the contract, two parts share a value of ``by``, or a key is a duplicate.
    """
    path, previous_values = Path(path), set[object]()

    def write_rows(new: Path) -> None:
        rest, is_empty = table.schema.empty_table(), True
        with pq.ParquetWriter(new, table.schema, compression="zstd") as file:
            for part in parts:
                arrow = check_table(table, part, str(path))
                values = set(arrow.column(by).unique().to_pylist()) if by else set[object]()
                if again := sorted(map(str, previous_values & values)):
                    raise ContractError(f"Table {table.name!r} at {path}: two parts hold {by} {again[0]!r}.")
                previous_values.update(values)
                rest = pa.concat_tables([rest, arrow])
                whole = len(rest) // GROUP * GROUP
                for start in range(0, whole, GROUP):  # pages end where chunks end: a group must be one chunk
                    file.write_table(rest.slice(start, GROUP).combine_chunks(), row_group_size=GROUP)
                    is_empty = False
                rest = rest.take(pa.array(range(whole, len(rest)), pa.int64()))  # a slice would keep all
            if len(rest) or is_empty:
                file.write_table(rest, row_group_size=GROUP)
        if by is None:
            with open_parquet(new) as written:
                check_key(table, _read_columns(written, table.key), str(path))

    write_atomically(path, write_rows)
    return path


def read_table(
    table: Table,
    path: str | Path,
    columns: Sequence[str] | None = None,
    only: tuple[str, Collection[str]] | None = None,
    *,
    arrow_lists: bool = False,
) -> pd.DataFrame:
    """Return the table at ``path``, or only some of its columns and rows. Only what is returned is checked.

    Args:
        only: a column, and its values in the wanted rows; other rows are not held in memory.
        arrow_lists: whether columns of lists stay Arrow's (``pd.ArrowDtype``). As Python lists they take hundreds of
            bytes for each text.

    Raises:
        DataError: the file is missing or not Parquet.
        ContractError: it breaks the contract; see ``check_table``.
    """
    path, wanted = Path(path), list(columns or table.columns)
    with _open_table(table, path) as (file, stored):
        arrow = (
            _read_columns(file, [stored[name] for name in wanted])
            if only is None
            else _read_only(table, file, stored, wanted, *only, str(path))
        )
        arrow = _check_columns(table, arrow.rename_columns(wanted), str(path))
        rows: pd.DataFrame = arrow.to_pandas(
            self_destruct=True,
            use_threads=False,
            types_mapper={TEXTS: pd.ArrowDtype(TEXTS)}.get if arrow_lists else None,
        )
        del arrow  # its columns are gone
        pa.default_memory_pool().release_unused()  # a large table would keep hundreds of megabytes
    return rows


def iter_table(
    table: Table, path: str | Path, columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Yield the rows of ``read_table`` in parts: only one row group is in memory, and is checked by itself."""
    path, wanted = Path(path), list(columns or table.columns)
    with _open_table(table, path) as (file, stored):
        for number in range(file.num_row_groups):
            arrow = file.read_row_group(number, [stored[name] for name in wanted], use_threads=False)
            arrow.validate(full=True)
            yield _check_columns(table, arrow.rename_columns(wanted), str(path)).to_pandas()


@contextmanager
def _open_table(table: Table, path: Path) -> Iterator[tuple[pq.ParquetFile, dict[str, str]]]:
    """Open the file of a table; also give the name in the file of each column of the contract."""
    if not path.exists():
        raise DataError(f"Table {table.name!r} is missing: {str(path)!r}. Run `dvc repro` to create it.")
    try:
        with open_parquet(path) as file:
            names = file.schema_arrow.names
            stored = table.map_stored_names(names)
            if stored is None:
                raise ContractError(
                    f"Table {table.name!r} at {str(path)!r} has columns {names}; "
                    f"the contract requires {list(table.columns)}."
                )
            yield file, stored
    except DataError as error:
        raise type(error)(f"{error}\n{AGAIN}") from error


def _check_columns(table: Table, arrow: pa.Table, where: str) -> pa.Table:
    """Return columns of the table in their own types, after checks of what ``check_table`` checks of them."""
    names = arrow.column_names
    arrow = pa.table({name: cast_column(table, name, arrow.column(name), where) for name in names})
    check_values(table, arrow, where)
    if set(table.key) <= set(names):
        check_key(table, arrow, where)
    return arrow


def _read_columns(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Return the columns of an open file. Invalid text raises an error of Arrow.

    Threads would hold a quarter more memory while they decode.
    """
    arrow = file.read(columns=columns, use_threads=False)
    arrow.validate(full=True)
    return arrow


def _read_only(
    table: Table,
    file: pq.ParquetFile,
    stored: Mapping[str, str],
    wanted: Sequence[str],
    by: str,
    values: Collection[str],
    where: str,
) -> pa.Table:
    """Return the columns of those rows of an open file that have one of the values.

    All values of ``by`` are looked up at a time, and one row group of the columns is read at a time.

    Args:
        stored: maps each column of the contract to its name in the file.
    """
    columns = [stored[name] for name in wanted]
    names = cast_column(table, by, _read_columns(file, [stored[by]]).column(0), where)
    has, start = pc.is_in(names, value_set=pa.array(sorted(values), TEXT)), 0
    del names
    parts = [file.schema_arrow.empty_table().select(columns)]
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns=columns, use_threads=False)
        group.validate(full=True)
        parts.append(group.filter(has.slice(start, len(group))))
        start += len(group)
    return pa.concat_tables(parts)


def hash_content(path: str | Path) -> str:
    """Return the SHA-256 of a table's rows, independent of their order on disk and their encoding.

    Each row is hashed as canonical text, in batches, and the sorted row hashes are hashed together. For an
    image its own SHA-256 counts, not the shard that holds it.

    Raises:
        DataError: the file is not Parquet.
    """
    digests = []
    with open_parquet(Path(path)) as file:
        names = file.schema_arrow.names
        counted = [name for name in names if not (set(LAYOUT) <= set(names) and name in LAYOUT)]
        for batch in file.iter_batches(columns=counted):
            batch.validate(full=True)
            digests += [hashlib.sha256(repr(row).encode()).digest() for row in batch.to_pylist()]
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
