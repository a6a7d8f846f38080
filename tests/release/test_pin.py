"""A pin names one version of the data: it holds while the data are that, and says what differs."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from remote_projects import dvc
from stored_images import stored

from caramel.errors import ConfigError, DataError
from caramel.io.image_store import ImageStore, rewrite_shard_paths
from caramel.release import pin as pins
from caramel.release import pin_file
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.rejects import REJECTS

STAGES = """
stages:
  make:
    cmd: cp -r source data
    deps: [source]
    outs: [data/images.parquet, data/training, data/model]
"""


def rejects(n: int, text: str = "x") -> pd.DataFrame:
    return build_frame(REJECTS, [(f"r{i}", "refine", "surplus", text) for i in range(n)])


def call(*command: str, root: Path) -> None:
    quiet = {"DVC_NO_ANALYTICS": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(command, cwd=root, check=True, capture_output=True, env={**os.environ, **quiet, **who})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository whose data DVC itself made."""
    root = tmp_path_factory.mktemp("project")
    write_table(REJECTS, rejects(3), root / "source" / "images.parquet")
    for name in ("infonce", "trohn_text"):
        write_table(REJECTS, rejects(5, name), root / "source" / "training" / f"{name}.parquet")
    (root / "source" / "model" / "weights").mkdir(parents=True)
    (root / "source" / "model" / "weights" / "a.bin").write_bytes(b"weights")
    (root / "source" / "model" / "config.json").write_text("{}", encoding="utf-8")
    (root / "params.yaml").write_text("profile: smoke\n", encoding="utf-8")
    (root / "dvc.yaml").write_text(STAGES, encoding="utf-8")
    (root / ".gitignore").write_text("/data/\n", encoding="utf-8")
    call("git", "init", "-q", root=root)
    dvc("init", "-q", root=root)
    dvc("repro", "-q", root=root)
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
    outs = pins.read_locked_outputs(made)
    assert list(outs) == ["data/images.parquet", "data/model", "data/training"]
    assert outs["data/model"].endswith(".dir")
    for out, digest in outs.items():
        assert pins.compute_dvc_hash(made / out) == digest


def test_what_was_pinned_is_verified(root: Path) -> None:
    pinned = pins.create_pin("v1.0", root)
    assert pins.verify_pin("v1.0", root) == []
    assert pins.read_pin("v1.0", root) == pinned
    assert {path: version.rows for path, version in pinned.tables.items()} == {
        "data/images.parquet": 3,
        "data/training/infonce.parquet": 5,
        "data/training/trohn_text.parquet": 5,
    }
    assert len(pinned.commit) == 40
    assert pinned.params == {"profile": "smoke"}
    assert pins.list_warnings(pinned) == []


def test_a_missing_table_is_named(root: Path) -> None:
    pins.create_pin("v1", root)
    (root / "data" / "images.parquet").unlink()
    (root / "data" / "training" / "infonce.parquet").unlink()
    assert pins.verify_pin("v1", root) == [
        "data/images.parquet: missing; run `dvc checkout` or `dvc repro`",
        "data/training/infonce.parquet: missing; run `dvc checkout` or `dvc repro`",
    ]


def test_other_rows_are_named_with_both_counts(root: Path) -> None:
    pins.create_pin("v1", root)
    write_table(REJECTS, rejects(4), root / "data" / "images.parquet")
    write_table(REJECTS, rejects(5, "other"), root / "data" / "training" / "infonce.parquet")
    assert pins.verify_pin("v1", root) == [
        "data/images.parquet: different rows; 4 on disk, 3 pinned",
        "data/training/infonce.parquet: different rows; 5 on disk, 5 pinned",
    ]


def test_equal_rows_in_other_bytes_are_told_from_other_rows(root: Path) -> None:
    pins.create_pin("v1", root)
    path = root / "data" / "images.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    write_table(REJECTS, rejects(5, "infonce").iloc[::-1], root / "data/training/infonce.parquet")
    for line, name, n in zip(
        pins.verify_pin("v1", root), ["images", "training/infonce"], [3, 5], strict=True
    ):
        assert line.startswith(f"data/{name}.parquet: the same {n} rows in other bytes")


