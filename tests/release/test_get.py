"""A version comes back from a git URL or a folder, whole and checked, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock
from remote_projects import QUIET, dvc, in_bucket, run, spoil, with_remote
from stored_images import stored
from tracking_servers import free_port

import caramel
from caramel.errors import BackendError, CaramelError, ConfigError, DataError, ResourceError
from caramel.io.image_store import ImageStore, rewrite_shard_paths
from caramel.release import pin as pins
from caramel.release import pin_file
from caramel.release.get import STAGING, get_version
from caramel.release.source import open_source
from caramel.runtime.dvc.state import compute_listing_hash
from caramel.schemas.images import IMAGES
from caramel.schemas.io import build_frame, read_table, write_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS

FILES = 40  # of the model: enough for a get to be killed between two of them
STAGES = """
stages:
  make:
    cmd: cp -r source data
    deps: [source]
    outs: [data/scenes, data/assemble, data/model, data/rejects.parquet]
"""
EVERYTHING = 4 + 2 + FILES + 1


def write_source(source: Path) -> None:
    """Write what the stage copies: two shards, two indices of them, pairs with splits, a model and a table."""
    for n, split in enumerate(("train", "test")):
        known = {"width": 1, "height": 1, "source": "x", "split": split}
        rows = [{"image_id": f"{split}{k}", "data": bytes([10 * n + k]) * 50, **known} for k in range(5)]
        stored(source / "scenes" / split / "images.parquet", rows)
    parts = []
    for split in ("train", "test"):
        (source / "scenes" / "images").mkdir(exist_ok=True)
        shard = f"images/{split}.parquet"
        shutil.move(source / "scenes" / split / "images" / "00000.parquet", source / "scenes" / shard)
        index = read_table(IMAGES, source / "scenes" / split / "images.parquet")
        parts.append(index.assign(shard=shard))
        shutil.rmtree(source / "scenes" / split)
    index = pd.concat(parts, ignore_index=True)
    write_table(IMAGES, index, source / "scenes" / "images.parquet")
    some = rewrite_shard_paths(index.iloc[::2], "data/scenes", "data/assemble")
    write_table(IMAGES, some, source / "assemble" / "images.parquet")
    for folder, rows in (("scenes", index), ("assemble", index.iloc[::2])):
        pairs = [
            (f"p{k}", row.image_id, "a caption", None, row.split, "x")
            for k, row in enumerate(rows.itertuples())
        ]
        write_table(PAIRS, build_frame(PAIRS, pairs), source / folder / "pairs.parquet")
    (source / "model").mkdir()
    for n in range(FILES):
        (source / "model" / f"{n}.bin").write_bytes(b"weights %d" % n * 100)
    write_table(REJECTS, build_frame(REJECTS, [("r", "refine", "x", "y")]), source / "rejects.parquet")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose data is pinned as v1; its cache holds it."""
    root = tmp_path_factory.mktemp("made")
    write_source(root / "source")
    for name, text in {
        "dvc.yaml": STAGES,
        "params.yaml": "profile: smoke\n",
        ".gitignore": "/data/\n",
    }.items():
        (root / name).write_text(text, encoding="utf-8")
    run("git", "init", "-q", root=root)
    dvc("init", "-q", root=root)
    dvc("repro", "-q", root=root)
    pins.create_pin("v1", root)
    run("git", "add", "-A", root=root)
    run("git", "commit", "-qm", "data", root=root)
    return root


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "project", symlinks=True))


@pytest.fixture(scope="module")
def pushed(made: Path, tmp_path_factory: pytest.TempPathFactory, s3: Any) -> str:
    """The URL of the project's git repository; its data is on the S3 server."""
    root = tmp_path_factory.mktemp("pushed") / "project"
    shutil.copytree(made, root, symlinks=True)
    with_remote(root, s3, "got")
    dvc("push", "-q", root=root, **s3.writer)
    run("git", "clone", "-q", "--bare", str(root), str(root.parent / "bare.git"), root=root)
    return f"file://{root.parent}/bare.git"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3: Any) -> list[str]:
    """Be a user who may read; return the server that he gives his keys to."""
    for name, value in s3.reader.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        (tmp_path / name).touch()
        monkeypatch.setenv(name, str(tmp_path / name))
    return [s3.url]


