"""Start Ray's own processes on a machine of a cluster, and restart them when they end.

``ray start`` gets the options that caramel needs. Ports are fixed, because Ray listens on all interfaces: a
firewall can allow them for the machines of the cluster and for nobody else. A node that was cut off is given
up within half a minute. Its own Ray ends after a minute and is restarted here, so that the node returns by
itself.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from caramel.errors import ConfigError, ResourceError
from caramel.runtime.ray.cluster import UNSEEN, find_connection_problem, guard_token, parse_address
from caramel.runtime.ray.startup import (
    WAITS,
    SlowStartError,
    build_wait_variables,
    has_plain_python,
    is_slow_start,
    start_patiently,
)
from caramel.runtime.ray.temp_dirs import clear_session_folder, create_session_folder

WORKERS = 100  # ports for worker processes, from the fifth after the head's
# Seconds after which a node that does not answer is given up: 3 checks of 4 s, 2 s apart. Ray's own value: 64
# s.
HEALTH = {
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "3",
}
STARTED = "Ray runtime started"  # as `ray start` says it
TRACEBACK = "Traceback (most recent call last)"
ENDING = 30.0  # seconds that Ray may take to end
PAUSE = 5.0  # seconds before Ray is restarted
TOKEN = Path("~/.ray/auth_token")


def start_head(host: str | None, port: int, resources: Mapping[str, int | None]) -> None:
    """Run the head of a cluster until it is interrupted; see ``_keep_running``.

    Args:
        host: address of this machine that the others reach; None: the one that Ray finds.
        port: port of the head; the next four, and ``WORKERS`` after them, are used as well.
        resources: option of ``ray start`` -> value; None: Ray finds it.

    Raises:
        ConfigError: the host is not an address of this machine.
        ResourceError: Ray does not start.
    """
    if host is not None:
        require_own_address(host)
    guard_token(make=True)
    address = ["--head", f"--port={port}", "--include-dashboard=false"]
    _keep_running(
        [*address, *([f"--node-ip-address={host}"] if host else []), *_build_common_options(port, resources)],
        HEALTH,
    )


def start_worker(head: str, host: str | None, resources: Mapping[str, int | None]) -> None:
    """Run a node of the cluster with its head at HOST:PORT until it is interrupted; see ``_keep_running``.

    Raises:
        ConfigError: this machine has no token, or an address is invalid.
        ResourceError: nothing answers there, or Ray does not start.
    """
    head_host, port = parse_address(head)
    if host is not None:
        require_own_address(host)
    guard_token(make=False)
    if not (TOKEN.expanduser().exists() or {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {*os.environ}):
        raise ConfigError(
            f"There is no {TOKEN} on this machine. Copy the head's here: it is the cluster's secret."
        )
    if reason := find_connection_problem(head):
        raise ResourceError(
            f"Nothing answers at {head!r}: {reason}. Give HOST:PORT of the head, as `caramel cluster head` printed it. Is it "
            f"running, and does its firewall let this machine in?"
        )
    node_address = host or _find_own_address(head_host, port)
    _keep_running(
        [f"--address={head}", f"--node-ip-address={node_address}", *_build_common_options(port, resources)],
        {},
    )


def _build_common_options(port: int, resources: Mapping[str, int | None]) -> list[str]:
    """Return the options that all nodes share."""
    ports = ("node-manager", "object-manager", "runtime-env-agent")
    return [
        *(f"--{name}-port={port + number}" for number, name in enumerate(ports, 1)),
        f"--min-worker-port={port + 5}",
        f"--max-worker-port={port + 4 + WORKERS}",
        *(f"--{name.replace('_', '-')}={value}" for name, value in resources.items() if value is not None),
        "--disable-usage-stats",
        "--block",
    ]


def require_own_address(host: str) -> None:
    """Raise a ConfigError if nothing on this machine can listen at an address."""
    try:
        if not host or ip_address(socket.gethostbyname(host)).is_unspecified:
            raise ConfigError(
                f"--host {host!r} is no address that the others reach. Give one of this machine."
            )
        with socket.create_server((host, 0), family=socket.AF_INET):
            return
    except (OSError, ValueError) as error:  # ValueError: an invalid host name
        raise ConfigError(
            f"--host {host!r} is no address of this machine: {error}. `ip -brief address` lists them."
        ) from error


def _find_own_address(host: str, port: int) -> str:
    """Return the address of this machine on the route to another one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((host, port))  # a datagram socket: nothing is sent
        return str(way.getsockname()[0])


def _keep_running(options: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run ``ray start`` with these options repeatedly until it is interrupted.

    Its temporary files are in a private folder, which is emptied before each start and removed at the end.

    Raises:
        ConfigError: no worker could start with this Python.
        ResourceError: it does not start the first time.
    """
    if not has_plain_python():
        raise ConfigError(
            f"Ray would wait for workers that never start on this machine: they are started by a shell, which splits the "
            f"path {sys.executable!r} of Python. Make the environment in a folder without spaces and signs of the shell."
        )
    variables = {**UNSEEN, **environment, **os.environ, "PYTHONUNBUFFERED": "1"}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with create_session_folder() as folder:
        command = [str(Path(sys.executable).with_name("ray")), "start", *options, f"--temp-dir={folder}"]

        def start_ray(seconds: int) -> int:
            """Return the exit code of a Ray that has started and ended."""
            code, started, last = _run_ray(command, {**variables, **build_wait_variables(seconds)})
            if not started and is_slow_start(last):
                raise SlowStartError(last)
            if not started:
                raise ResourceError(
                    f"Ray did not start on this machine (code {code}): {last} Has it the cluster's token in {TOKEN}, "
                    f"the same versions of Python and Ray, and are the ports free?"
                )
            return code

        code = start_patiently(start_ray, partial(clear_session_folder, folder))
        while True:
            print(
                f"Ray ended on this machine (code {code}). It is started again in {PAUSE:g} s.",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(PAUSE)
            clear_session_folder(folder)
            code, _, _ = _run_ray(command, {**variables, **build_wait_variables(max(WAITS))})


def _run_ray(command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, bool, str]:
    """Run ``ray start``, print its output without tracebacks; return (code, whether it started, last line)."""
    started, quiet, last = False, False, ""
    with subprocess.Popen(
        command,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                quiet |= line.startswith(TRACEBACK)
                if not quiet:
                    print(line, end="", flush=True)
                started |= STARTED in line
                last = line.strip() or last
            return process.wait(), started, last
        except KeyboardInterrupt:
            process.terminate()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
