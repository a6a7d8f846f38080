"""Derive expectations from a table's contract in ``schemas``.

They are derived when a suite runs, so that a contract is written only once: the suites in ``expectations/``
hold only what a contract cannot express.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXT, Column, Table

# Great Expectations' names of the Python types in a frame; it has no name for the arrays that hold lists.
TYPES: dict[pa.DataType, str] = {
    TEXT: "str",
    FLOAT: "float",
    INT: "int",
    BOOL: "bool",
}


def derive_expectations(table: Table, key: Sequence[str]) -> list[dict[str, Any]]:
    """Return a contract as expectations, each in the form of a suite file.

    - Every column is at its position and has its type. Columns that a gate adds come after them.
    - A column that must not be null has no null.
    - A column with a closed set has only values of that set.
    - The key is unique.

    Args:
        table: the contract.
        key: the columns that identify one row of the validated table.
    """
    return [*_iter_column_expectations(table), _build_key_expectation(list(key))]


def _iter_column_expectations(table: Table) -> Iterator[dict[str, Any]]:
    for index, (name, column) in enumerate(table.columns.items()):
        says = f"Contract of table {table.name}: {name} is {column.doc}."
        yield _build_expectation("expect_column_to_exist", says, column=name, column_index=index)
        if column.type in TYPES:
            yield _build_type_expectation(name, column, says)
        if not column.null:
            yield _build_expectation("expect_column_values_to_not_be_null", says, column=name)
        if column.choices is not None and column.type in TYPES:
            yield _build_expectation(
                "expect_column_values_to_be_in_set", says, column=name, value_set=list(column.choices)
            )


def _build_type_expectation(name: str, column: Column, says: str) -> dict[str, Any]:
    if column.null and column.type == INT:  # pandas makes floats of integers with empty values
        type_names = [TYPES[INT], TYPES[FLOAT]]
        return _build_expectation(
            "expect_column_values_to_be_in_type_list", says, column=name, type_list=type_names
        )
    return _build_expectation(
        "expect_column_values_to_be_of_type", says, column=name, type_=TYPES[column.type]
    )


def _build_key_expectation(key: list[str]) -> dict[str, Any]:
    says = "The key names one row."
    if len(key) == 1:
        return _build_expectation("expect_column_values_to_be_unique", says, column=key[0])
    return _build_expectation("expect_compound_columns_to_be_unique", says, column_list=key)


def _build_expectation(expectation_type: str, notes: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": expectation_type, "kwargs": kwargs, "meta": {"notes": notes}, "severity": "critical"}