def contents(folder: Path) -> dict[str, bytes]:
    """Return path -> bytes of all files in a folder, but for what is fetched and not there yet."""
    files = (p for p in folder.rglob("*") if p.is_file() and STAGING not in p.parts)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_a_pin_is_found_on_a_branch_and_by_a_tag_that_are_not_the_default(
    pushed: str, tmp_path: Path, reader: list[str]
) -> None:
    work = tmp_path / "work"
    run("git", "clone", "-q", pushed, str(work), root=tmp_path)

    def pinned(name: str, created: str) -> None:
        made = pin_file.read_pin("v1", work).model_copy(update={"name": name, "created": created})
        pin_file.write_pin(made, work / "pins" / f"{name}.json")
        run("git", "add", "-A", root=work)
        run("git", "commit", "-qm", name, root=work)

    run("git", "checkout", "-q", "-b", "camera-ready", root=work)
    pinned("v2", "2026-01-01")
    run("git", "checkout", "-q", "--detach", root=work)
    pinned("v3", "2026-01-01")
    run("git", "tag", "third", root=work)
    run("git", "checkout", "-q", "-B", "other", "camera-ready~1", root=work)
    pinned("v4", "2026-01-01")
    run("git", "checkout", "-q", "-B", "another", "camera-ready~1", root=work)
    pinned("v4", "2026-02-02")
    bare = tmp_path / "bare.git"
    shutil.copytree(pushed.removeprefix("file://"), bare)
    run("git", "push", "-q", f"file://{bare}", "camera-ready", "other", "another", "third", root=work)
    for name in ("v2", "v3"):
        with open_source(f"file://{bare}@{name}") as origin:
            assert origin.pinned.name == name
    assert get_version(f"file://{bare}@v2", ["rejects"], out=tmp_path / "out", credentials=reader).files
    with open_source(f"file://{bare}") as origin:
        assert origin.pinned.name == "v1", "of the default branch"
    with (
        pytest.raises(DataError, match=r"several pins 'v4'.*refs/heads/another and refs/heads/other"),
        open_source(f"file://{bare}@v4"),
    ):
        pass
    with (
        pytest.raises(DataError, match=r"no pin 'v9'. Pins: v1, v2, v3, v4\."),
        open_source(f"file://{bare}@v9"),
    ):
        pass


def test_of_a_pin_without_a_name_that_branches_have_of_other_data_none_is_taken(
    made: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(made, tmp_path / "project", symlinks=True))
    old = pin_file.read_pin("v1", root)
    run("git", "branch", "-M", "main", root=root)
    for branch, created in (("main", ""), ("a", "2026-01-01"), ("b", "2026-02-02")):
        run("git", "checkout", "-q", "-B", branch, root=root)
        if created:
            pin_file.write_pin(old.model_copy(update={"created": created}), root / "pins" / "v1.json")
        else:
            run("git", "rm", "-q", "pins/v1.json", root=root)
        run("git", "add", "-A", root=root)
        run("git", "commit", "-qm", branch, root=root)
        run("git", "checkout", "-q", "main", root=root)
        if branch == "a":
            with open_source(f"file://{root}/.git") as origin:
                assert origin.pinned.created == "2026-01-01"
    with (
        pytest.raises(DataError, match=r"several pins 'v1'.*refs/heads/a and refs/heads/b"),
        open_source(f"file://{root}/.git"),
    ):
        pass


def test_a_version_comes_back_byte_for_byte_from_a_git_url_alone(
    pushed: str, made: Path, tmp_path: Path, reader: list[str]
) -> None:
    out = tmp_path / "out"
    got = get_version(f"{pushed}@v1", out=out, credentials=reader)
    assert len(got.files) == EVERYTHING
    found = contents(out)
    assert found.pop("pins/v1.json") == (made / "pins" / "v1.json").read_bytes()
    assert {name.removeprefix("data/"): data for name, data in found.items()} == contents(made / "data")
    assert pins.verify_pin("v1", out) == []
    assert not (out / STAGING).exists()
    assert get_version(pushed, out=out, credentials=reader) == got, (
        "what is there already is right, and the only pin needs no name"
    )


