"""A cluster on this machine is private; when its own processes die, the run ends and says so."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from caramel.errors import CaramelError, ConfigError, ResourceError
from caramel.io.files import load_hashed
from caramel.runtime.ray import cluster
from caramel.runtime.ray.cluster import guard_token
from caramel.runtime.ray.sharded_map import map_shards
from caramel.runtime.ray.trials import tune_grid

NOISE = 8  # lines that may stand before the message
TUNE = re.compile(
    r"== |[|+]|(Current time|Using|Logical|Result|Number of|More|Trial|\.\.\.)\b|\s*$"
)  # its report


def slow_shard(shard: int, *, seconds: float) -> pa.Table:
    time.sleep(seconds if shard else 0)
    return pa.table({"x": [shard]})


def slow_trial(point: dict[str, int], scratch: str, *, seconds: float) -> dict[str, int]:
    time.sleep(seconds if point["n"] else 0)
    return point


def drive(kind: str, folder: str, executor: str = "ray") -> None:
    """Run four shards or trials, on a cluster of its own; the first of them ends at once."""
    from caramel.runtime.environment import be_quiet

    be_quiet()
    how = {"settings": {"seconds": 2.0}, "folder": folder, "executor": executor, "title": "test"}
    try:
        if kind == "shards":
            map_shards(slow_shard, list(range(4)), **how)  # type: ignore[arg-type]
        else:
            tune_grid(slow_trial, [{"n": n} for n in range(4)], **how)  # type: ignore[arg-type]
    except CaramelError as error:
        sys.exit(f"Error: {error}")


def start(kind: str, folder: Path, home: Path, **settings: str) -> subprocess.Popen[str]:
    """Start ``drive`` in a process of its own, with further settings of Ray."""
    here = str(Path(__file__).parent)
    environment = {
        **os.environ,
        "HOME": str(home),
        "RAY_ADDRESS": "local",
        **settings,
        "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, "-c", f"import test_ray_cluster; test_ray_cluster.drive({kind!r}, {str(folder)!r})"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kept_files(kind: str, folder: Path) -> list[Path]:
    return [*load_hashed(folder, ".parquet" if kind == "shards" else ".json").values()]


def done(kind: str, folder: Path) -> int:
    return len(kept_files(kind, folder))


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it may end while it is looked at
        return ""


def wait_for_one(kind: str, folder: Path, process: subprocess.Popen[str]) -> None:
    while not done(kind, folder):
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.1)


@contextmanager
def at_work_on(kind: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """Yield a started ``drive`` that has finished one of its parts, and all that it started; end them all after the block."""
    process = start(kind, folder / "work", folder)
    family: list[psutil.Process] = []
    try:
        wait_for_one(kind, folder / "work", process)
        family = psutil.Process(process.pid).children(recursive=True)
        yield process, family
    finally:
        for member in [process, *family]:  # Ray's agents stay for a while
            with suppress(psutil.NoSuchProcess):
                member.kill()


def wait_for_raylet(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the raylet as soon as it is there, which is before Ray has started."""
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            for member in psutil.Process(process.pid).children(recursive=True):
                if member.name() == "raylet":
                    return member
        time.sleep(0.01)
    raise AssertionError(process.stdout and process.stdout.read())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["shards", "trials"])
