"""A stored table gives the columns that are taken, and checks only these."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from caramel.errors import ContractError, DataError
from caramel.schemas.io import build_frame, write_table
from caramel.schemas.negatives import PARAPHRASES
from caramel.schemas.stored import StoredTable

ROWS = build_frame(PARAPHRASES, [("p0", "A cat.", "g", 1), ("p1", "A dog.", "g", 2)])


def test_a_stored_table_gives_what_its_frame_gives(tmp_path: Path) -> None:
    stored = StoredTable(PARAPHRASES, write_table(PARAPHRASES, ROWS, tmp_path / "paraphrases.parquet"))
    assert list(stored.columns) == list(ROWS.columns)
    for names in (["caption2"], ["attempts", "pair_id"], list(ROWS.columns)):
        pd.testing.assert_frame_equal(stored[names], ROWS[names], check_dtype=False)


def test_columns_that_are_not_taken_are_not_read(tmp_path: Path) -> None:
    path = write_table(PARAPHRASES, ROWS, tmp_path / "paraphrases.parquet")
    wrong = pq.read_table(path).to_pandas().assign(attempts=0)
    wrong.to_parquet(path, index=False)
    stored = StoredTable(PARAPHRASES, path)
    assert stored[["caption2"]]["caption2"].tolist() == ["A cat.", "A dog."]
    with pytest.raises(ContractError, match="attempts"):
        stored[["attempts"]]


def test_a_missing_file_is_an_error_when_a_column_is_taken(tmp_path: Path) -> None:
    stored = StoredTable(PARAPHRASES, tmp_path / "paraphrases.parquet")
    with pytest.raises(DataError, match="is missing"):
        stored[["pair_id"]]