def test_what_the_remote_flipped_or_lost_is_named_and_nothing_appears_until_it_is_mended(
    pushed: str, made: Path, tmp_path: Path, reader: list[str], s3: Any
) -> None:
    there, out = in_bucket(s3, "got"), tmp_path / "out"
    shard, index = (
        pins.compute_dvc_hash(made / "data" / "scenes" / p) for p in ("images/test.parquet", "images.parquet")
    )
    keep = {
        oid: s3.client().get_object(Bucket="data", Key=there[oid])["Body"].read() for oid in (shard, index)
    }
    spoil(s3, there[shard])
    with pytest.raises(
        DataError, match=rf"(?s)1 of .*data/scenes/images/test.parquet: Remote 'store'.*{shard}"
    ):
        get_version(pushed, out=out, credentials=reader)
    s3.client().delete_object(Bucket="data", Key=there[index])
    shutil.rmtree(out)
    with pytest.raises(DataError, match=rf"data/scenes/images.parquet: .* does not have object {index}"):
        get_version(pushed, out=out, credentials=reader)
    assert contents(out) == {}
    for oid, data in keep.items():
        s3.client().put_object(Bucket="data", Key=there[oid], Body=data)
    assert (out / STAGING / "files" / "data" / "model" / "0.bin").exists()
    s3.client().delete_object(
        Bucket="data", Key=(other := there[pins.compute_dvc_hash(made / "data/model/0.bin")])
    )
    get_version(
        pushed, out=out, credentials=reader
    )  # the same command goes on: what was whole is not fetched again
    s3.client().put_object(Bucket="data", Key=other, Body=(made / "data" / "model" / "0.bin").read_bytes())
    assert pins.verify_pin("v1", out) == []


def test_a_get_that_was_killed_goes_on(pushed: str, tmp_path: Path, reader: list[str]) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", "import caramel.cli as c; c.main()", "get", pushed, "--out", str(out)]
    command += ["--credentials", *reader]
    process = subprocess.Popen(command, env={**os.environ, **QUIET}, start_new_session=True)
    while process.poll() is None and len([*out.rglob("*.bin")]) < 3:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert contents(out) == {}
    assert 3 <= len([*(out / STAGING).rglob("*.bin")]) < FILES
    get_version(pushed, out=out, credentials=reader)
    assert pins.verify_pin("v1", out) == []


def test_without_credentials_or_a_remote_it_says_so(
    pushed: str, project: Path, tmp_path: Path, reader: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ResourceError, match=f"refuses access without a login.* --credentials {reader[0]};"):
        get_version(pushed, out=tmp_path / "out")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ResourceError, match="needs credentials"):
        get_version(pushed, out=tmp_path / "out", credentials=reader)
    with pytest.raises(DataError, match="names no DVC remote"):
        get_version(f"file://{project}/.git@v1", out=tmp_path / "out")
    with pytest.raises(DataError, match="git cannot fetch it"):
        get_version(str(tmp_path / "nowhere"), out=tmp_path / "out")


def test_no_message_shows_the_password_of_an_address(tmp_path: Path) -> None:
    for source in (address := f"https://me:secret@127.0.0.1:{free_port()}", f"{address}/x.git@v1"):
        with pytest.raises(DataError, match="git cannot fetch it") as raised:
            get_version(source, out=tmp_path / "out")
        assert "secret" not in str(raised.value)


