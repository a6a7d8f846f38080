"""A table on disk keeps its contract, and equal rows give equal bytes."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from caramel.errors import ContractError, DataError
from caramel.schemas import contracts
from caramel.schemas.catalogue import TABLES
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXT, TEXTS, Table, check_table
from caramel.schemas.evaluation import SIMILARITIES as SIMILARITIES_TABLE
from caramel.schemas.images import IMAGES
from caramel.schemas.io import (
    GROUP,
    build_frame,
    hash_content,
    iter_table,
    read_table,
    write_table,
    write_table_parts,
)
from caramel.schemas.negatives import NEGATIVES as NEGATIVES_TABLE
from caramel.schemas.negatives import PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.schemas.scores import SCORES
from caramel.schemas.training import TRAINING

EXAMPLE: dict[Any, Any] = {
    TEXT: "text",
    FLOAT: 0.5,
    INT: 3,
    BOOL: True,
    TEXTS: ["one", "two"],
}


def example(table: Table, n: int = 3) -> pd.DataFrame:
    """Return n rows that keep the contract, with a null wherever one may be in the last row."""
    rows = []
    for i in range(n):
        row = {c: EXAMPLE[v.type] for c, v in table.columns.items()}
        for c, v in table.columns.items():
            if v.choices:
                row[c] = [*v.choices[:2]] if v.type == TEXTS else v.choices[0]
        row[table.key[0]] = f"k{i}"
        rows.append({c: None if v.null and i == n - 1 else row[c] for c, v in table.columns.items()})
    return build_frame(table, rows)


NEGATIVES = NEGATIVES_TABLE


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_table_comes_back_as_it_was_written(table: Table, tmp_path: Path) -> None:
    rows = example(table)
    path = write_table(table, rows, tmp_path / "new" / "table.parquet")
    back = read_table(table, path)
    assert list(back.columns) == list(table.columns)
    assert pa.Table.from_pandas(back, schema=table.schema, preserve_index=False) == check_table(
        table, rows, "rows"
    )
    assert pq.read_schema(path).equals(table.schema)
    assert [p.name for p in path.parent.iterdir()] == ["table.parquet"], "no temporary file is left"


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_table_may_be_empty_and_says_what_its_columns_mean(table: Table, tmp_path: Path) -> None:
    path = write_table(table, build_frame(table, []), tmp_path / "table.parquet")
    assert len(read_table(table, path)) == 0
    assert all(column.doc for column in table.columns.values())
    assert set(table.key) <= set(table.columns)
    assert not any(table.columns[name].null for name in table.key)


def test_equal_rows_give_equal_bytes_whatever_the_frame_is_like(tmp_path: Path) -> None:
    rows = example(NEGATIVES)
    other = rows.astype({"negative_caption": "object", "seed": "int32"}).set_index(
        pd.Index([7, 8, 9], name="x")
    )
    paths = [write_table(NEGATIVES, r, tmp_path / f"{i}.parquet") for i, r in enumerate([rows, other])]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_some_columns_can_be_read(tmp_path: Path) -> None:
    path = write_table(NEGATIVES, example(NEGATIVES), tmp_path / "t.parquet")
    assert list(read_table(NEGATIVES, path, ["pair_id"]).columns) == ["pair_id"]


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
            r"(?s)column 'subtype' has invalid values.*'swap_rel'.*Choices: replace_obj",
        ),
        (change("negative_id", "k0"), r"(?s)duplicate keys \('negative_id',\): 1.*k0"),
        (example(NEGATIVES).assign(seed=True), "'seed' is of type bool"),
        (example(NEGATIVES).assign(seed="1"), "'seed' is of type .*string"),
        (example(NEGATIVES).assign(seed=pd.Timestamp("2020-01-01")), "'seed' is of type timestamp"),
        (example(NEGATIVES).assign(seed=2**70), "'seed'"),
        (example(NEGATIVES).assign(seed=1j), "'seed'"),
        (example(NEGATIVES).assign(attempt=0), r"(?s)'attempt' has invalid values.*0"),
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
        "truth",
        "digits",
        "time",
        "too large",
        "complex",
        "out of range",
    ],
)
def test_a_broken_contract_is_named_and_nothing_is_written(
    rows: pd.DataFrame, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(ContractError, match=said) as stopped:
        write_table(NEGATIVES, rows, path)
    assert "'negatives'" in str(stopped.value)
    assert str(path) in str(stopped.value)
    assert not list(tmp_path.iterdir())


def test_a_score_that_is_not_a_number_is_an_empty_value(tmp_path: Path) -> None:
    rows = example(SCORES).assign(positive_score=float("nan"))
    with pytest.raises(ContractError, match="3 empty values in column 'positive_score'"):
        write_table(SCORES, rows, tmp_path / "t.parquet")


def test_a_missing_or_broken_or_foreign_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(DataError, match=r"missing.*dvc repro"):
        read_table(NEGATIVES, path)
    path.write_bytes(b"PAR1 this is not Parquet")
    with pytest.raises(DataError, match=r"(?s)is not a Parquet file.*dvc repro"):
        read_table(NEGATIVES, path)
    write_table(PARAPHRASES, example(PARAPHRASES), path)
    with pytest.raises(ContractError, match=r"has columns.*the contract requires"):
        read_table(NEGATIVES, path)


SIMILARITIES = SIMILARITIES_TABLE


def foreign(rows: pd.DataFrame, path: Path, **types: pa.DataType) -> Path:
    """Write rows as another program would, with some columns of other types."""
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    for name, kind in types.items():
        place = arrow.schema.get_field_index(name)
        arrow = arrow.set_column(place, name, arrow.column(name).cast(kind))
    pq.write_table(arrow, path)
    return path


def scored(**values: Any) -> pd.DataFrame:
    rows = example(SIMILARITIES)
    for name, value in values.items():
        rows[name] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "types", "said"),
    [
        (scored(s_c0_i0=[0.1, float("inf"), 0.2]), {}, r"(?s)'s_c0_i0' has invalid values.*inf.*finite"),
        (scored(s_c0_i0=["0.1", "0.2", "0.3"]), {}, "'s_c0_i0' is of type .*string; it must be double"),
        (scored(s_c0_i0=[True, False, True]), {}, "'s_c0_i0' is of type bool; it must be double"),
        (
            scored(n_above=pd.to_datetime(["2020-01-01"] * 3)),
            {},
            "'n_above' is of type timestamp.*; it must be int64",
        ),
        (scored(n_above=[-1, 2, 3]), {}, r"(?s)'n_above' has invalid values.*-1"),
        (scored(n_above=[0.5, 2, 3]), {}, "0.5.* truncated"),
        (scored(), {"model": pa.binary()}, "'model' is of type binary; it must be string"),
        (scored(model=[1, 2, 3]), {}, "'model' is of type int64; it must be string"),
        (scored(image_id=["a", None, "b"]), {}, "1 empty values in column 'image_id'"),
        (scored(instance_id=["a", "b", "a"]), {}, r"(?s)duplicate keys .*: 1\n.*'a'"),
        (scored(subsets="all"), {}, "'subsets' is of type .*string; it must be list"),
        (scored(subsets=[["a", None]] * 3), {}, "3 empty values in column 'subsets'"),
    ],
)
def test_a_file_of_others_that_breaks_the_contract_is_named(
    rows: pd.DataFrame, types: dict[str, pa.DataType], said: str, tmp_path: Path
) -> None:
    path = foreign(rows, tmp_path / "t.parquet", **types)
    with pytest.raises(ContractError, match=said) as stopped:
        read_table(SIMILARITIES, path)
    assert str(path) in str(stopped.value)


def test_other_sizes_and_encodings_mean_the_same(tmp_path: Path) -> None:
    rows = scored(n_above=[1.0, None, 3.0], s_c2_i0=None)  # as pandas makes them of integers and of nothing
    types = {
        "s_c0_i0": pa.float32(),
        "s_c1_i0": pa.int8(),
        "model": pa.dictionary(pa.int8(), pa.string()),
        "image_id": pa.large_string(),
        "subsets": pa.large_list(pa.large_string()),
    }
    path = foreign(rows.assign(s_c1_i0=[1, 2, 3], s_c0_i0=0.25), tmp_path / "t.parquet", **types)
    back = read_table(SIMILARITIES, path)
    assert check_table(SIMILARITIES, back, "rows").column("n_above").to_pylist() == [1, None, 3]
    assert back["s_c0_i0"].tolist() == [0.25] * 3
    assert back["model"].dtype == "str"


def scores(*scorers: str, rows: int = 50_000) -> list[pd.DataFrame]:
    """Return table ``scores`` of each scorer, a part each."""
    names = [f"n{i}" for i in range(rows)]
    both = {"positive_score": np.linspace(0, 1, rows), "negative_score": 0.5}
    return [pd.DataFrame({"negative_id": names, "scorer": name, **both}) for name in scorers]


@pytest.mark.parametrize("parts", [[], scores("a"), scores("a", "b", "c")], ids=len)
def test_parts_give_the_bytes_of_the_whole(parts: list[pd.DataFrame], tmp_path: Path) -> None:
    whole = pd.concat([build_frame(SCORES, []), *parts], ignore_index=True)
    paths = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    write_table(SCORES, whole.astype({"positive_score": float, "negative_score": float}), paths[0])
    for by in ("scorer", None):
        write_table_parts(SCORES, iter(parts), paths[1], by=by)
        assert paths[0].read_bytes() == paths[1].read_bytes()
    read, back = list(iter_table(SCORES, paths[0])), read_table(SCORES, paths[0])
    assert all(len(rows) <= GROUP for rows in read)
    assert pd.concat([back[:0], *read], ignore_index=True).equals(back)


def test_parts_of_long_texts_give_the_bytes_of_the_whole_wherever_they_are_cut(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [f"{i:0100}" for i in range(70_000)]}).assign(stage="a", reason="b", text=None)
    whole = write_table(REJECTS, rows, tmp_path / "whole.parquet").read_bytes()
    parts = (rows[:1234], rows[1234:9000], rows[9000:])
    assert write_table_parts(REJECTS, parts, tmp_path / "parts.parquet").read_bytes() == whole


def test_parts_that_could_hold_a_key_twice_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    with pytest.raises(ContractError, match="two parts hold scorer 'a'"):
        write_table_parts(SCORES, scores("a", "b", "a", rows=2), path, by="scorer")
    with pytest.raises(ContractError, match="duplicate keys"):
        write_table_parts(SCORES, [pd.concat(scores("a", "a", rows=2))], path, by="scorer")
    with pytest.raises(ContractError, match="duplicate keys"):
        write_table_parts(SCORES, scores("a", "b", "a", rows=2), path)
    assert list(tmp_path.iterdir()) == []


def test_some_rows_can_be_read_and_others_are_not_looked_at(tmp_path: Path) -> None:
    path = write_table_parts(SCORES, scores("a", "b", "c"), tmp_path / "t.parquet", by="scorer")
    found = read_table(SCORES, path, only=("scorer", ["b"]))
    assert found.equals(scores("b")[0])
    one = read_table(SCORES, path, ["scorer", "negative_score"], only=("negative_id", {"n7", "other"}))
    assert one.to_dict("list") == {"scorer": ["a", "b", "c"], "negative_score": [0.5] * 3}
    assert read_table(SCORES, path, only=("scorer", [])).empty
    rows = pd.concat(scores("a", "b", rows=2), ignore_index=True)
    rows.loc[0, "positive_score"] = 2.0
    pq.write_table(pa.Table.from_pandas(rows, SCORES.schema, preserve_index=False), path)
    assert len(read_table(SCORES, path, only=("scorer", ["b"]))) == 2
    with pytest.raises(ContractError, match="The minimum is 0"):
        read_table(SCORES, path, only=("scorer", ["a"]))


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_table_whose_empty_columns_pandas_wrote_is_read(table: Table, tmp_path: Path) -> None:
    rows = example(table)
    for name, column in table.columns.items():
        if column.null:
            rows[name] = float("nan")
    rows.to_parquet(tmp_path / "t.parquet")
    back = read_table(table, tmp_path / "t.parquet")
    assert check_table(table, back, "rows") == check_table(table, rows, "rows")


def test_not_a_number_is_a_state_where_a_column_may_be_empty_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    nan = pa.array([float("nan")] * 3)
    for table, column in ((SIMILARITIES, "s_c0_i0"), (SCORES, "positive_score")):
        arrow = check_table(table, example(table), "rows")
        place = arrow.schema.get_field_index(column)
        pq.write_table(arrow.set_column(place, column, nan), path)
        if table is SIMILARITIES:
            assert read_table(table, path)[column].isna().all()
        else:
            with pytest.raises(ContractError, match="3 empty values in column 'positive_score'"):
                read_table(table, path)


def test_what_the_writer_noted_for_pandas_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows = example(NEGATIVES)
    noted = pa.Table.from_pandas(rows.set_index("negative_id"))
    pq.write_table(noted.select(list(NEGATIVES.columns)), path)
    assert list(read_table(NEGATIVES, path).columns) == list(NEGATIVES.columns)


def test_of_some_columns_these_are_checked_and_the_key_if_it_is_whole(tmp_path: Path) -> None:
    rows = scored(s_c0_i0=[0.1, float("inf"), 0.2], instance_id=["a", "b", "a"])
    path = foreign(rows, tmp_path / "t.parquet")
    assert len(read_table(SIMILARITIES, path, ["instance_id", "s_c1_i0"])) == 3
    with pytest.raises(ContractError, match="s_c0_i0"):
        read_table(SIMILARITIES, path, ["s_c0_i0"])
    with pytest.raises(ContractError, match="duplicate keys"):
        read_table(SIMILARITIES, path, list(SIMILARITIES.key))


def test_keys_of_one_hash_are_compared_by_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "_hash_rows", lambda rows: np.zeros(len(rows), np.int64))
    rows = example(SCORES).assign(negative_id="n", scorer=["a", "b", "c"])
    assert len(check_table(SCORES, rows, "rows")) == 3
    with pytest.raises(ContractError) as error:
        check_table(SCORES, rows.assign(scorer=["a", "b", "a"]), "rows")
    assert "duplicate keys ('negative_id', 'scorer'): 1\n  - ('n', 'a')" in str(error.value)


def test_lists_that_stay_in_arrow_have_the_values_of_python_lists(tmp_path: Path) -> None:
    path = write_table(TRAINING, example(TRAINING), tmp_path / "t.parquet")
    plain, arrow = (read_table(TRAINING, path, arrow_lists=lists) for lists in (False, True))
    for name, column in TRAINING.columns.items():
        assert arrow[name].dtype == (pd.ArrowDtype(TEXTS) if column.type == TEXTS else plain[name].dtype)
    assert write_table(TRAINING, arrow, tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_of_a_cut_or_flipped_file_there_is_an_error_or_rows_that_keep_the_contract(tmp_path: Path) -> None:
    path = write_table(NEGATIVES, example(NEGATIVES), tmp_path / "t.parquet")
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 7):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            path.write_bytes(broken)
            with suppress(DataError):
                refused += 1
                check_table(NEGATIVES, read_table(NEGATIVES, path), "rows")
                hash_content(path)
                refused -= 1
    assert refused > len(whole) / 7, "all that are cut, and of the flipped ones some"


def test_the_content_hash_knows_the_rows_and_neither_order_nor_encoding(tmp_path: Path) -> None:
    rows = example(NEGATIVES)
    one = write_table(NEGATIVES, rows, tmp_path / "one.parquet")
    two = write_table(NEGATIVES, rows.iloc[::-1], tmp_path / "two.parquet")
    three = tmp_path / "three.parquet"
    pq.write_table(pq.read_table(one), three, compression="none", row_group_size=1)
    assert one.read_bytes() != two.read_bytes() != three.read_bytes()
    assert hash_content(one) == hash_content(two) == hash_content(three)
    four = write_table(NEGATIVES, rows.assign(seed=4), tmp_path / "four.parquet")
    five = write_table(NEGATIVES, rows.head(2), tmp_path / "five.parquet")
    assert len({hash_content(path) for path in (one, four, five)}) == 3


def test_of_an_image_counts_what_it_is_and_not_where_it_lies(tmp_path: Path) -> None:
    rows = example(IMAGES)
    other = {
        "": rows,
        "places": rows.assign(shard="../x/images/00007.parquet", offset=99, length=1),
        "content": rows.assign(sha256="f" * 64),
        "split": rows.assign(split="val"),
    }
    found = {n: hash_content(write_table(IMAGES, r, tmp_path / f"{n}.parquet")) for n, r in other.items()}
    assert found[""] == found["places"]
    assert len(set(found.values())) == 3


def test_a_hash_of_content_holds_no_table_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = build_frame(NEGATIVES, [{**example(NEGATIVES).iloc[0], "negative_id": f"k{n}"} for n in range(50)])
    path = write_table(NEGATIVES, rows, tmp_path / "t.parquet")
    whole = [hashlib.sha256(repr(row).encode()).digest() for row in pq.read_table(path).to_pylist()]
    assert hash_content(path) == hashlib.sha256(b"".join(sorted(whole))).hexdigest()
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *a, **k: batches(*a, batch_size=7, **k))
    assert hash_content(path) == hashlib.sha256(b"".join(sorted(whole))).hexdigest()


def test_subtypes_belong_to_types() -> None:
    assert {subtype.split("_")[0] for subtype in SUBTYPES} == set(TYPES)


def test_a_folder_whose_name_looks_like_a_url_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_table(NEGATIVES, example(NEGATIVES), "given:data/negatives.parquet")
    assert len(read_table(NEGATIVES, path)) == 3


@pytest.mark.parametrize("table", [t for t in TABLES.values() if any(c.formerly for c in t.columns.values())])
def test_a_table_of_0_1_is_read_by_the_columns_of_today(table: Table, tmp_path: Path) -> None:
    rows = pa.table({name: pa.array([], column.type) for name, column in table.columns.items()})
    today, before = tmp_path / "today.parquet", tmp_path / "before.parquet"
    pq.write_table(rows, today)
    pq.write_table(rows.rename_columns(list(table.former_names.values())), before)
    assert list(read_table(table, before)) == list(read_table(table, today)) == list(table.columns)
    some = [name for name, column in table.columns.items() if column.formerly]
    assert list(read_table(table, before, some)) == some
    assert list(read_table(table, before, some, only=(table.key[0], ["x"]))) == some
    mixed = rows.rename_columns([*list(table.former_names.values())[:-1], "other"])
    pq.write_table(mixed, before)
    with pytest.raises(ContractError, match="the contract requires"):
        read_table(table, before)
