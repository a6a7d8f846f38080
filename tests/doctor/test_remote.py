"""A remote is tried as it is used: reached, written, and whole; DVC on it does what docs/remote.md says."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from remote_projects import QUIET, clone, dvc, in_bucket, run, spoil, with_remote
from s3_server import BUCKET
from tracking_servers import free_port

from caramel.doctor.findings import FAIL, OK, WARN
from caramel.doctor.remote import examine_remotes, find_wrong_objects, fix_remotes
from caramel.release.pin import compute_dvc_hash
from caramel.runtime.dvc import remote
from caramel.runtime.dvc.remote import open_cache

FILES = 120  # of an output: enough for a push to be killed between two of them
STAGES = """
stages:
  make:
    cmd: python make.py
    deps: [make.py]
    outs: [data/many, data/one.txt]
"""
MAKE = f"""
import pathlib
assert not pathlib.Path("forbidden").exists(), "it was run again"
pathlib.Path("data/many").mkdir(parents=True)
for n in range({FILES}):
    pathlib.Path(f"data/many/{{n}}.txt").write_text(f"file {{n}}" * 100)
pathlib.Path("data/one.txt").write_text("one")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, s3: Any) -> Path:
    """A project with a remote that holds nothing yet."""
    root = tmp_path_factory.mktemp("made")
    for name, text in {"make.py": MAKE, "dvc.yaml": STAGES, ".gitignore": "/data/\n/forbidden\n"}.items():
        (root / name).write_text(text, encoding="utf-8")
    run("git", "init", "-q", root=root)
    dvc("init", "-q", root=root)
    dvc("repro", "-q", root=root)
    run("git", "add", "-A", root=root)
    run("git", "commit", "-qm", "data", root=root)
    return with_remote(root, s3, "made")


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3: Any) -> Any:
    """Become a user of the server."""

    def become(keys: Any) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in keys.items():
            monkeypatch.setenv(name, value)

    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):  # none of this machine's
        (tmp_path / name).touch()
        monkeypatch.setenv(name, str(tmp_path / name))
    become(s3.writer)
    return become


def test_a_push_that_was_killed_goes_on_and_the_doctor_says_what_is_missing(
    made: Path, s3: Any, user: Any
) -> None:
    command = [sys.executable, "-m", "dvc", "push", "-q", "-j", "1", "--run-cache"]
    push = subprocess.Popen(command, cwd=made, env={**os.environ, **QUIET}, start_new_session=True)
    while push.poll() is None and len(in_bucket(s3, "made")) < 5:
        time.sleep(0.02)
    os.killpg(push.pid, signal.SIGKILL)
    push.wait()
    sent = in_bucket(s3, "made")
    assert 5 <= len(sent) < FILES
    *_, last = examine_remotes(made)
    assert last.state == FAIL
    assert f"{FILES + 2 - len(sent)} of {FILES + 2} objects that dvc.lock needs are missing" in last.text
    assert "data/many/" in last.text
    before = {key: s3.client().head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in sent.values()}
    dvc("push", "-q", "--run-cache", root=made)
    assert len(in_bucket(s3, "made")) == FILES + 2
    assert all(
        s3.client().head_object(Bucket=BUCKET, Key=key)["LastModified"] == t for key, t in before.items()
    )
    assert [f.state for f in examine_remotes(made)] == [OK, OK, OK]


def test_a_fresh_clone_rebuilds_nothing(made: Path, tmp_path: Path, s3: Any, user: Any) -> None:
    root = clone(made, tmp_path / "clone")
    (root / "forbidden").touch()
    assert [f.state for f in examine_remotes(root)] == [OK, OK, OK], "without data of its own"
    said = dvc("repro", "--pull", "--allow-missing", root=root).stdout
    assert "didn't change, skipping" in said
    (root / "dvc.lock").unlink()
    dvc("repro", "--pull", "-q", root=root)
    assert run("git", "status", "--porcelain", root=root).stdout == ""
    assert len(list((root / "data" / "many").iterdir())) == FILES


