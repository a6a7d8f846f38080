"""A stranger's version is got, looked at and refused, and no code of the stranger's runs.

Commands run in processes of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile_projects import Hostile, caramel, git_settings
from released_projects import made as release_project
from remote_projects import cached, run
from special_files import make_null, make_socket
from stored_images import indexed

from caramel.errors import CaramelError, DataError
from caramel.release import pin as pins
from caramel.release import pin_file
from caramel.release.get import STAGING, get_version
from caramel.release.resolve import VersionImages
from caramel.release.version_paths import explain_bad_path, list_bad_files

LISTED = b'{"a": 1}'
GIT = {"HEAD": b"ref: refs/heads/main\n", "objects/x.json": LISTED, "refs/heads/x.json": LISTED}
# Of outputs that a pin may name, and of files that the list of output data/x may.
PATHS = [
    ".git", ".git/hooks/post-index-change", ".dvc/config", ".envrc", "sitecustomize.py", "dvc.lock", "dvc.yaml", "data/DVC.yaml", "pins/v9.json",
    "pins", "src/x.json", "data", "data/.git/config", "data/.envrc", "data//x.json", "./data/x.json", "data/./x.json",
    "data/x.json/", "data/../x.json", "/data/x.json", "data/.GIT/config.json", "Data/x.json", "DATA/x.json", "data/GIT~1/x.json",
    "data/con.json", "data/x.json.", "data/x /y.json", "data\\x.json", "data/x\u200c/y.json", "data/x\n.json", "data/\u202ex.json",
]  # fmt: skip
NAMES = [
    ".git/config", ".gitattributes", ".dvc/config", "dvc.yaml", ".envrc", "sitecustomize.py", "conftest.py", "HEAD", "config", "Makefile",
    "x.so", "x.pth.py", "x.sh", "x.pkl", "a//b.json", "./a.json", "a/./b.json", "a.json/", "../a.json", "/a.json", "",
    "a/.hidden/b.json", "aux.json", "a\\b.json", "GIT~1/b.json",
]  # fmt: skip


def files_of(folder: Path) -> dict[str, bytes | str]:
    """Return path -> bytes of all files in a folder, and where links lead, but for what is fetched and not there yet."""
    paths = [
        p for p in folder.rglob("*") if STAGING not in p.parts and not (p.is_dir() and not p.is_symlink())
    ]
    return {
        p.relative_to(folder).as_posix(): str(p.readlink()) if p.is_symlink() else p.read_bytes()
        for p in paths
    }


def test_a_version_that_brings_its_own_git_settings_runs_nothing_where_it_is_got(tmp_path: Path) -> None:
    marker, out = tmp_path / "ran", tmp_path / "v1.0"
    hostile = Hostile(
        tmp_path / "hostile", {".git": GIT | {"config": git_settings(marker)}, "data/x": {"a.json": LISTED}}
    )
    got = caramel("get", f"{hostile.url}@v1", "--out", str(out), root=tmp_path)
    assert got.returncode == 1
    assert "outs: .git: " in got.stderr
    assert hostile.url in got.stderr
    assert "caramel-get-" not in got.stderr, "a temporary folder that is gone is no place to look at"
    out.mkdir(exist_ok=True)
    for command in (("verify", "v1"), ("diff", "v1"), ("pin", "v2")):
        assert caramel(*command, root=out).returncode == 1
    subprocess.run(["git", "status"], cwd=out, capture_output=True, check=False)
    assert not marker.exists()
    assert files_of(out) == {}


@pytest.mark.parametrize("out", ["new", "repository"])
def test_a_listing_that_brings_a_repository_is_refused_by_the_command(out: str, tmp_path: Path) -> None:
    marker, folder = tmp_path / "ran", tmp_path / out
    folder.mkdir()
    if out == "repository":
        run("git", "init", "-q", root=folder)
    before = files_of(folder)
    files = {f".git/{name}": data for name, data in GIT.items()} | {".git/config": git_settings(marker)}
    hostile = Hostile(tmp_path / "hostile", {"data/x": files})
    done = caramel("get", hostile.url, "--out", str(folder), root=tmp_path)
    assert done.returncode == 1
    assert "files that are not data" in done.stderr
    assert "Nothing was written" in done.stderr
    assert files_of(folder) == before
    subprocess.run(["git", "status"], cwd=folder, capture_output=True, check=False)
    assert not marker.exists()


def test_a_bare_repository_among_the_files_is_none(tmp_path: Path) -> None:
    files = GIT | {"config": git_settings(tmp_path / "ran")}
    with pytest.raises(DataError, match="no suffix is not a suffix of data files"):
        get_version(Hostile(tmp_path / "hostile", {"data/x": files}).url, out=tmp_path / "out")
    assert files_of(tmp_path / "out") == {}


@pytest.mark.parametrize("path", PATHS)
def test_a_pin_that_names_anything_but_data_is_refused(path: str, tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "hostile", {path: LISTED, "data/x": {"a.json": LISTED}})
    before = files_of(tmp_path)
    with pytest.raises(DataError, match=r"Pin 'pins/v1.json' of 'file:.*is broken:\n.*outs: "):
        get_version(hostile.url, out=tmp_path / "out")
    assert files_of(tmp_path) == before
    with pytest.raises(DataError, match=r"Take the file back from git"):
        pin_file.read_pin("v1", hostile.root)


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_that_names_anything_but_files_of_data_is_refused(name: str, tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "hostile", {"data/x": {name: LISTED, "fine.json": LISTED}})
    with pytest.raises(
        DataError, match=r"files that are not data|leads out of the folder or is not canonical"
    ):
        get_version(hostile.url, out=tmp_path / "out")
    assert files_of(tmp_path / "out") == {}


def test_what_would_be_one_file_on_some_systems_is_refused() -> None:
    one = "data/caf\u00e9.json"
    for other in ("data/cafe\u0301.json", "data/CAF\u00c9.json"):
        assert len(list_bad_files([one, other])) == 1
    assert list_bad_files([one, "data/cafes.json"]) == []
    assert list_bad_files(["data/a.json", "data/a.json/b.json"]) == [
        "'data/a.json/b.json': lies in 'data/a.json', which is a file"
    ]


def test_two_outputs_that_hold_one_file_are_refused(tmp_path: Path) -> None:
    outs = {"data/x": {"y/a.json": LISTED}, "data/x/y": {"a.json": b"2"}}
    with pytest.raises(DataError, match="in two of its outputs"):
        get_version(Hostile(tmp_path / "hostile", outs).url, out=tmp_path / "out")


def test_all_outputs_of_this_project_and_of_own_ones_may_be_in_a_version() -> None:
    lock = (Path(__file__).parents[2] / "dvc.lock").read_text(encoding="utf-8")
    outs = [line.split()[2] for line in lock.splitlines() if line.startswith("    - path: data/")]
    assert len(outs) > 30
    assert [path for path in outs if explain_bad_path(path)] == []
    listed = (
        "images/00000.parquet",
        "a b/bpe.txt.gz",
        "n:1/model.safetensors",
        "tokenizer.json",
        "\u00e9.csv",
        "a..b.json",
    )
    assert list_bad_files(f"data/finetune/{name}" for name in listed) == []


def test_what_a_reader_could_not_get_is_not_pinned(tmp_path: Path) -> None:
    root = release_project(tmp_path / "project")
    (root / "data" / "evaluate" / "model.pkl").write_bytes(b"x")
    with pytest.raises(
        DataError,
        match=r"(?s)cannot be pinned.*'data/evaluate/model.pkl': \.pkl is not a suffix of data files",
    ):
        pinned_again(root)


def pinned_again(root: Path) -> None:
    """Pin what lies in the data folder of a project as v2."""
    from released_projects import pinned

    pinned(root, "v2")


def test_a_pin_of_other_content_is_not_written_over_and_nothing_else_appears(tmp_path: Path) -> None:
    hostile, out = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}}), tmp_path / "out"
    (out / "pins").mkdir(parents=True)
    (out / "pins" / "v1.json").write_text("mine")
    done = caramel("get", hostile.url, "--out", str(out), root=tmp_path)
    assert done.returncode == 1
    assert "already with other content" in done.stderr
    assert "pins/v1.json" in done.stderr
    assert files_of(out) == {"pins/v1.json": b"mine"}
    shutil.rmtree(out)
    assert caramel("get", hostile.url, "--out", str(out), root=tmp_path).returncode == 0
    again = caramel("get", hostile.url, "--out", str(out), root=tmp_path)
    assert again.returncode == 0, "the same pin is left as it is"
    assert sorted(files_of(out)) == ["data/x/a.json", "pins/v1.json"]


@pytest.mark.parametrize(
    "link",
    [
        "pins",
        "data",
        "data/x",
        f"{STAGING}",
        f"{STAGING}/files",
        f"{STAGING}/lists",
        f"{STAGING}/lock",
        f"{STAGING}/pin.json",
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_no_link_is_written_through(link: str, inside: bool, tmp_path: Path) -> None:
    hostile, out = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}}), tmp_path / "out"
    aim = out / "aim" if inside else tmp_path / "aim"
    aim.mkdir(parents=True)
    if link.endswith(("lock", "json")):
        aim = aim / "file"
        aim.write_text("mine")
    (out / link).parent.mkdir(parents=True, exist_ok=True)
    (out / link).symlink_to(aim)
    before = files_of(tmp_path / "aim") if not inside else files_of(out)
    with pytest.raises(DataError, match="link"):
        get_version(hostile.url, out=out)
    assert (files_of(tmp_path / "aim") if not inside else files_of(out)) == before
    assert (out / link).is_symlink()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, make_null, make_socket])
@pytest.mark.parametrize("place", ["files/data/x/a.json", "pin.json", "lock"])
def test_what_is_no_file_is_not_fetched_into_nor_got(
    place: str, make: Callable[[Path], object], tmp_path: Path
) -> None:
    hostile, out = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}}), tmp_path / "out"
    (out / STAGING / place).parent.mkdir(parents=True)
    make(out / STAGING / place)
    with pytest.raises(DataError, match="is a device, a FIFO or a socket"):
        get_version(hostile.url, out=out)
    assert files_of(out) == {}


def index_of(**columns: Any) -> bytes:
    """Return an index of two images as a file, with other columns."""
    rows = indexed(["a", "b"])
    table = pa.Table.from_pandas(rows, preserve_index=False)
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    to = pa.BufferOutputStream()
    pq.write_table(table, to)
    return to.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "columns",
    [
        {"shard": ["images/00000.parquet", None]},
        {"shard": pa.array([None, None], pa.string())},
        {"shard": [1.5, 2.5]},
        {"shard": [1, 2]},
        {"shard": [["a"], ["b"]]},
        {"shard": ["", ""]},
        {"shard": ["/etc/passwd", "../../../x.parquet"]},
        {"shard": ["a.parquet\0", "b"]},
        {"offset": [None, 4]},
        {"offset": [-1, 4]},
        {"sha256": [None, "x"]},
        {"image_id": ["a", "a"]},
        {"split": [1, 2]},
        {"split": ["all", "none"]},
    ],
)
@pytest.mark.parametrize("split", [None, "test"])
def test_an_index_of_images_that_keeps_no_contract_is_an_error(
    columns: dict[str, Any], split: str | None, tmp_path: Path
) -> None:
    files = {"images.parquet": index_of(**columns), "images/00000.parquet": b"x" * 100}
    hostile = Hostile(tmp_path / "hostile", {"data/x": files})
    with pytest.raises(CaramelError):
        get_version(hostile.url, out=tmp_path / "out", split=split)
    assert files_of(tmp_path / "out") == {}
    pinned = pin_file.read_pin("v1", hostile.root)
    (hostile.root / "data" / "x").mkdir(parents=True)
    (hostile.root / "data" / "x" / "images.parquet").write_bytes(files["images.parquet"])
    with pytest.raises(CaramelError):
        VersionImages(pinned, "data/x/images.parquet", hostile.root)["a"]


def test_an_index_without_shards_is_an_error_of_the_command(tmp_path: Path) -> None:
    files = {"images.parquet": index_of(shard=[None, "x"])}
    hostile = Hostile(tmp_path / "hostile", {"data/x": files})
    done = caramel("get", hostile.url, "--out", "out", root=tmp_path)
    assert done.returncode == 1
    assert "column 'shard'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A project with pinned data, as from an archive: its ``.git/config`` is the stranger's, and objects are missing."""
    root = release_project(tmp_path / "unpacked")
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").touch()
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (root / "src").mkdir()
    (root / "src" / "x.py").touch()
    cached(root)
    run("git", "init", "-q", root=root)
    run("git", "add", "-A", root=root)
    run("git", "commit", "-qm", "data", root=root)
    (root / "pins" / "v1.json").unlink()
    pins.create_pin("v1", root)
    lost = run("git", "rev-parse", "HEAD:dvc.lock", root=root).stdout.strip()
    (root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    (root / ".git" / "config").write_bytes(git_settings(tmp_path / "ran"))
    for name in ("post-index-change", "fsmonitor-watchman"):
        (root / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (root / name).chmod(0o755)
    os.utime(root / "src" / "x.py", (1, 1))
    return root


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("verify", "v1"), "if you trust this repository"),
        (("diff", "v1"), ""),
        (("diff", "HEAD"), "if you trust this repository"),
        (("pin", "v2"), "Wrote pins/v2.json"),
        (("doctor",), "git "),
    ],
)
def test_no_command_on_an_unpacked_project_runs_what_its_git_settings_name(
    command: tuple[str, ...], says: str, unpacked: Path, tmp_path: Path
) -> None:
    done = caramel(*command, root=unpacked)
    assert "Traceback" not in done.stderr
    assert says.replace("this", "the") in done.stdout + done.stderr or says in done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", [("pin", "v2"), ("verify", "v1"), ("diff", "v1"), ("diff", "HEAD")])
