"""A pin names one version of the data: it holds while the data are that, and says what differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from caramel import tables
from caramel.errors import ConfigError, DataError
from caramel.release import pin as pins

STAGES = """
stages:
  make:
    cmd: cp -r source data
    deps: [source]
    outs: [data/images.parquet, data/training, data/model]
"""


def rejects(n: int, text: str = "x") -> pd.DataFrame:
    return tables.frame(tables.REJECTS, [(f"r{i}", "refine", "surplus", text) for i in range(n)])


def call(*command: str, root: Path) -> None:
    quiet = {"DVC_NO_ANALYTICS": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(command, cwd=root, check=True, capture_output=True, env={**os.environ, **quiet, **who})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository whose data DVC itself made."""
    root = tmp_path_factory.mktemp("project")
    tables.write(tables.REJECTS, rejects(3), root / "source" / "images.parquet")
    for name in ("in_batch", "negative_texts"):
        tables.write(tables.REJECTS, rejects(5, name), root / "source" / "training" / f"{name}.parquet")
    (root / "source" / "model" / "weights").mkdir(parents=True)
    (root / "source" / "model" / "weights" / "a.bin").write_bytes(b"weights")
    (root / "source" / "model" / "config.json").write_text("{}", encoding="utf-8")
    (root / "params.yaml").write_text("profile: smoke\n", encoding="utf-8")
    (root / "dvc.yaml").write_text(STAGES, encoding="utf-8")
    (root / ".gitignore").write_text("/data/\n", encoding="utf-8")
    call("git", "init", "-q", root=root)
    call(sys.executable, "-m", "dvc", "init", "-q", root=root)
    call(sys.executable, "-m", "dvc", "repro", "-q", root=root)
    call("git", "add", "-A", root=root)
    call("git", "commit", "-q", "-m", "data", root=root)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    copy = tmp_path / "copy"
    call("cp", "-r", str(made), str(copy), root=tmp_path)
    return copy


def test_the_hash_is_the_one_that_dvc_records(made: Path) -> None:
    outs = pins.locked_outs(made)
    assert list(outs) == ["data/images.parquet", "data/model", "data/training"]
    assert outs["data/model"].endswith(".dir")
    for out, digest in outs.items():
        assert pins.dvc_hash(made / out) == digest


def test_what_was_pinned_is_verified(root: Path) -> None:
    pinned = pins.pin("v1.0", root)
    assert pins.verify("v1.0", root) == []
    assert pins.read_pin("v1.0", root) == pinned
    assert {path: version.rows for path, version in pinned.tables.items()} == {
        "data/images.parquet": 3,
        "data/training/in_batch.parquet": 5,
        "data/training/negative_texts.parquet": 5,
    }
    assert len(pinned.commit) == 40
    assert pinned.params == {"profile": "smoke"}
    assert pins.warnings(pinned) == []


def test_a_missing_table_is_named(root: Path) -> None:
    pins.pin("v1", root)
    (root / "data" / "images.parquet").unlink()
    (root / "data" / "training" / "in_batch.parquet").unlink()
    assert pins.verify("v1", root) == [
        "data/images.parquet: missing; run `dvc checkout` or `dvc repro`",
        "data/training/in_batch.parquet: missing; run `dvc checkout` or `dvc repro`",
    ]


def test_other_rows_are_named_with_both_counts(root: Path) -> None:
    pins.pin("v1", root)
    tables.write(tables.REJECTS, rejects(4), root / "data" / "images.parquet")
    tables.write(tables.REJECTS, rejects(5, "other"), root / "data" / "training" / "in_batch.parquet")
    assert pins.verify("v1", root) == [
        "data/images.parquet: other rows; 4 on disk, 3 pinned",
        "data/training/in_batch.parquet: other rows; 5 on disk, 5 pinned",
    ]


def test_equal_rows_in_other_bytes_are_told_from_other_rows(root: Path) -> None:
    pins.pin("v1", root)
    path = root / "data" / "images.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    tables.write(tables.REJECTS, rejects(5, "in_batch").iloc[::-1], root / "data/training/in_batch.parquet")
    for line, name, n in zip(pins.verify("v1", root), ["images", "training/in_batch"], [3, 5], strict=True):
        assert line.startswith(f"data/{name}.parquet: the same {n} rows in other bytes")


def test_a_changed_model_and_a_new_table_are_named(root: Path) -> None:
    pins.pin("v1", root)
    (root / "data" / "model" / "config.json").write_text("[]", encoding="utf-8")
    tables.write(tables.REJECTS, rejects(1), root / "data" / "training" / "new.parquet")
    assert pins.verify("v1", root) == [
        "data/model: changed",
        "data/training/new.parquet: not in the pinned version",
    ]


def test_pinning_twice_leaves_the_first_pin_and_other_data_need_another_name(root: Path) -> None:
    pins.pin("v1", root)
    before = (root / "pins" / "v1.json").read_bytes()
    call("git", "add", "pins", root=root)
    call("git", "commit", "-q", "-m", "pin", root=root)
    pins.pin("v1", root)
    assert (root / "pins" / "v1.json").read_bytes() == before
    (root / "params.yaml").write_text("profile: default\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="choose another name"):
        pins.pin("v1", root)
    assert (root / "pins" / "v1.json").read_bytes() == before


def test_edited_sources_are_recorded_and_warned_of(root: Path) -> None:
    (root / "params.yaml").write_text("profile: default\n", encoding="utf-8")
    pinned = pins.pin("v1", root)
    assert pinned.commit.endswith("-dirty")
    assert "commit" in pins.warnings(pinned)[0]


def test_data_that_are_not_those_of_the_lock_are_not_pinned(root: Path) -> None:
    tables.write(tables.REJECTS, rejects(4), root / "data" / "images.parquet")
    with pytest.raises(DataError, match=r"(?s)not what dvc.lock records.*data/images.parquet.*dvc repro"):
        pins.pin("v1", root)
    (root / "data" / "images.parquet").unlink()
    with pytest.raises(DataError, match=r"(?s)missing.*data/images.parquet.*dvc repro"):
        pins.pin("v1", root)
    assert not (root / "pins").exists()


def test_nothing_made_is_nothing_to_pin(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dvc repro"):
        pins.pin("v1", tmp_path)


@pytest.mark.parametrize("name", ["", "a b", "../v1", "v/1", ".v1", "v1\n"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="letters"):
        pins.pin(name, tmp_path)


def test_an_unknown_or_broken_pin_is_an_error(root: Path) -> None:
    with pytest.raises(DataError, match="make one with"):
        pins.verify("v1", root)
    pins.pin("v1", root)
    with pytest.raises(DataError, match="Pins: v1"):
        pins.verify("v2", root)
    for text in ("{", "{}", json.dumps({"tables": {}, "name": "v1"})):
        (root / "pins" / "v1.json").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match="broken"):
            pins.verify("v1", root)


def test_the_citation_names_version_commit_and_data(root: Path) -> None:
    pinned = pins.pin("v1.0", root)
    entry = pins.bibtex(pinned)
    assert entry.startswith("@misc{caramel-v1.0,")
    assert all(text in entry for text in ("version = {v1.0}", pinned.commit, pinned.data))
    assert entry.count("{") == entry.count("}")
    assert "13 rows in 3 tables" in pins.statement(pinned)
    assert "\n" not in pins.statement(pinned)