def test_what_is_wrong_in_a_remote_is_named_not_pulled_and_sent_again(
    made: Path, tmp_path: Path, s3: Any, user: Any
) -> None:
    there = in_bucket(s3, "made")
    flipped, gone = sorted(oid for oid in there if not oid.endswith(".dir"))[:2]
    spoil(s3, there[flipped])
    s3.client().delete_object(Bucket=BUCKET, Key=there[gone])
    assert "Everything is up to date" in dvc("push", root=made).stdout, (
        "DVC sends neither: mend_remotes is needed"
    )
    *_, last = examine_remotes(made)
    assert last.state == FAIL
    assert f"1 of {FILES + 2} objects that dvc.lock needs are missing" in last.text
    assert f"1 of {FILES + 2} objects that dvc.lock needs are damaged" in last.text
    assert flipped in last.text
    assert gone in last.text
    root = clone(made, tmp_path / "clone")
    done = dvc("pull", root=root, check=False)
    assert done.returncode, "verify: true is committed"
    assert list(fix_remotes(made)) == ["remote store: 2 objects were uploaded"]
    assert [f.state for f in examine_remotes(made)] == [OK, OK, OK]
    dvc("pull", "-q", root=root)


def test_a_store_in_which_all_is_damaged_is_not_taken_for_one_that_encrypts(
    made: Path, s3: Any, user: Any
) -> None:
    for key in in_bucket(s3, "made").values():
        spoil(s3, key)
    *_, last = examine_remotes(made)
    assert f"{FILES + 2} of {FILES + 2} objects that dvc.lock needs are damaged" in last.text
    assert list(fix_remotes(made)) == [f"remote store: {FILES + 2} objects were uploaded"]
    assert [f.state for f in examine_remotes(made)] == [OK, OK, OK]


def test_rights_and_addresses_that_do_not_do_are_told_apart(
    made: Path, tmp_path: Path, s3: Any, user: Any
) -> None:
    user(s3.reader)
    reached, written, _ = examine_remotes(made)
    assert (reached.state, written.state) == (OK, WARN)
    assert "readable, but not writable" in written.text
    user({})
    (found,) = examine_remotes(made)
    assert (found.state, "needs credentials" in found.text) == (FAIL, True)
    user({"AWS_ACCESS_KEY_ID": "unknown", "AWS_SECRET_ACCESS_KEY": "x"})
    (found,) = examine_remotes(made)
    assert (found.state, "refuses these credentials" in found.text) == (FAIL, True)
    user(s3.writer)
    root = clone(made, tmp_path / "clone")
    config = root / ".dvc" / "config"
    text = config.read_text(encoding="utf-8")
    for old, new, said in (
        (str(s3.port), str(free_port()), "cannot be reached"),
        (f"s3://{BUCKET}", "s3://no-such-bucket", "no-such-bucket"),
        ("s3://", "nonsense://", "nonsense"),
    ):
        config.write_text(text.replace(old, new), encoding="utf-8")
        *_, found = examine_remotes(root)
        assert (found.state, said in found.text) == (FAIL, True), found
    for address, said in (
        (f"https://me:secret@127.0.0.1:{free_port()}/x", "cannot be reached"),
        ("http://me:secret@h:abc/x", "has an invalid address: Port could not be cast"),
        ("remote://r/x", "has an address that refers to itself"),
        ("azure://x", "requires 'dvc-azure' to be installed. See docs/remote.md"),
    ):
        config.write_text(f"['remote \"r\"']\n    url = {address}\n", encoding="utf-8")
        (found,) = examine_remotes(root)
        assert (found.state, said in found.text, "secret" in found.text) == (FAIL, True, False), found
    config.write_text("[core]\n", encoding="utf-8")
    (found,) = examine_remotes(root)
    assert (found.state, found.cure) == (FAIL, "dvc remote add -d NAME URL; see docs/remote.md")


def test_without_verify_dvc_pulls_what_a_remote_flipped_and_calls_it_fine(
    made: Path, tmp_path: Path, s3: Any, user: Any
) -> None:
    there = in_bucket(s3, "made")
    flipped = min(oid for oid in there if not oid.endswith(".dir"))
    spoil(s3, there[flipped])
    root = clone(made, tmp_path / "clone")
    config = root / ".dvc" / "config"
    config.write_text(config.read_text(encoding="utf-8").replace("verify = true", "verify = false"))
    dvc("pull", "-q", root=root)
    spoil(s3, there[flipped])  # the same bit: it is whole again
    hashes = {compute_dvc_hash(path) for path in (root / "data").rglob("*.txt")}
    assert len(hashes) == FILES + 1
    assert flipped not in hashes
    assert "up to date" in dvc("status", root=root).stdout


