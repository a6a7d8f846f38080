"""Machines of a cluster on this one: network, mount and process namespaces that share no disk but what is installed.

Each host has an address of its own behind a switch, which is a namespace as well: nothing touches this machine's network. Its
folder, home, temporary files and shared memory are volumes of its own under the same names. Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PORT = 6379
START = 500.0  # seconds that Ray may take to start on a host, on a busy machine: all its tries
LIMIT = 900.0  # seconds that a command on a host may take
TOKEN = "0123456789abcdef" * 4
BIN = Path(shutil.which("caramel") or "caramel").parent


def missing() -> str:
    """Return why there can be no hosts here, empty where there can."""
    if os.geteuid():
        return "namespaces need root"
    tools = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if tools:
        return f"{', '.join(tools)}: not installed"
    tried = subprocess.run(
        ["unshare", "-n", "-m", "-p", "-f", "true"], capture_output=True, text=True, check=False
    )
    return tried.stderr.strip()


@dataclass
class Host:
    """A machine: the first process of its namespaces, with whose end all others end."""

    number: int
    place: Path  # of its own volume
    first: subprocess.Popen[bytes]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its address in the cluster."""
        return f"10.83.0.{self.number + 1}"

    def start(self, command: Sequence[str], **environment: str) -> subprocess.Popen[str]:
        """Start a command on the host; what it says comes by its standard output."""
        found = subprocess.Popen(
            [
                *_entering(_inner(self.first), "nmpu"),
                "sh",
                "-c",
                'cd "$0" && exec "$@"',
                str(self.place),
                *command,
            ],
            env={**self.environment(), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(found)
        return found

    def run(self, command: Sequence[str], *, timeout: float = LIMIT, **environment: str) -> str:
        """Run a command on the host and return what it says; it has to end well."""
        process = self.start(command, **environment)
        said, _ = process.communicate(timeout=timeout)
        assert process.returncode == 0, said
        return said

    def environment(self) -> dict[str, str]:
        """Return the variables of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = {name: str(self.place) for name in ("HOME", "TMPDIR", "RAY_TMPDIR")}
        path = os.pathsep.join([str(BIN), os.environ["PATH"]])
        sources = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        return {**kept, **own, "PATH": path, "PYTHONPATH": sources, "RAY_AUTH_MODE": "token"}

    def kill(self) -> None:
        """End all that runs on the host, at once."""
        os.kill(_inner(self.first), signal.SIGKILL)
        self.first.wait()
        for process in self.processes:
            process.communicate()


@dataclass
class Hosts:
    """Hosts 0 to n - 1, and the switch between them."""

    place: Path
    switch: subprocess.Popen[bytes]
    hosts: dict[int, Host] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Host:
        return self.hosts[number]

    def add(self, number: int) -> Host:
        """Start a host that has the cluster's token and nothing else."""
        host = self.hosts[number] = Host(number, self.place, _namespaces("nmp"))
        inside, switch = str(_inner(host.first)), str(_inner(self.switch))
        for options in (
            ["link", "add", f"h{number}", "type", "veth", "peer", "name", "eth0", "netns", inside],
            ["link", "set", f"h{number}", "master", "switch", "up"],
        ):
            _do([*_entering(int(switch), "n"), "ip", *options])
        for command in (
            ["mount", "-t", "tmpfs", "-o", "size=4g", "host", str(self.place)],
            ["mount", "-t", "tmpfs", "-o", "size=2g", "shm", "/dev/shm"],
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{host.address}/24", "dev", "eth0"],
            ["ip", "link", "set", "eth0", "up"],
            ["hostname", f"host{number}"],
        ):
            _do([*_entering(int(inside), "nmpu"), *command])
        secret = self.place / ".ray" / "auth_token"
        writing = 'umask 077; mkdir -p "$(dirname "$0")"; cat > "$0"'
        _do([*_entering(int(inside), "m"), "sh", "-c", writing, str(secret)], TOKEN)
        return host

    def cut(self, number: int) -> None:
        """Take the host's cable out of the switch."""
        _do([*_entering(_inner(self.switch), "n"), "ip", "link", "set", f"h{number}", "down"])

    def mend(self, number: int) -> None:
        """Put the cable back."""
        _do([*_entering(_inner(self.switch), "n"), "ip", "link", "set", f"h{number}", "up"])


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """Give hosts that have a network and a token and run nothing yet; they end with the block."""
    place = Path(tempfile.mkdtemp(prefix="h"))  # short: Ray's sockets lie below it
    switch = _namespaces("n")
    found = Hosts(place, switch)
    try:
        inside = _entering(_inner(switch), "n")
        _do([*inside, "ip", "link", "add", "switch", "type", "bridge"])
        _do([*inside, "ip", "link", "set", "switch", "up"])
        for number in range(count):
            found.add(number)
        yield found
    finally:
        for host in found.hosts.values():
            if host.first.poll() is None:
                host.kill()
        switch.kill()
        switch.wait()
        place.rmdir()


@contextmanager
def cluster(count: int, *, cpus: Mapping[int, int] | None = None) -> Iterator[Hosts]:
    """Give hosts that are a cluster, whose head is host 0."""
    with hosts(count) as found:
        for number in range(count):
            join(found[number], (cpus or {}).get(number, 1))
        wait_for(found, count)
        yield found


def join(host: Host, cpus: int = 1, **environment: str) -> subprocess.Popen[str]:
    """Start the host's part of the cluster."""
    what = ["head", "--host", host.address] if host.number == 0 else ["worker", f"10.83.0.1:{PORT}"]
    options = ["--num-cpus", str(cpus), "--object-store-memory", str(200 << 20)]
    process = host.start(["caramel", "cluster", *what, *options], **environment)
    if host.number == 0:
        wait_for_port(host)
    return process


def wait_for_port(host: Host, port: int = PORT) -> None:
    """Return when the head answers, or another server."""
    asking = f"import socket; socket.create_connection(('{host.address}', {port}), 1)"
    until = time.monotonic() + START
    while subprocess.run(
        [*_entering(_inner(host.first), "n"), "python3", "-c", asking], capture_output=True, check=False
    ).returncode:
        assert time.monotonic() < until, f"nothing answers at port {port}"
        time.sleep(0.5)


def wait_for(found: Hosts, alive: int, gone: int = 0) -> None:
    """Return when so many nodes of the cluster are alive, and at least so many are known to be gone."""
    asking = (
        "import ray, sys, time\n"
        f"ray.init(address='10.83.0.1:{PORT}', log_to_driver=False, logging_level='error')\n"
        f"end = time.monotonic() + {START}\n"
        "while time.monotonic() < end:\n"
        "    states = [node['Alive'] for node in ray.nodes()]\n"
        f"    if sum(states) == {alive} and len(states) - sum(states) >= {gone}: sys.exit()\n"
        "    time.sleep(0.5)\n"
        "sys.exit(f'nodes: {states}')"
    )
    found[0].run(["python", "-c", asking], timeout=2 * START)


def _namespaces(kinds: str) -> subprocess.Popen[bytes]:
    """Start a process that does nothing, in namespaces of its own."""
    options = [f"-{kind}" for kind in kinds]
    own = ["-u", "--mount-proc", "--propagation", "private"] if "m" in kinds else []
    process = subprocess.Popen(["unshare", *options, *own, "-f", "--kill-child", "sleep", "infinity"])
    until = time.monotonic() + START
    while not _children(process.pid) or Path(f"/proc/{_inner(process)}/comm").read_text() != "sleep\n":
        assert time.monotonic() < until
        assert process.poll() is None, "no namespaces"
        time.sleep(0.02)
    return process


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _inner(process: subprocess.Popen[bytes]) -> int:
    """Return the number of the process inside."""
    return int(_children(process.pid)[0])


def _entering(pid: int, kinds: str) -> list[str]:
    return ["nsenter", "-t", str(pid), *(f"-{kind}" for kind in kinds)]


def _do(command: Sequence[str], given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