def test_a_repository_of_another_user_is_told_with_what_to_do(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    root = release_project(tmp_path / "project")
    cached(root)
    run("git", "init", "-q", root=root)
    run("git", "add", "-A", root=root)
    run("git", "commit", "-qm", "data", root=root)
    (root / "pins" / "v1.json").unlink()
    pins.create_pin("v1", root)
    done = caramel(*command, root=root, GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert done.returncode == 1
    assert f"`git config --global --add safe.directory {root}`" in done.stderr
    assert not (root / "pins" / "v2.json").exists()


def test_a_version_of_another_users_repository_is_told_with_what_to_do(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}})
    done = caramel(
        "get", str(hostile.root / ".git"), "--out", "out", root=tmp_path, GIT_TEST_ASSUME_DIFFERENT_OWNER="1"
    )
    assert done.returncode == 1
    assert "git config --global --add safe.directory" in done.stderr


@pytest.mark.parametrize(
    "source", ["ext::sh -c 'touch {}'", "ext::sh -c 'touch {}'@v1", "--upload-pack=touch {}"]
)
def test_an_address_runs_no_command(source: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="git cannot fetch it"):
        get_version(source.format(tmp_path / "ran"), out=tmp_path / "out")
    assert not (tmp_path / "ran").exists()


def test_git_settings_around_the_working_folder_choose_no_program_for_a_clone(tmp_path: Path) -> None:
    Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}})
    here = tmp_path / "here"
    here.mkdir()
    run("git", "init", "-q", root=here)
    (here / ".git" / "config").write_bytes(
        git_settings(tmp_path / "ran") + b"[alias]\n\tclone = !touch ran\n"
    )
    assert caramel("get", "../hostile/.git", "--out", "out", root=here).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_project_in_a_subfolder_is_got_by_the_name_of_its_pin(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "many", {"data/x": {"a.json": LISTED}}, project="sets/one")
    for n, pin in enumerate(("", "@v1", "@sets/one/v1")):
        done = caramel("get", f"{hostile.url}{pin}", "--out", f"out{n}", root=tmp_path)
        assert done.returncode == 0, done.stderr
        assert sorted(files_of(tmp_path / f"out{n}")) == ["data/x/a.json", "pins/v1.json"]
    Hostile(tmp_path / "many", {"data/y": {"b.json": LISTED}}, project="sets/two")
    done = caramel("get", f"{hostile.url}@v1", "--out", "out", root=tmp_path)
    assert done.returncode == 1
    assert f"several versions. Name one: {hostile.url}@sets/two/v1; sets/one/v1, sets/two/v1" in done.stderr
    assert get_version(f"{hostile.url}@sets/two/v1", out=tmp_path / "two").files == ["data/y/b.json"]
    with pytest.raises(DataError, match=r"no pin 'sets/three/v1'\. Pins: sets/one/v1, sets/two/v1"):
        get_version(f"{hostile.url}@sets/three/v1", out=tmp_path / "three")
    assert get_version(f"{tmp_path}/many/sets/one@v1", out=tmp_path / "folder").files == ["data/x/a.json"]


