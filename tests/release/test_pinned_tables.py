"""A pinned table is read as it was cited, from disk or from DVC's cache, and from nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_pin import made as made
from test_pin import rejects

import caramel
from caramel.errors import DataError
from caramel.release import pin as pins
from caramel.schemas.io import write_table
from caramel.schemas.rejects import REJECTS


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of a small project whose data is pinned as v1."""
    root = tmp_path / "project"
    shutil.copytree(made, root, symlinks=True)
    pins.create_pin("v1", root)
    return root


def test_a_pinned_table_is_read_by_its_path_or_the_end_of_it(project: Path) -> None:
    for name in ("data/images.parquet", "data/images", "images"):
        found = caramel.read_pinned("v1", name, root=project)
        pd.testing.assert_frame_equal(found, rejects(3), check_dtype=False)
    found = caramel.read_pinned("v1", "training/infonce", root=project)
    pd.testing.assert_frame_equal(found, rejects(5, "infonce"), check_dtype=False)


def test_what_is_cited_is_read_even_where_other_rows_lie_on_disk(project: Path) -> None:
    path = project / "data" / "images.parquet"
    path.unlink()
    write_table(REJECTS, rejects(9), path)
    pd.testing.assert_frame_equal(
        caramel.read_pinned("v1", "images", root=project), rejects(3), check_dtype=False
    )
    path.unlink()
    assert len(caramel.read_pinned("v1", "images", root=project)) == 3


def test_rows_that_are_nowhere_are_told_with_what_to_do(project: Path) -> None:
    shutil.rmtree(project / ".dvc" / "cache")
    path = project / "data" / "images.parquet"
    rows = pq.read_table(path)
    path.unlink()
    with pytest.raises(DataError, match="neither on disk nor in DVC's cache") as told:
        caramel.read_pinned("v1", "images", root=project)
    assert "dvc checkout" in str(told.value)
    write_table(REJECTS, rejects(3, "edited"), path)
    with pytest.raises(DataError, match="neither on disk"):
        caramel.read_pinned("v1", "images", root=project)
    path.unlink()
    pq.write_table(pa.Table.from_pylist(rows.to_pylist()[::-1], rows.schema), path)
    assert len(caramel.read_pinned("v1", "images", root=project)) == 3  # the same rows in other bytes


def test_a_damaged_object_of_the_cache_is_not_taken(project: Path) -> None:
    version = pins.read_pin("v1", project).tables["data/images.parquet"]
    (project / "data" / "images.parquet").unlink()
    cached = project / ".dvc" / "cache" / "files" / "md5" / version.md5[:2] / version.md5[2:]
    cached.chmod(0o644)
    cached.write_bytes(b"damaged")
    with pytest.raises(DataError, match="neither on disk"):
        caramel.read_pinned("v1", "images", root=project)


@pytest.mark.parametrize(
    ("version", "table", "message"),
    [
        ("v2", "images", "There is no pin 'v2'. Pins: v1"),
        ("v1", "nothing", "has no table 'nothing'. Name one of"),
        ("v1", "", "has no table ''"),
        ("v1", "mages", "has no table 'mages'"),
    ],
)
def test_names_of_nothing_list_what_there_is(project: Path, version: str, table: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        caramel.read_pinned(version, table, root=project)