def test_a_killed_raylet_ends_the_run_with_what_to_do_and_what_was_finished_is_kept(
    tmp_path: Path, kind: str
) -> None:
    with at_work_on(kind, tmp_path) as (process, family):
        next(member for member in family if member.name() == "raylet").kill()
        said, _ = process.communicate(timeout=500)
    assert process.returncode == 1, said
    assert "Ray's process 'raylet' on this machine was killed" in said
    assert "Traceback" not in said
    assert len([line for line in said.partition("Error: ")[0].splitlines() if not TUNE.match(line)]) <= NOISE
    assert 1 <= done(kind, tmp_path / "work") < 4


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["shards", "trials"])
def test_workers_end_with_a_driver_that_is_killed_alone_and_the_next_run_goes_on(
    tmp_path: Path, kind: str
) -> None:
    with at_work_on(kind, tmp_path) as (process, _):
        at_work: list[psutil.Process] = []
        while not at_work:  # none is for a moment, when one part has ended and the next has not begun
            assert process.poll() is None
            members = psutil.Process(process.pid).children(recursive=True)
            at_work = [each for each in members if "ShardWorker.run" in title(each) or "train" in title(each)]
        process.kill()
        process.wait()
        assert not psutil.wait_procs(at_work, timeout=300)[1], "still at work"
    before = {path: path.stat().st_mtime_ns for path in kept_files(kind, tmp_path / "work")}
    assert 1 <= len(before) < 4
    drive(kind, str(tmp_path / "work"), executor="inline")
    assert len(kept_files(kind, tmp_path / "work")) == 4
    assert all(path.stat().st_mtime_ns == then for path, then in before.items()), "computed again"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_raylet_that_ends_while_ray_starts_is_started_again_and_the_run_goes_on(tmp_path: Path) -> None:
    process = start("trials", tmp_path / "work", tmp_path)
    try:
        first = wait_for_raylet(process)
        first.kill()
        said, _ = process.communicate()
    finally:
        process.kill()
    if process.returncode == 0:
        assert "Ray did not start within 30 s: its raylet has ended." in said
        assert "(try 2 of 4)" in said
        assert done("trials", tmp_path / "work") == 4
    else:  # it was killed after Ray had started
        assert "Ray's process 'raylet'" in said
    assert "Traceback" not in said
    assert not psutil.pid_exists(first.pid)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_volume_that_fills_while_a_grid_runs_is_named_and_tune_adds_no_traceback(
    tmp_path: Path, mount: Callable[..., Path]
) -> None:
    place = mount(tmp_path / "work", 32)
    process = start("trials", place, tmp_path)
    try:
        wait_for_one("trials", place, process)
        with suppress(OSError), (place / "others").open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        said, _ = process.communicate(timeout=500)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert f"its volume {place} has 0 MiB free" in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_rays_memory_monitor_ends_is_not_retried_without_end(tmp_path: Path) -> None:
    always = {
        "RAY_memory_usage_threshold": "0.01",  # of the memory: whatever runs is too much
        "RAY_memory_monitor_refresh_ms": "100",
        "RAY_task_oom_retry_delay_base_ms": "100",
    }
    process = start("shards", tmp_path / "work", tmp_path, **always)
    try:
        said, _ = process.communicate(timeout=500)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert "died (OutOfMemoryError), after 3 retries" in said


def session_of(raylet: psutil.Process) -> Path:
    """Return the session's folder that a raylet was started with."""
    (folder,) = (word.partition("=")[2] for word in raylet.cmdline() if word.startswith("--session_dir="))
    return Path(folder)


@pytest.mark.slow
def test_a_cluster_on_this_machine_listens_on_loopback_alone_and_its_token_and_files_are_private(
    tmp_path: Path,
) -> None:
    root = Path(tempfile.mkdtemp(prefix="t"))  # short: the sockets lie in it
    root.chmod(0o755)
    process = start("shards", tmp_path / "work", tmp_path, RAY_TMPDIR=str(root))
    try:
        wait_for_one("shards", tmp_path / "work", process)
        members = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        places = {
            connection.laddr.ip
            for member in members
            for connection in member.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert places <= {"127.0.0.1", "::ffff:127.0.0.1"}
        assert len(places) > 0
        private = root / f"caramel-{os.geteuid()}"
        raylet = next(member for member in members if member.name() == "raylet")
        session = session_of(raylet)
        assert session.parent.parent == private
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert [path for path in root.iterdir() if path != private] == []
        if os.geteuid() == 0:
            for path in (session, session / "logs", session / "sockets" / "raylet"):
                looked = subprocess.run(["ls", path], user=65534, group=65534, extra_groups=[], check=False)
                assert looked.returncode != 0
        assert process.wait() == 0
        assert [path for path in private.iterdir() if path.is_dir()] == []
    finally:
        process.kill()
        shutil.rmtree(root)
    assert stat.S_IMODE((tmp_path / ".ray" / "auth_token").stat().st_mode) == 0o600


@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "ray://127.0.0.1:1", "127.0.0.1:99999999"])
def test_a_cluster_that_cannot_be_reached_is_named_with_what_to_do(monkeypatch, address: str) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(
        ResourceError, match=f"RAY_ADDRESS='{address}' cannot be joined: .*`unset RAY_ADDRESS`"
    ):
        cluster._join_cluster(address)