def test_only_the_address_and_a_committed_login_are_taken_of_a_strangers_remote(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(made, tmp_path / "stranger", symlinks=True)
    section = "['remote \"Store\"']\n"
    (root / ".dvc" / "config").write_text(
        f"[core]\nremote = Store\n{section}url = webdav://h/x\nuser = all\npassword = known\ntimeout = 5\n"
        f"bearer_token_command = touch {tmp_path}/ran\ncert_path = /home/me/cert\nkey_path = /home/me/key\n"
    )
    run("git", "commit", "-qam", "remote", root=root)
    mine = tmp_path / "settings"
    mine.mkdir()
    (mine / "config").write_text(f"{section}token = secret\nuser = me\n")
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(mine))
    with open_source(f"file://{root}/.git") as origin:
        (taken,) = origin._remote_settings["remote"].values()
        assert taken == {"url": "webdav://h/x", "user": "all", "password": "known", "verify": False}
    with pytest.raises(ConfigError, match=r"'store' \(webdav://h/x\): .*requires 'dvc-webdav'"):
        get_version(f"file://{root}/.git", out=tmp_path / "out")
    (root / ".dvc" / "config.local").write_text(f"{section}user = other\nkey_path = /home/me/key\n")
    with open_source(str(root)) as origin:
        (taken,) = origin._remote_settings["remote"].values()
        assert taken == {"url": "webdav://h/x", "user": "other", "password": "known", "verify": False}


def test_tables_and_splits_come_with_their_images_and_no_others(made: Path, tmp_path: Path) -> None:
    got = get_version(f"{made}@v1", ["assemble/images", "rejects"], out=tmp_path / "some")
    shards = [f"data/scenes/images/{split}.parquet" for split in ("test", "train")]
    assert got.files == ["data/assemble/images.parquet", "data/rejects.parquet", *shards]
    got = get_version(str(made), ["data/assemble", "scenes/pairs"], split="test", out=tmp_path / "test")
    assert got.files == [
        "data/assemble/images.parquet",
        "data/assemble/pairs.parquet",
        "data/scenes/images/test.parquet",
        "data/scenes/pairs.parquet",
    ]
    index = tmp_path / "test" / "data" / "assemble" / "images.parquet"
    rows = read_table(IMAGES, index)
    assert set(rows["split"]) == {"test"}
    pictures = ImageStore(index, rows)
    assert [pictures.read_verified(name)[0] for name in pictures] == [11, 13]
    assert len(get_version(str(made), split="train", out=tmp_path / "train").files) == EVERYTHING - 1
    assert get_version(str(made), split="train", out=tmp_path / "train").files, "it is there, and is so again"


