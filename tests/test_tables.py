"""A table on disk keeps its contract, and equal rows give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel import tables
from caramel.errors import ContractError, DataError

EXAMPLE: dict[Any, Any] = {
    tables.TEXT: "text",
    tables.FLOAT: 0.5,
    tables.INT: 3,
    tables.BOOL: True,
    tables.TEXTS: ["one", "two"],
    tables.IMAGE: {"bytes": b"\x89PNG", "path": None},
}


def example(table: tables.Table, n: int = 3) -> pd.DataFrame:
    """Return n rows that keep the contract, with a null wherever one may be in the last row."""
    rows = []
    for i in range(n):
        row = {c: (v.choices[0] if v.choices else EXAMPLE[v.type]) for c, v in table.columns.items()}
        row[table.key[0]] = f"k{i}"
        rows.append({c: None if v.null and i == n - 1 else row[c] for c, v in table.columns.items()})
    return tables.frame(table, rows)


NEGATIVES = tables.NEGATIVES


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=list(tables.TABLES))
def test_every_table_comes_back_as_it_was_written(table: tables.Table, tmp_path: Path) -> None:
    rows = example(table)
    path = tables.write(table, rows, tmp_path / "new" / "table.parquet")
    back = tables.read(table, path)
    assert list(back.columns) == list(table.columns)
    assert pa.Table.from_pandas(back, schema=table.schema, preserve_index=False) == tables.check(
        table, rows, "rows"
    )
    assert pq.read_schema(path).equals(table.schema)
    assert [p.name for p in path.parent.iterdir()] == ["table.parquet"], "no temporary file is left"


@pytest.mark.parametrize("table", tables.TABLES.values(), ids=list(tables.TABLES))
def test_every_table_may_be_empty_and_says_what_its_columns_mean(table: tables.Table, tmp_path: Path) -> None:
    path = tables.write(table, tables.frame(table, []), tmp_path / "table.parquet")
    assert len(tables.read(table, path)) == 0
    assert all(column.doc for column in table.columns.values())
    assert set(table.key) <= set(table.columns)
    assert not any(table.columns[name].null for name in table.key)


def test_equal_rows_give_equal_bytes_whatever_the_frame_is_like(tmp_path: Path) -> None:
    rows = example(NEGATIVES)
    other = rows.astype({"negative_caption": "object", "seed": "int32"}).set_index(
        pd.Index([7, 8, 9], name="x")
    )
    paths = [tables.write(NEGATIVES, r, tmp_path / f"{i}.parquet") for i, r in enumerate([rows, other])]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_some_columns_can_be_read(tmp_path: Path) -> None:
    path = tables.write(NEGATIVES, example(NEGATIVES), tmp_path / "t.parquet")
    assert list(tables.read(NEGATIVES, path, ["pair_id"]).columns) == ["pair_id"]


def change(column: str, value: Any) -> pd.DataFrame:
    rows = example(NEGATIVES).astype({column: "object"})
    rows.loc[1, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (example(NEGATIVES).drop(columns="seed"), r"missing columns \['seed'\], unknown columns \[\]"),
        (example(NEGATIVES).assign(sed=1), r"missing columns \[\], unknown columns \['sed'\]"),
        (change("seed", "three"), "seed"),
        (example(NEGATIVES).assign(seed=0.5), "seed"),
        (change("negative_caption", 5), "negative_caption"),
        (change("negative_caption", None), "1 empty values in column 'negative_caption'"),
        (
            change("subtype", "swap_rel"),
            r"(?s)column 'subtype' holds unknown values.*'swap_rel'.*Choices: replace_obj",
        ),
        (change("negative_id", "k0"), r"(?s)1 keys \('negative_id',\) stand twice.*k0"),
    ],
    ids=[
        "missing column",
        "unknown column",
        "text for a number",
        "fraction",
        "number for a text",
        "null",
        "choice",
        "key",
    ],
)
def test_a_broken_contract_is_named_and_nothing_is_written(
    rows: pd.DataFrame, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(ContractError, match=said) as stopped:
        tables.write(NEGATIVES, rows, path)
    assert "'negatives'" in str(stopped.value)
    assert str(path) in str(stopped.value)
    assert not list(tmp_path.iterdir())


def test_a_score_that_is_not_a_number_is_an_empty_value(tmp_path: Path) -> None:
    rows = example(tables.SCORES).assign(positive_score=float("nan"))
    with pytest.raises(ContractError, match="3 empty values in column 'positive_score'"):
        tables.write(tables.SCORES, rows, tmp_path / "t.parquet")


def test_a_missing_or_broken_or_foreign_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(DataError, match=r"missing.*dvc repro"):
        tables.read(NEGATIVES, path)
    path.write_bytes(b"PAR1 this is not Parquet")
    with pytest.raises(DataError, match="cannot be read"):
        tables.read(NEGATIVES, path)
    tables.write(tables.PARAPHRASES, example(tables.PARAPHRASES), path)
    with pytest.raises(ContractError, match=r"has columns.*the contract says"):
        tables.read(NEGATIVES, path)


def test_the_content_hash_knows_the_rows_and_neither_order_nor_encoding(tmp_path: Path) -> None:
    rows = example(NEGATIVES)
    one = tables.write(NEGATIVES, rows, tmp_path / "one.parquet")
    two = tables.write(NEGATIVES, rows.iloc[::-1], tmp_path / "two.parquet")
    three = tmp_path / "three.parquet"
    pq.write_table(pq.read_table(one), three, compression="none", row_group_size=1)
    assert one.read_bytes() != two.read_bytes() != three.read_bytes()
    assert tables.content_hash(one) == tables.content_hash(two) == tables.content_hash(three)
    four = tables.write(NEGATIVES, rows.assign(seed=4), tmp_path / "four.parquet")
    five = tables.write(NEGATIVES, rows.head(2), tmp_path / "five.parquet")
    assert len({tables.content_hash(path) for path in (one, four, five)}) == 3


def test_subtypes_belong_to_types() -> None:
    assert {subtype.split("_")[0] for subtype in tables.SUBTYPES} == set(tables.TYPES)
