"""A release is whole, the same each time, and read back as what was pinned; nothing else is written or believed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import released_projects
from filelock import FileLock
from PIL import Image
from remote_projects import cached
from ruamel.yaml import YAML

from caramel.benchmarks.readers.bivlc import BENCHMARK as BIVLC
from caramel.benchmarks.readers.crepe_systematicity import BENCHMARK as CREPE
from caramel.benchmarks.readers.sugarcrepe import BENCHMARK as SUGARCREPE
from caramel.benchmarks.readers.sugarcrepe_pp import BENCHMARK as SUGARCREPE_PP
from caramel.errors import CaramelError, ConfigError, DataError, ResourceError
from caramel.interfaces.benchmark import Rankings
from caramel.io.image_store import ImageStore
from caramel.release.publishing import image_parquet, webdataset
from caramel.release.publishing.build import STAGING, SUMS, build_release, open_staging
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table, write_table


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released_projects.made(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def released(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "v1"
    build_release("v1", project, out=out, strict=True)
    return out


@pytest.fixture(scope="module")
def pictures(project: Path) -> ImageStore:
    index = project / "data" / "assemble" / "images.parquet"
    return ImageStore(index, read_table(IMAGES, index))


@pytest.fixture
def spoiled(project: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(project, tmp_path / "spoiled"))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_pin_gives_the_same_bytes_and_all_of_them_are_summed(
    project: Path, released: Path, tmp_path: Path
) -> None:
    again = build_release("v1", project, out=tmp_path / "again")
    assert contents(tmp_path / "again") == contents(released)
    assert sorted(again.files) == sorted(contents(released))
    lines = (released / SUMS).read_text(encoding="utf-8").splitlines()
    summed = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    assert summed == {
        path: hashlib.sha256(data).hexdigest() for path, data in contents(released).items() if path != SUMS
    }
    assert again.bytes == sum(map(len, contents(released).values()))
    assert json.loads((released / "pin.json").read_text(encoding="utf-8"))["name"] == "v1"


def test_datasets_gives_splits_with_pictures(released: Path, pictures: ImageStore, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    pinned = released_projects.instances()
    loaded = datasets.load_dataset(str(released), cache_dir=str(tmp_path))
    assert set(loaded) == {"test", "val"}, "instances are what is given without a name"
    for split, rows in loaded.items():
        expected = records(pinned[pinned["split"] == split])
        assert len(rows) == len(expected)
        for row, right in zip(rows, expected, strict=True):
            for column, name in (
                ("image", right["image_id"]),
                ("negative_image", right["negative_image_id"]),
            ):
                shown = row.pop(column)
                assert (shown is None) == (name is None)
                assert shown is None or same(shown, pictures[name])
            assert row == right
    (rows,) = datasets.load_dataset(str(released), "training", cache_dir=str(tmp_path)).values()
    assert [len(row["negative_images"]) for row in rows] == [2, 1, 0]
    assert same(rows[0]["negative_images"][1], pictures["n8"])
    assert rows[1]["negative_image_ids"] == ["n7", None]


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if isinstance(value, float) else value for name, value in row.items()}
        for row in rows.to_dict("records")
    ]


def same(shown: Any, data: bytes) -> bool:
    right = Image.open(io.BytesIO(data))
    return bool(shown.mode == right.mode and shown.tobytes() == right.tobytes())


def test_public_formats_are_read_back_to_the_same_instances(
    released: Path, pictures: ImageStore, tmp_path: Path
) -> None:
    formats = released / "formats" / "test"
    images = tmp_path / "images"
    with tarfile.open(formats / "images.tar") as tar:
        tar.extractall(images, filter="data")
    of_crepe = images / "VG_100K"
    assert all(path.parent in (images, of_crepe) for path in images.rglob("*")), (
        "no name leads into another folder"
    )
    pinned = released_projects.instances()
    pinned = pinned[pinned["split"] == "test"].sort_values(
        "subtype", key=lambda s: s.map(SUBTYPES.index), kind="stable"
    )
    has = {
        "sugarcrepe": pinned.index >= 0,
        "sugarcrepe_pp": pinned["caption2"].notna(),
        "bivlc": pinned["negative_image_id"].notna(),
    }
    for benchmark in (SUGARCREPE, SUGARCREPE_PP, BIVLC):
        task = benchmark.load_rows(formats / benchmark.name, images)
        expected = pinned[has[benchmark.name]]
        columns = {"caption": "caption", "negative_caption": "negative_caption"}
        columns |= {"caption2": "caption2"} if benchmark is SUGARCREPE_PP else {}
        rows = task.rows if benchmark is not BIVLC else task.rows.sort_values("instance_id")
        expected = expected if benchmark is not BIVLC else expected.sort_index()
        for column in columns:
            assert rows[column].tolist() == expected[column].tolist()
        assert [subsets[-1] for subsets in rows["subsets"]] == expected["subtype"].tolist()
        sides = {
            "image": "image_id",
            **({"negative_image": "negative_image_id"} if benchmark is BIVLC else {}),
        }
        for column, name in sides.items():
            shown = [Path(task.images[place].path).read_bytes() for place in rows[column]]
            assert shown == [pictures[image] for image in expected[name]]


def test_a_csv_of_crepe_is_read_back_to_the_instances_of_the_world_by_what_training_captions_have(
    released: Path, pictures: ImageStore, tmp_path: Path
) -> None:
    formats = released / "formats" / "test"
    with tarfile.open(formats / "images.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    task = CREPE.load_rows(formats / "crepe_systematicity", tmp_path)
    assert isinstance(task, Rankings)
    pinned = released_projects.instances()
    assert list(task.rows["subsets"]) == [["train/sc/atom"], ["train/uc/atom"]]
    for number, query in zip((3, 0), task.rows.to_dict("records"), strict=True):
        row = pinned.loc[number]
        texts = [task.texts[place] for place in task.pools[query["pool"]]]
        assert texts == [(row["caption"],), (row["negative_caption"],)]
        shown = task.images[query["query"]]
        assert Path(shown.path).read_bytes() == pictures[row["image_id"]]
        assert shown.box == (0, 0, 6, 6)


def test_webdataset_has_each_training_row_with_the_pictures_of_its_negatives(
    released: Path, pictures: ImageStore
) -> None:
    with tarfile.open(released / "webdataset" / "train-00000.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        assert {(m.mtime, m.uid, m.uname) for m in tar} == {(0, 0, "")}
    rows = released_projects.training().to_dict("records")
    assert [json.loads(members[f"{n:08}.json"])["pair_id"] for n in range(3)] == [
        row["pair_id"] for row in rows
    ]
    assert members["00000000.txt"] == b"Text 0."
    assert members[f"00000000.negative1.{webdataset.detect_suffix(pictures['n8'], '')}"] == pictures["n8"]
    assert {name for name in members if name.startswith("00000002")} == {
        f"00000002.{webdataset.detect_suffix(pictures['i9'], '')}",
        "00000002.txt",
        "00000002.json",
    }
    told = json.loads(members["00000001.json"])
    assert (told["negative_captions"], told["negative_image_ids"]) == (["No.", "No."], ["n7", None])


def test_what_is_large_is_written_in_several_files(
    project: Path, released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_parquet, "PART", 300)
    monkeypatch.setattr(image_parquet, "GROUP", 1)
    monkeypatch.setattr(webdataset, "TAR", 300)
    build_release("v1", project, out=tmp_path / "parts")
    parts = sorted((tmp_path / "parts" / "data" / "instances").glob("test-*"))
    assert len(parts) > 1
    assert {path.name[-17:] for path in parts} == {f"-of-{len(parts):05}.parquet"}
    (whole,) = (released / "data" / "instances").glob("test-*")
    assert pd.concat(map(pd.read_parquet, parts), ignore_index=True).equals(pd.read_parquet(whole))
    assert len(list((tmp_path / "parts" / "webdataset").glob("train-*.tar"))) > 1


def test_captions_are_no_markup_of_the_card(released: Path) -> None:
    text = (released / "README.md").read_text(encoding="utf-8")
    head, body = text.removeprefix("---\n").split("---\n", 1)
    header = YAML(typ="safe").load(head)
    assert header["pretty_name"] == released_projects.ABOUT["title"]
    assert header["license"] == "cc-by-4.0"
    assert "<script>" not in text
    assert "<b>" not in body
    (row,) = (line for line in body.splitlines() if "alert" in line)
    assert row.count(" | ") == 2, "a caption's bar is no border of a cell"
    assert r"\*\*bold\*\*" in row


def test_what_is_not_said_is_told_and_refused_when_strict(spoiled: Path, tmp_path: Path) -> None:
    (spoiled / "release.yaml").unlink()
    found = build_release("v1", spoiled, out=tmp_path / "open")
    assert "licence: not stated" in found.open
    assert "sources.synthetic.licence: not stated" in found.open
    assert "not finished" in (tmp_path / "open" / "README.md").read_text(encoding="utf-8")
    with pytest.raises(DataError, match=r"(?s)points are open.*title: not stated.*sources.x.licence"):
        build_release("v1", spoiled, out=tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"licence": "CC-BY-4"}, "licence: 'CC-BY-4' is not the SPDX name.*Did you mean 'CC-BY-4.0'"),
        ({"licence": "ours"}, "licence: 'ours' is not the SPDX name.*Known: CC0-1.0"),
        ({"sources": {"x": {"licence": "CC-BY-NC-4.0"}}}, "CC-BY-4.0 permits commercial use, and source 'x'"),
        ({"sources": {"x": {"licence": "CC-BY-SA-4.0"}}}, "source 'x'.*requires the same licence"),
        ({"sources": {"x": {"licence": "CC-BY-ND-4.0"}}}, "source 'x'.*permits no changed copies"),
        ({"licence": "CC0-1.0"}, "CC0-1.0 requires no attribution, and source 'x'"),
        ({"sources": {"coco": {"licence": "MIT"}}}, "sources.coco: not a source of this version"),
    ],
)
def test_a_licence_that_is_unknown_or_permits_less_is_refused_when_strict(
    change: dict[str, Any], said: str, spoiled: Path, tmp_path: Path
) -> None:
    about = released_projects.ABOUT | change
    (spoiled / "about.yaml").write_text(json.dumps(about), encoding="utf-8")
    with pytest.raises(DataError, match=f"(?s){said}"):
        build_release("v1", spoiled, out=tmp_path / "out", about=spoiled / "about.yaml", strict=True)
    assert any(
        said.partition(".*")[0] in point
        for point in build_release("v1", spoiled, out=tmp_path / "out", about=spoiled / "about.yaml").open
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lisence: MIT", "lisence: a field that this caramel does not know"),
        ("title: ''", "title"),
        ("authors: [{given: A}]", "authors: 0: family: missing"),
        ("doi: x", "doi"),
        ("url: https://me:planted@h/x", "the address in url holds a name or password"),
        ("sources: {x: {note: 'of https://ghp_planted@h/x'}}", "the address in sources.x.note holds"),
        ("doi: '10.5281/x}'", "doi"),
        ("url: 'https://example.org/}'", "url"),
        ("- a", "release"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_people_say_in_another_form_is_an_error(
    text: str, said: str, spoiled: Path, tmp_path: Path
) -> None:
    (spoiled / "release.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        build_release("v1", spoiled, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def edit(root: Path) -> None:
    pin = root / "pins" / "v1.json"
    pin.write_text(pin.read_text(encoding="utf-8").replace('"rows": 6', '"rows": 7'), encoding="utf-8")


def from_a_newer_caramel(root: Path) -> None:
    pin = root / "pins" / "v1.json"
    pin.write_text(json.dumps({**json.loads(pin.read_text(encoding="utf-8")), "new": 1}), encoding="utf-8")


def flip(root: Path) -> None:
    shard = root / "data" / "scenes" / "images" / "00000.parquet"
    data = bytearray(shard.read_bytes())
    index = read_table(IMAGES, root / "data" / "scenes" / "images.parquet")
    data[int(index["offset"].iloc[0]) + 20] ^= 1
    shard.write_bytes(bytes(data))


def lead_outside(root: Path) -> None:
    path = root / "data" / "assemble" / "images.parquet"
    write_table(IMAGES, read_table(IMAGES, path).assign(shard="../../../x.parquet"), path)


def lose(root: Path) -> None:
    (root / "data" / "assemble" / "images.parquet").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (edit, "one was edited"),
        (from_a_newer_caramel, "A newer one may have made the pin"),
        (flip, "SHA-256 differs from the index"),
        (lead_outside, "names 1 shards that are not Parquet files below its folder"),
        (lose, "not on disk as it was pinned"),
    ],
)
def test_a_version_that_is_not_as_it_was_pinned_is_not_released(
    spoil: Any, said: str, spoiled: Path, tmp_path: Path
) -> None:
    spoil(spoiled)
    with pytest.raises(CaramelError, match=said):
        build_release("v1", spoiled, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_over_or_outside_of_the_folder(spoiled: Path, tmp_path: Path) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    (full / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"is not empty: it holds.*notes\.txt"):
        build_release("v1", spoiled, out=full)
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(ConfigError, match="is a link"):
        build_release("v1", spoiled, out=tmp_path / "link")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / STAGING).symlink_to(other)
    with pytest.raises(ConfigError, match="is a link"):
        build_release("v1", spoiled, out=tmp_path / "linked")
    with pytest.raises(ConfigError, match="inputs are never overwritten"):
        build_release("v1", spoiled, out=spoiled / "data" / "assemble" / "v1")
    assert os.listdir(other) == []  # noqa: PTH208
    assert sorted(contents(full)) == ["notes.txt"]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_of_a_release_have_the_permissions_that_open_gives(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with open_staging(tmp_path / "out", tmp_path / "project") as folder:
            for name in ("private", "README.md"):
                (folder / name).write_text("text")
                (folder / name).chmod(0o600 if name == "private" else 0o666)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {"private": 0o666 & ~mask, "README.md": 0o666 & ~mask}


def test_what_a_killed_release_left_is_made_anew(project: Path, released: Path, tmp_path: Path) -> None:
    (tmp_path / STAGING / "files").mkdir(parents=True)
    (tmp_path / STAGING / "files" / "README.md").write_text("half", encoding="utf-8")
    with FileLock(tmp_path / STAGING / "lock"), pytest.raises(ResourceError, match="Another release"):
        build_release("v1", project, out=tmp_path)
    build_release("v1", project, out=tmp_path)
    assert contents(tmp_path) == contents(released)


def test_changes_since_an_earlier_pin_are_told_in_text_and_json(spoiled: Path, tmp_path: Path) -> None:
    cached(spoiled)
    path = spoiled / "data" / "assemble" / "instances.parquet"
    write_table(INSTANCES, read_table(INSTANCES, path).iloc[1:], path)
    released_projects.pinned(spoiled, "v2")
    build_release("v2", spoiled, out=tmp_path / "out", since="v1")
    text = (tmp_path / "out" / "CHANGES.md").read_text(encoding="utf-8")
    assert "data/assemble/instances.parquet: 0 added, 1 removed, 0 changed" in text
    (table,) = json.loads((tmp_path / "out" / "changes.json").read_text(encoding="utf-8"))["tables"]
    assert table["by_subtype"] == {"replace_obj": [0, 1]}
    assert (tmp_path / "out" / "data" / "instances_source").is_dir(), (
        "it is another table than the instances now"
    )


def test_an_earlier_pin_that_is_not_there_is_told_before_anything_is_written(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caramel.release.publishing.build.open_staging", None)
    with pytest.raises(DataError, match="There is no pin 'v0'"):
        build_release("v1", project, out=tmp_path / "out", since="v0")


def test_what_is_added_is_given_the_test_split_and_is_summed(project: Path, tmp_path: Path) -> None:
    def add(rows: pd.DataFrame, folder: Path) -> None:
        assert set(rows["split"]) == {"test"}
        (folder / "added.txt").write_text("x", encoding="utf-8")

    assert "added.txt" in build_release("v1", project, out=tmp_path / "out", add=add).files
    assert "  added.txt\n" in (tmp_path / "out" / SUMS).read_text(encoding="utf-8")