@pytest.mark.parametrize(
    ("source", "paths", "message"),
    [
        ("@v2", [], "has no pin 'v2'. Pins: v1"),
        ("@v1", ["nothing"], "nothing named 'nothing'. Name one of"),
        ("@v1", ["images"], "several tables 'images'"),
        ("@v1", ["../made"], "nothing named '../made'"),
    ],
)
def test_names_of_nothing_list_what_there_is(
    source: str, paths: list[str], message: str, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        get_version(f"{made}{source}", paths, out=tmp_path / "out")
    assert contents(tmp_path) == {}


def test_of_several_pins_one_must_be_named(project: Path, tmp_path: Path) -> None:
    pins.create_pin("v2", project)
    with pytest.raises(ConfigError, match=r"several versions. Name one: .*@v2; v1, v2"):
        get_version(str(project), out=tmp_path / "out")


def rewritten(project: Path, change: Callable[[dict[str, Any]], None], *, signed: bool = True) -> Path:
    """Change the fields of the pin; signed, its own hashes are those of the new fields."""
    path = project / "pins" / "v1.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    if signed:
        versions = {p: pin_file.TableVersion(**version) for p, version in fields["tables"].items()}
        fields["data"] = pin_file.compute_data_hash(fields["outs"], versions)
        fields.pop("sha256")
        fields["sha256"] = pin_file._compute_checksum(fields)
    path.write_text(json.dumps(fields), encoding="utf-8")
    return project


def test_a_pin_that_was_edited_or_is_of_a_newer_caramel_is_told(project: Path, tmp_path: Path) -> None:
    def other_rows(fields: dict[str, Any]) -> None:
        fields["tables"]["data/rejects.parquet"]["content"] = "0" * 64

    with pytest.raises(DataError, match="one was edited"):
        get_version(str(rewritten(project, other_rows, signed=False)), out=tmp_path / "out")
    with pytest.raises(DataError, match=r"data/rejects.parquet does not hold the rows that pin 'v1' names"):
        get_version(str(rewritten(project, other_rows)), ["rejects"], out=tmp_path / "out")
    with pytest.raises(DataError, match="licence: a field that this caramel does not know"):
        get_version(str(rewritten(project, lambda fields: fields.update(licence="x"))), out=tmp_path / "out")
    assert contents(tmp_path / "out") == {}


@pytest.mark.parametrize("name", ["../../../escaped", "/tmp/escaped", "a/../../../escaped", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, project: Path, tmp_path: Path) -> None:
    digest = pins.compute_dvc_hash(project / "data" / "model" / "0.bin")
    oid = compute_listing_hash({name: digest})
    place = project / ".dvc" / "cache" / "files" / "md5" / oid[:2] / oid[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps([{"md5": digest, "relpath": name}], sort_keys=True), encoding="utf-8")
    rewritten(project, lambda fields: fields["outs"].update({"data/model": oid}))
    before = contents(tmp_path)
    with pytest.raises(DataError, match="leads out of the folder"):
        get_version(str(project), out=tmp_path / "out")
    assert contents(tmp_path) == before
    rewritten(project, lambda fields: fields["outs"].update({"../x": oid}))
    with pytest.raises(DataError, match="not a plain path"):
        get_version(str(project), out=tmp_path / "out")


def test_nothing_is_written_over_nor_through_a_link(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    (out / "data" / "rejects.parquet").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"(?s)1 files .*already with other content.*data/rejects.parquet"):
        get_version(str(made), out=out)
    assert contents(out) == {"data/rejects.parquet": b"mine"}
    shutil.rmtree(out)
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="nothing is written through a link"):
        get_version(str(made), ["rejects"], out=out)
    assert not any((tmp_path / "elsewhere").iterdir())
    with pytest.raises(ConfigError, match="is an input, and inputs are never overwritten"):
        get_version(str(made), out=made)


def test_two_gets_into_one_folder_do_not_meet(made: Path, tmp_path: Path) -> None:
    (tmp_path / STAGING).mkdir()
    with FileLock(tmp_path / STAGING / "lock"), pytest.raises(ResourceError, match="Another `caramel get`"):
        get_version(str(made), out=tmp_path)
    get_version(str(made), out=tmp_path)


def test_a_full_disk_leaves_nothing_half_written_and_the_same_command_goes_on(
    project: Path, tmp_path: Path, mount: Callable[..., Path]
) -> None:
    out = mount(tmp_path / "small", 32)
    filler = out / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(out).free - 20_000))
    with pytest.raises(CaramelError, match="no space left"):
        get_version(str(project), out=out)
    assert [*contents(out)] == ["filler"]
    filler.unlink()
    get_version(str(project), out=out)
    assert pins.verify_pin("v1", out) == []


def test_the_function_returns_the_tables_as_frames_or_with_pictures(made: Path, tmp_path: Path) -> None:
    found = caramel.get(f"{made}@v1", ["assemble"], split="test", out=tmp_path / "out")
    assert list(found) == ["data/assemble/images.parquet", "data/assemble/pairs.parquet"]
    assert list(found["data/assemble/pairs.parquet"]["image_id"]) == ["test1", "test3"]
    for options in ({"form": "csv"}, {"split": "tset"}, {"paths": "instances"}):
        with pytest.raises(ConfigError):
            caramel.get(str(made), **{"out": tmp_path / "out", **options})  # type: ignore[arg-type]
    if find_spec("datasets") is None:
        with pytest.raises(BackendError, match="pip install datasets"):
            caramel.get(str(made), ["rejects"], out=tmp_path / "rejects", form="datasets")
        return
    found = caramel.get(str(made), ["rejects", "assemble/images"], out=tmp_path / "all", form="datasets")
    assert len(found["data/rejects.parquet"]) == 1
    assert found["data/assemble/images.parquet"].features["image"].dtype == "PIL.Image.Image"
