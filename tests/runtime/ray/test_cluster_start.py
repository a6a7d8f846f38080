from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from caramel.errors import ConfigError, ResourceError
from caramel.runtime.ray import cluster_start
from caramel.runtime.ray.cluster_start import start_head, start_worker

NONE: dict[str, int | None] = {"num_cpus": None, "num_gpus": 2}


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what ``ray start`` was called with, of a ``ray`` that says ``says`` and ends."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(cluster_start.signal, "signal", lambda *of: None)
    called = tmp_path / "called"
    ray = tmp_path / "bin" / "ray"
    ray.parent.mkdir()
    ray.write_text(
        f'#!/bin/sh\necho "$RAY_health_check_timeout_ms $RAY_raylet_start_wait_time_s $@" >> {called}\ncat {tmp_path}/says\nexit 1\n'
    )
    ray.chmod(0o755)
    return called


def test_ray_that_does_not_start_is_one_message(ray: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "says").write_text("Version mismatch\n")
    with pytest.raises(ResourceError, match=r"did not start on this machine \(code 1\): Version mismatch"):
        start_head(None, 6379, NONE)
    assert "Version mismatch" in capsys.readouterr().out
    assert len(ray.read_text().splitlines()) == 1, "another try would change nothing"
    called = ray.read_text().split()
    assert called[0] == "4000", "how soon a node is given up"
    assert {
        "--head",
        "--port=6379",
        "--node-manager-port=6380",
        "--min-worker-port=6384",
        "--num-gpus=2",
    } <= {*called}
    assert not any(word.startswith("--num-cpus") for word in called)
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o077 == 0


def test_ray_that_ends_later_is_started_again(ray: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "says").write_text("INFO -- Ray runtime started.\n")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cluster_start.time, "sleep", pause)
    with pytest.raises(KeyboardInterrupt):
        start_head("127.0.0.1", 6379, NONE)
    lines = ray.read_text().splitlines()
    assert len(lines) == 3
    assert all("--node-ip-address=127.0.0.1" in line for line in lines)


def test_ray_that_times_out_is_started_again_with_a_longer_wait_in_an_empty_folder_and_without_a_traceback(
    ray: Path, tmp_path: Path, capsys
) -> None:
    said = ["Local node IP: 127.0.0.1", "Traceback (most recent call last):", "  File x", "Exception: The current node timed out during startup."]  # fmt: skip
    (tmp_path / "says").write_text("\n".join(said) + "\n")
    with pytest.raises(ResourceError, match=r"in 4 tries of up to 240 s: .*timed out during startup"):
        start_head(None, 6379, NONE)
    waits = [line.split()[1] for line in ray.read_text().splitlines()]
    assert waits == ["30", "60", "120", "240"]
    folders = {word.partition("=")[2] for word in ray.read_text().split() if word.startswith("--temp-dir=")}
    assert len(folders) == 1
    assert not Path(*folders).exists()
    assert f"/caramel-{os.geteuid()}/" in folders.pop()
    output = capsys.readouterr()
    assert output.out.count("Local node IP") == 4
    assert "Traceback" not in output.out + output.err
    assert "(try 4 of 4)" in output.err


@pytest.mark.parametrize("host", ["", "0.0.0.0", "203.0.113.7", "no-host.invalid", "é" * 80, "1.2.3.4.5"])
def test_a_host_that_is_no_address_of_this_machine_is_named(ray: Path, monkeypatch, host: str) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    with pytest.raises(ConfigError, match=r"--host .* is no address"):
        start_head(host, 6379, NONE)
    with pytest.raises(ConfigError, match=r"--host .* is no address"):
        start_worker("127.0.0.1:6379", host, NONE)
    assert not ray.exists()


def test_a_worker_without_the_clusters_secret_is_told_where_it_is(ray: Path) -> None:
    with pytest.raises(ConfigError, match=r"no ~/\.ray/auth_token on this machine\. Copy the head.s"):
        start_worker("127.0.0.1:1", None, NONE)
    assert not ray.exists()


def test_a_worker_whose_head_does_not_answer_says_so_before_ray_tries_for_minutes(
    ray: Path, monkeypatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    with pytest.raises(ResourceError, match=r"Nothing answers at .127\.0\.0\.1:1"):
        start_worker("127.0.0.1:1", None, NONE)
    for head in ("nonsense", "host:0", "host:70000", "host:text", ":6379", "é:é"):
        with pytest.raises(ConfigError, match=f"'{head}' is not HOST:PORT"):
            start_worker(head, None, NONE)
    assert not ray.exists()


def test_a_node_whose_workers_could_not_start_is_refused(ray: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my project/bin/python"))
    with pytest.raises(ConfigError, match=r"a shell, which splits the path '.*/my project/bin/python'"):
        start_head(None, 6379, NONE)
    assert not ray.exists()