def test_a_cluster_that_is_gone_or_has_another_token_is_an_error_with_what_to_do(monkeypatch) -> None:
    import ray  # here: caramel sets what Ray reads when it is imported, also in the processes that import this file
    from ray.exceptions import AuthenticationError

    monkeypatch.setattr(cluster, "find_connection_problem", lambda address: None)
    for error in (ConnectionError("Failed to connect to Ray cluster"), AuthenticationError("no token")):

        def refuse(error: Exception = error, **how: object) -> None:
            raise error

        monkeypatch.setattr(ray, "init", refuse)
        with pytest.raises(ResourceError, match=f"cannot be joined: {str(error)[:8]}.*auth_token"):
            cluster._join_cluster("127.0.0.1:6379")


@pytest.mark.parametrize("address", [None, "local"])
def test_a_cluster_that_runs_on_this_machine_and_is_not_named_is_let_be(monkeypatch, address) -> None:
    """Its processes have the folder in which it was started, and would take relative paths as that folder's."""
    import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    started: list[dict[str, object]] = []
    monkeypatch.setattr(ray, "init", lambda **how: started.append(how))
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # other tests of this process may have a cluster
    with cluster._open_cluster():
        pass
    assert [how["address"] for how in started] == ["local"]


def test_ray_is_started_once_for_all_sessions_of_a_block_and_stopped_at_its_end(monkeypatch) -> None:
    import ray

    calls: list[str] = []
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setattr(cluster, "guard_token", lambda make: None)

    @contextmanager
    def joined() -> Iterator[None]:
        calls.append("start")
        try:
            yield
        finally:
            calls.append("stop")

    monkeypatch.setattr(cluster, "_open_cluster", joined)
    monkeypatch.setattr(cluster, "build_session_check", lambda: lambda: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: calls[-1:] == ["start"])

    def sessions() -> None:
        for _ in range(2):
            with cluster.open_ray_session():
                pass

    sessions()
    assert calls == ["start", "stop", "start", "stop"]
    calls.clear()
    with suppress(ResourceError), cluster.share_session():
        sessions()
        assert calls == ["start"]
        raise ResourceError("of the stage")
    assert calls == ["start", "stop"]
    with cluster.share_session():
        pass
    assert calls == ["start", "stop"], "a stage without Ray starts none"


def test_no_address_and_local_are_this_machine(monkeypatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster.get_cluster_address() == ""
    for address, named in {"": "", "local": "", "head:6379": "head:6379"}.items():
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert cluster.get_cluster_address() == named


@pytest.mark.parametrize("address", ["", ":6379", "host", "host:", "host:0", "host:70000", "host:-1", "host:６３７９", "é:", "a:b:c"])  # fmt: skip
def test_an_address_that_is_no_host_and_port_is_named(address: str) -> None:
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        cluster.parse_address(address)
    assert cluster.find_connection_problem(address) == "it is not HOST:PORT"


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_a_server_that_is_no_ray_is_named_and_not_asked_for_minutes(monkeypatch, says: bytes) -> None:
    monkeypatch.setattr(cluster, "ANSWER", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection, _ = server.accept()
            with connection, suppress(ConnectionError):  # the other side closes
                connection.sendall(says)
                connection.recv(1 << 16)
                connection.recv(1)

        answering = threading.Thread(target=answer)
        answering.start()
        assert cluster.find_connection_problem(client) == "what answers is no head of Ray"
        answering.join()


def test_an_address_is_host_and_port() -> None:
    assert cluster.parse_address("10.0.0.1:6379") == ("10.0.0.1", 6379)
    assert cluster.parse_address("ray://[fd00::1]:10001") == ("fd00::1", 10001)
    assert cluster.find_connection_problem(f"{'é' * 80}:1") is not None, "a name that no host can have"


def test_a_named_token_that_others_can_read_is_made_private(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    path = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    guard_token(make=True)
    assert not path.exists(), "who names a file makes it"
    path.write_text("0" * 64)
    path.chmod(0o644)
    guard_token(make=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def refuse(*of: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    path.chmod(0o640)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(ConfigError, match=r"Others can read the token .* \(mode 0640\)"):
        guard_token(make=False)


def test_a_token_that_others_can_read_is_made_private_and_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    path = tmp_path / ".ray" / "auth_token"
    guard_token(make=False)
    assert not path.exists()
    guard_token(make=True)
    first = path.read_text()
    assert len(first) == 64
    path.chmod(0o644)
    guard_token(make=True)
    assert path.read_text() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_home_that_cannot_be_written_is_an_error_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ResourceError, match=r"auth_token': Not a directory\. Set HOME to a folder"):
        guard_token(make=True)