def test_after_an_edit_what_the_stages_to_run_need_is_fetched_and_nothing_else(tmp_path: Path) -> None:
    made, store = tmp_path / "made", tmp_path / "store"
    store.mkdir()
    made.mkdir()
    stages = {
        "a": {"cmd": "echo one > data/a.txt", "outs": ["data/a.txt"]},
        "b": {
            "cmd": "cat use.txt data/a.txt > data/b.txt",
            "deps": ["use.txt", "data/a.txt"],
            "outs": ["data/b.txt"],
        },
        "c": {"cmd": "echo three > data/c.txt", "outs": ["data/c.txt"]},
    }
    (made / "dvc.yaml").write_text(json.dumps({"stages": stages}))
    (made / "use.txt").write_text("before\n")
    (made / ".gitignore").write_text("/data/*.txt\n")
    (made / "data").mkdir()
    (made / "data" / ".gitkeep").touch()
    run("git", "init", "-q", root=made)
    dvc("init", "-q", root=made)
    dvc("remote", "add", "-d", "store", str(store), root=made)
    dvc("repro", "-q", root=made)
    dvc("push", "-q", root=made)
    run("git", "add", "-A", root=made)
    run("git", "commit", "-qm", "data", root=made)
    root = clone(made, tmp_path / "clone")
    (root / "use.txt").write_text("after\n")
    dvc("repro", "--pull", "--allow-missing", "-q", root=root)
    assert (root / "data" / "b.txt").read_text() == "after\none\n"
    assert not (root / "data" / "c.txt").exists()


def test_a_server_that_accepts_no_connection_is_told_soon(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PATIENCE", 0.5)
    root = clone(made, tmp_path / "clone")
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as clients:
        for _ in range(4):  # more than it will let wait
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        (root / ".dvc" / "config").write_text(
            f"['remote \"r\"']\n    url = s3://{BUCKET}/x\n    endpointurl = {address}\n"
        )
        (found,) = examine_remotes(root)
    assert (found.state, "cannot be reached" in found.text) == (FAIL, True), found


def test_a_folder_is_a_remote_too(made: Path, tmp_path: Path) -> None:
    root = clone(made, tmp_path / "clone")
    text = (root / ".dvc" / "config").read_text(encoding="utf-8")
    text = text.replace(f"s3://{BUCKET}/made", str(tmp_path / "store"))
    lines = [line for line in text.splitlines() if "endpointurl" not in line]
    (root / ".dvc" / "config").write_text("\n".join(lines), encoding="utf-8")
    dvc("repro", "-q", root=root)
    assert [f.state for f in examine_remotes(root)] == [WARN, FAIL], "it may be a disk that is not mounted"
    assert list(fix_remotes(root)) == []
    assert not (tmp_path / "store").exists()
    (tmp_path / "store").mkdir()
    *_, last = examine_remotes(root)
    assert f"{FILES + 2} of {FILES + 2} objects that dvc.lock needs are missing" in last.text
    dvc("push", "-q", root=root)
    assert [f.state for f in examine_remotes(root)] == [OK, OK, OK]
    assert [*(tmp_path / "store").rglob("caramel-doctor-*")] == [], "nothing of the look is left"
    cut = next(p for p in (tmp_path / "store").rglob("*") if p.is_file() and p.stat().st_size > 100)
    cut.chmod(0o644)
    cut.write_bytes(b"cut")
    assert "damaged" in [*examine_remotes(root)][-1].text
    assert list(fix_remotes(root)) == ["remote store: 1 objects were uploaded"]
    assert [f.state for f in examine_remotes(root)] == [OK, OK, OK]


def test_a_store_that_encrypts_with_keys_of_its_own_tells_no_md5_and_none_counts(tmp_path: Path) -> None:
    wanted, mine = {"0" * 32: "data/a", "1" * 32: "data/b"}, open_cache(tmp_path)
    store = open_cache(tmp_path / "store")
    for oid in wanted:
        path = Path(store.get_object_path(oid))
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")

    def find_wrong(*tags: str) -> list[str]:
        there = {oid: {"ETag": tag, "size": 1} for oid, tag in zip(wanted, tags, strict=True)}
        return find_wrong_objects(store, wanted, there, mine)

    assert find_wrong(f'"{"2" * 32}"', f'"{"3" * 32}"') == []
    assert find_wrong(f'"{"0" * 32}"', f'"{"3" * 32}"') == ["1" * 32]
    assert find_wrong(f'"{"0" * 32}"', f'"{"3" * 32}-2"') == [], "sent in two pieces"