def test_a_pin_that_is_a_link_in_git_is_none(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}})
    (hostile.root / "pins" / "v1.json").unlink()
    (hostile.root / "pins" / "v1.json").symlink_to("/etc/passwd")
    run("git", "commit", "-qam", "link", root=hostile.root)
    with pytest.raises(DataError, match="has no pin 'v1'"):
        get_version(f"{hostile.url}@v1", out=tmp_path / "out")


def test_a_full_disk_is_the_one_that_is_written_to(tmp_path: Path, mount: Callable[..., Path]) -> None:
    hostile = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED, "b.bin": bytes(2**22)}})
    out = mount(tmp_path / "small", 32)
    (out / "filler").write_bytes(bytes(shutil.disk_usage(out).free - 50_000))
    done = caramel("get", hostile.url, "--out", str(out), root=tmp_path)
    assert done.returncode == 1
    assert f"its volume {out} has" in done.stderr
    assert "hostile" not in done.stderr.replace(hostile.url, "")


def test_a_folder_on_a_system_without_hard_links_is_filled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile, out = Hostile(tmp_path / "hostile", {"data/x": {"a.json": LISTED}}), tmp_path / "out"
    get_version(hostile.url, out=out)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert get_version(hostile.url, out=out).files == ["data/x/a.json"]
    assert json.loads((out / "data" / "x" / "a.json").read_text()) == {"a": 1}