@pytest.fixture
def pictured(root: Path) -> Path:
    """The copy with images: a folder with an index and its shards, and an index of other stages' images elsewhere."""
    known = {"width": 1, "height": 1, "source": "x", "split": "test"}
    rows = [{"image_id": f"i{n}", "data": bytes([n]) * 50, **known} for n in range(9)]
    stored(root / "source" / "scenes" / "images.parquet", rows)
    index = read_table(IMAGES, root / "source" / "scenes" / "images.parquet")
    some = rewrite_shard_paths(index.head(3), root / "data" / "scenes", root / "data" / "assemble")
    write_table(IMAGES, some, root / "source" / "assemble" / "images.parquet")
    stages = STAGES.replace("data/model]", "data/model, data/scenes, data/assemble]")
    stages = stages.replace("cmd: cp", "cmd: rm -rf data && cp")
    (root / "dvc.yaml").write_text(stages, encoding="utf-8")
    dvc("repro", "-q", root=root)
    return root


def test_images_are_pinned_by_their_sha256_and_one_that_differs_is_named(pictured: Path) -> None:
    pinned = pins.create_pin("v1", pictured)
    assert {path: version.rows for path, version in pinned.tables.items() if "images" in path} == {
        "data/images.parquet": 3,
        "data/assemble/images.parquet": 3,
        "data/scenes/images.parquet": 9,
    }
    assert pins.verify_pin("v1", pictured) == []
    shard = pictured / "data" / "scenes" / "images" / "00000.parquet"
    whole = shard.read_bytes()
    shard.unlink()  # DVC may have linked it
    shard.write_bytes(whole.replace(bytes([4]) * 50, bytes([5]) * 50))
    (line,) = pins.verify_pin("v1", pictured)
    assert line.startswith("data/scenes/images.parquet: Image 'i4' of ")
    assert "SHA-256" in line
    shard.unlink()
    (line,) = pins.verify_pin("v1", pictured)
    assert line.startswith("data/scenes/images.parquet: Image 'i0' of ")
    assert "is missing" in line


def test_images_in_other_shards_are_the_same_rows(pictured: Path) -> None:
    pins.create_pin("v1", pictured)
    index = pictured / "data" / "scenes" / "images.parquet"
    pictures = ImageStore(index, read_table(IMAGES, index))
    known = {"width": 1, "height": 1, "source": "x", "split": "test"}
    rows = [{"image_id": name, "data": pictures[name], **known} for name in reversed(list(pictures))]
    (pictured / "data" / "scenes" / "images" / "00000.parquet").unlink()
    index.unlink()
    stored(index, rows)
    (line,) = pins.verify_pin("v1", pictured)
    assert line.startswith("data/scenes/images.parquet: the same 9 rows in other bytes")


def test_images_that_are_not_what_their_index_says_are_not_pinned(pictured: Path) -> None:
    shard = pictured / "source" / "scenes" / "images" / "00000.parquet"
    shard.write_bytes(shard.read_bytes().replace(bytes([4]) * 50, bytes([5]) * 50))
    dvc("repro", "-q", root=pictured)
    with pytest.raises(DataError, match=r"(?s)cannot be pinned:\n.*Image 'i4' of .*SHA-256"):
        pins.create_pin("v1", pictured)


def test_a_changed_model_and_a_new_table_are_named(root: Path) -> None:
    pins.create_pin("v1", root)
    (root / "data" / "model" / "config.json").write_text("[]", encoding="utf-8")
    write_table(REJECTS, rejects(1), root / "data" / "training" / "new.parquet")
    assert pins.verify_pin("v1", root) == [
        "data/model: changed",
        "data/training/new.parquet: not in the pinned version",
    ]


