"""The derived expectations hold of every table that keeps its contract, and find each breach of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from caramel.gates.contract_expectations import derive_expectations
from caramel.runtime.environment import be_quiet
from caramel.schemas.catalogue import TABLES
from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXT, TEXTS, Table
from caramel.schemas.io import read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES

SAMPLES: dict[pa.DataType, tuple[Any, Any]] = {
    TEXT: ("a", "b"),
    FLOAT: (0.5, 1.0),
    INT: (1, 2),
    BOOL: (True, False),
    TEXTS: (["a"], []),
}


def sample(table: Table, folder: Path, empty: bool = False) -> pd.DataFrame:
    """Return two rows as they come from disk; ``empty``: without values where there may be none."""
    columns = {}
    for name, column in table.columns.items():
        values = column.choices[:2] if column.choices else SAMPLES[column.type]
        if column.choices and column.type == TEXTS:
            values = ([value] for value in values)
        columns[name] = [None, None] if column.null and empty else list(values)
    path = write_table(table, pd.DataFrame(columns), folder / "t.parquet")
    return read_table(table, path)


def failing(table: Table, rows: pd.DataFrame) -> list[tuple[str, Any]]:
    """Return type and column of the derived expectations that fail."""
    be_quiet()
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("p").add_dataframe_asset("a")
    batch = asset.add_batch_definition_whole_dataframe("b").get_batch({"dataframe": rows})
    parts = derive_expectations(table, table.key)
    suite = gx.ExpectationSuite(name="s", expectations=parts)
    assert len(suite.expectations) == len(parts)
    results = batch.validate(suite).results
    return [
        (r.expectation_config.type.removeprefix("expect_column_"), r.expectation_config.kwargs.get("column"))
        for r in results
        if not r.success
    ]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("rows", ["full", "empty cells", "no rows"])
def test_a_table_that_keeps_its_contract_passes(name: str, rows: str, tmp_path: Path) -> None:
    table = TABLES[name]
    found = sample(table, tmp_path, empty=rows == "empty cells")
    found = found.head(0) if rows == "no rows" else found
    assert failing(table, found.assign(added_by_a_gate=1)) == []


def of_kind(kind: str, found: list[tuple[str, Any]]) -> set[Any]:
    """Return the columns of which an expectation of that type fails."""
    return {column for failed, column in found if failed == kind}


@pytest.mark.parametrize("name", ["negatives", "instances", "images"])
def test_each_breach_of_a_contract_is_found_in_its_column(name: str, tmp_path: Path) -> None:
    """All columns are broken at once: an expectation on one of them does not see the others."""
    table = TABLES[name]
    rows = sample(table, tmp_path)
    filled = [column for column in table.columns if not table.columns[column].null]
    emptied = rows.astype(dict.fromkeys(filled, object))
    emptied = emptied.assign(**{column: [rows[column].iloc[0], None] for column in filled})
    assert of_kind("values_to_not_be_null", failing(table, emptied)) == {*filled}
    wrong = failing(table, rows.assign(**{c: pd.Series([b"a", b"b"], dtype=object) for c in rows}))
    assert of_kind("values_to_be_of_type", wrong) == {*table.columns}
    closed = {column for column in table.columns if table.columns[column].choices}
    assert of_kind("values_to_be_in_set", wrong) == closed
    lacking = failing(table, rows[[]].assign(added_by_a_gate=1))
    assert of_kind("to_exist", lacking) == {*table.columns}
    twice = pd.concat([rows, rows], ignore_index=True)
    assert failing(table, twice) == [("values_to_be_unique", table.key[0])]


def test_a_key_of_several_columns_names_one_row(tmp_path: Path) -> None:
    rows = sample(SCORES, tmp_path)
    assert failing(SCORES, rows.assign(scorer="a")) == []
    twice = rows.assign(negative_id="a", scorer="a")
    assert failing(SCORES, twice) == [("expect_compound_columns_to_be_unique", None)]


def test_columns_in_another_order_are_found(tmp_path: Path) -> None:
    rows = sample(PAIRS, tmp_path)
    order = list(np.roll(rows.columns, 1))
    # Great Expectations takes place 0 for none: the first column is found by the places of the others.
    assert failing(PAIRS, rows[order]) == [("to_exist", name) for name in rows.columns[1:]]