def test_pinning_twice_leaves_the_first_pin_and_other_data_need_another_name(root: Path) -> None:
    pins.create_pin("v1", root)
    before = (root / "pins" / "v1.json").read_bytes()
    call("git", "add", "pins", root=root)
    call("git", "commit", "-q", "-m", "pin", root=root)
    pins.create_pin("v1", root)
    assert (root / "pins" / "v1.json").read_bytes() == before
    (root / "params.yaml").write_text("profile: default\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="choose another name"):
        pins.create_pin("v1", root)
    assert (root / "pins" / "v1.json").read_bytes() == before


def test_edited_sources_are_recorded_and_warned_of(root: Path) -> None:
    (root / "params.yaml").write_text("profile: default\n", encoding="utf-8")
    pinned = pins.create_pin("v1", root)
    assert pinned.commit.endswith("-dirty")
    assert "commit" in pins.list_warnings(pinned)[0]


def test_a_repository_without_a_commit_is_warned_of_as_one(root: Path) -> None:
    call("git", "update-ref", "-d", "HEAD", root=root)
    (warning,) = pins.list_warnings(pins.create_pin("v1", root))
    assert warning.startswith("There is no git commit")
    assert "not a git repository" not in warning


def test_data_that_are_not_those_of_the_lock_are_not_pinned(root: Path) -> None:
    write_table(REJECTS, rejects(4), root / "data" / "images.parquet")
    with pytest.raises(DataError, match=r"(?s)differ from dvc.lock.*data/images.parquet.*dvc repro"):
        pins.create_pin("v1", root)
    (root / "data" / "images.parquet").unlink()
    with pytest.raises(DataError, match=r"(?s)missing.*data/images.parquet.*dvc repro"):
        pins.create_pin("v1", root)
    assert not (root / "pins").exists()


def test_nothing_made_is_nothing_to_pin(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dvc repro"):
        pins.create_pin("v1", tmp_path)


@pytest.mark.parametrize("name", ["", "a b", "../v1", "v/1", ".v1", "v1\n"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="letters"):
        pins.create_pin(name, tmp_path)


def test_an_unknown_or_broken_pin_is_an_error(root: Path) -> None:
    with pytest.raises(DataError, match="make one with"):
        pins.verify_pin("v1", root)
    pins.create_pin("v1", root)
    with pytest.raises(DataError, match="Pins: v1"):
        pins.verify_pin("v2", root)


OTHERS: list[Any] = [None, True, -1, 1.5, "", "x", "../x", "a\n", "\ud800", [], ["x"], {}, {"x": 1}]


def places(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the place of each value of nested objects."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*at, key)
        yield from places(inner, (*at, key))


def mutations(written: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pin with one value dropped, doubled under another name, or made another; with its place."""
    for at in places(written):
        for change in ("drop", "rename", "extra", *OTHERS):
            other = copy.deepcopy(written)
            holder = functools.reduce(operator.getitem, at[:-1], other)
            if isinstance(change, str) and change in ("drop", "rename", "extra"):
                value = holder[at[-1]] if change == "extra" else holder.pop(at[-1])
                if change != "drop":
                    holder[f"{at[-1]}x"] = value
            elif holder[at[-1]] == change and type(holder[at[-1]]) is type(change):
                continue
            else:
                holder[at[-1]] = change
            yield f"{'.'.join(at)}: {change!r}", other


def rehashed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the pin's fields with the hash that belongs to them, as one who forges it would."""
    fields = {key: value for key, value in fields.items() if key != pin_file.CHECKSUM}
    return fields | {pin_file.CHECKSUM: pin_file._compute_checksum(fields)}


def test_no_pin_with_any_value_changed_is_taken_for_the_version(root: Path) -> None:
    pins.create_pin("v1", root)
    path = root / "pins" / "v1.json"
    written, passed, count = json.loads(path.read_text(encoding="utf-8")), [], 0
    for what, other in mutations(written):
        path.write_text(json.dumps(other), encoding="utf-8")
        count += 1
        with contextlib.suppress(DataError):
            pins.verify_pin("v1", root)
            passed.append(what)
    assert passed == []
    assert count > 380


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"outs": {}}, "outs: "),
        ({"tables": {}}, "data: .* is not the hash of outs and tables"),
        ({"data": "0" * 64}, "data: '0000.* is not the hash of outs and tables"),
        ({"name": "v2"}, "name: 'v2' in the file of 'v1'"),
        ({"commit": "HEAD"}, "commit: .*not 'HEAD'"),
        ({"created": "2026-02-30"}, "created: "),
        ({"params": None}, "params: .*not None"),
        ({"outs": {"../elsewhere": "0" * 32}}, r"outs: ../elsewhere: .*below the project"),
        ({"outs": {"/etc": "0" * 32}}, "outs: /etc: .*below the project"),
        ({"outs": {"data/images.parquet": 3}}, "outs: data/images.parquet: "),
        (
            {"tables": {"data/images.parquet": {"rows": True}}},
            "tables: data/images.parquet: rows: .*not True",
        ),
        ({"tables": {"data/images.parquet": None}}, "tables: data/images.parquet: "),
        ({"more": 1}, "more: "),
    ],
)
def test_a_pin_that_is_forged_with_its_hash_is_refused_by_file_and_field(
    root: Path, change: dict[str, Any], field: str
) -> None:
    pins.create_pin("v1", root)
    path = root / "pins" / "v1.json"
    path.write_text(json.dumps(rehashed(json.loads(path.read_text()) | change)), encoding="utf-8")
    with pytest.raises(DataError, match=rf"(?s)pins/v1.json' is broken:\n.*{field}.*from git"):
        pins.verify_pin("v1", root)


@pytest.mark.parametrize("field", ["rows", "content", "md5"])
def test_a_pin_with_a_wrong_value_of_a_table_is_refused_whatever_its_hashes(root: Path, field: str) -> None:
    pinned = pins.create_pin("v1", root)
    path = "data/training/infonce.parquet"
    wrong = {"rows": 999, "content": "0" * 64, "md5": "0" * 32}[field]
    tables = {**pinned.tables, path: pinned.tables[path].model_copy(update={field: wrong})}
    data = pin_file.compute_data_hash(pinned.outs, tables)
    forged = pinned.model_copy(update={"tables": tables, "data": data})
    pin_file.write_pin(forged, root / "pins" / "v1.json")
    with pytest.raises(DataError, match=f"(?s)v1.json' is broken.*tables: {path}: {field}: {wrong!r}, but"):
        pins.verify_pin("v1", root)


def test_a_pin_that_leaves_out_a_table_or_an_output_is_broken_whatever_its_hashes(root: Path) -> None:
    pinned = pins.create_pin("v1", root)
    path = root / "pins" / "v1.json"

    def forge(outs: dict[str, str], tables: dict[str, Any]) -> None:
        data = pin_file.compute_data_hash(outs, tables)
        pin_file.write_pin(pinned.model_copy(update={"outs": outs, "tables": tables, "data": data}), path)

    name = "data/training/infonce.parquet"
    forge(pinned.outs, {p: t for p, t in pinned.tables.items() if p != name})
    with pytest.raises(
        DataError, match=f"(?s)is broken.*tables: {name}: differs from the table in data/training"
    ):
        pins.verify_pin("v1", root)
    forge(pinned.outs, {p: t for p, t in pinned.tables.items() if p != "data/images.parquet"})
    with pytest.raises(DataError, match=r"(?s)is broken.*tables: data/images.parquet: missing"):
        pins.verify_pin("v1", root)
    forge({p: h for p, h in pinned.outs.items() if p != "data/model"}, pinned.tables)
    with pytest.raises(
        DataError, match=r"(?s)is broken.*outs: data/model: missing in the pin, but in dvc.lock of its commit"
    ):
        pins.verify_pin("v1", root)
    forge(pinned.outs, pinned.tables)
    assert pins.verify_pin("v1", root) == []


def test_a_pin_without_the_hash_of_its_fields_is_to_be_made_again(root: Path) -> None:
    pins.create_pin("v1", root)
    path = root / "pins" / "v1.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields[pin_file.CHECKSUM]
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(DataError, match=r"v1.json' has no sha256: an older caramel .*under another name"):
        pins.verify_pin("v1", root)


def test_an_output_that_was_made_since_is_not_in_the_pinned_version(root: Path) -> None:
    pins.create_pin("v1", root)
    (root / "dvc.yaml").write_text(f"{STAGES}  more:\n    cmd: touch data/new\n    outs: [data/new]\n")
    dvc("repro", "-q", root=root)
    assert pins.verify_pin("v1", root) == ["data/new: not in the pinned version"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", '"x"', "{}", '{"rows": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "9" * 5000],
)
def test_a_file_that_is_no_pin_is_an_error_with_its_name(root: Path, text: str) -> None:
    (root / "pins").mkdir()
    (root / "pins" / "v1.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"pins/v1.json' is broken"):
        pins.verify_pin("v1", root)
    (root / "pins" / "v1.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"pins/v1.json' is broken"):
        pins.verify_pin("v1", root)


@pytest.mark.parametrize(
    "text",
    ["- a\n", "stages: [a]\n", "stages: {a: {outs: [b]}}\n", "stages: {a: {outs: [{path: ../x, md5: y}]}}\n"],
)
def test_a_lock_that_dvc_would_not_write_is_an_error(root: Path, text: str) -> None:
    (root / "dvc.lock").write_text(text, encoding="utf-8")
    with pytest.raises(
        DataError, match=r"dvc.lock (is not what DVC writes.*caramel doctor|has wrong outputs)"
    ):
        pins.create_pin("v1", root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: .nan\n", "holds a value that a pin cannot store"),
        ("a: 2026-11-21\n", "contains values that are not plain data"),
        ("- a\n", "is a list, but must be a mapping"),
        ("3\n", "is a int, but must be a mapping"),
    ],
)
def test_params_that_json_cannot_hold_are_an_error(root: Path, text: str, message: str) -> None:
    (root / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"params.yaml {message}"):
        pins.create_pin("v1", root)


def test_the_citation_names_version_commit_and_data(root: Path) -> None:
    pinned = pins.create_pin("v1.0", root)
    entry = pins.format_bibtex(pinned)
    assert entry.startswith("@misc{caramel-v1.0,")
    assert all(text in entry for text in ("version = {v1.0}", pinned.commit, pinned.data))
    assert entry.count("{") == entry.count("}")
    assert "13 rows in 3 tables" in pins.format_data_statement(pinned)
    assert "\n" not in pins.format_data_statement(pinned)
