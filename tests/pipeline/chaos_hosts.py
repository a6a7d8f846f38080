"""Strike a cluster at random moments while stages work on it, and see that they heal or say what to do: `make chaos-hosts`.

Three hosts share no disk (tests/support/hosts.py): the first has the project, drives, and serves MLflow; the others work, a
processor each. An event is one stage of the smoke profile that runs anew, and one fault at a moment drawn from the seed:

    kill    a host that works ends at once; another takes its place after the event
    cut     its network is cut for five seconds
    gone    its network is cut for forty: it is given up, and comes back by itself
    late    it ends before the stage begins, and joins while it works
    server  MLflow's server is killed and started again after five seconds

The stage must end well, or with one message and no traceback and then well when it is run again; what it made must be equal
to what one machine makes, byte for byte. Needs root. An event takes one to three minutes on two cores.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from hosts import PORT, Host, Hosts, cluster, join, wait_for, wait_for_port
from project import Project

STAGES = ("refine", "synthesize", "finetune", "evaluate")
FAULTS = ("kill", "cut", "gone", "late", "server")
LIMIT = 900.0  # seconds in which a stage that was struck must end
SERVER = f"http://10.83.0.1:{PORT + 1000}"
HOW = {"RAY_ADDRESS": f"10.83.0.1:{PORT}", "CARAMEL_TRACKING_URI": SERVER}


def copied(project: Project, host: Host) -> None:
    """Copy a project to a host's own disk."""
    parts = f"tar -c -C {project.folder} --exclude=./work --exclude=./mlruns . | tar -x"
    host.run(["sh", "-c", parts])


def serve(host: Host) -> None:
    """Start MLflow's server on a host; it says a line for each request, which nobody reads."""
    options = f"--host {host.address} --port {PORT + 1000} --workers 1 --allowed-hosts '*'"
    command = f"exec mlflow server {options} --backend-store-uri sqlite:///runs.db >>mlflow.log 2>&1"
    host.start(["sh", "-c", command], MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
    wait_for_port(host, PORT + 1000)


def outs(lock: str, names: tuple[str, ...] = STAGES) -> dict[str, str]:
    """Return path -> hash of what stages made, from the text of a ``dvc.lock``."""
    stages = yaml.safe_load(lock)["stages"]
    return {out["path"]: out["md5"] for name in names for out in stages[name]["outs"]}


def made(folder: Path) -> Project:
    """Return a copy of the repository in which the smoke profile was run."""
    project = Project.create(folder)
    project.run("caramel", "config", "use", "smoke")
    project.run("dvc", "repro")
    return project


class Events:
    """Hosts, and what befalls them."""

    def __init__(self, found: Hosts, expected: dict[str, str], rng: random.Random) -> None:
        self.found, self.expected, self.rng = found, expected, rng
        self.lost = 0  # nodes that the cluster knows to be gone
        self.seconds: dict[str, float] = {}  # of each stage, undisturbed

    def start(self, stage: str) -> subprocess.Popen[str]:
        """Start a stage anew."""
        self.found[0].run(["rm", "-rf", "work"])
        return self.found[0].start(["dvc", "repro", "-f", "-s", stage], **HOW)

    def undisturbed(self, stage: str) -> None:
        """Run a stage, and know how long it takes."""
        began = time.monotonic()
        said, _ = (process := self.start(stage)).communicate(timeout=LIMIT)
        assert process.returncode == 0, said
        self.seconds[stage] = time.monotonic() - began
        wrong = self.verdict(stage, said)
        print(f"{stage:11} {'undisturbed':8} {self.seconds[stage]:6.0f} s  {wrong}", flush=True)
        assert wrong == "equal"

    def strike(self, stage: str, fault: str) -> str:
        """Run a stage, strike it, print what came of it, and return what is wrong with that."""
        host = self.rng.choice((1, 2))
        delay = self.rng.uniform(0.2, 0.8) * self.seconds[stage]
        relieve = self.before(host) if fault == "late" else lambda: None
        began = time.monotonic()
        process = self.start(stage)
        time.sleep(delay)
        relieve = getattr(self, fault)(host) or relieve
        said, _ = process.communicate(timeout=LIMIT)
        relieve()
        took, seen = time.monotonic() - began, "healed"
        if process.returncode:
            seen = next((line for line in said.splitlines() if line.startswith("Error: ")), "no message")
            said += self.found[0].run(["dvc", "repro", "-s", stage], timeout=LIMIT, **HOW)
        wrong = self.verdict(stage, said)
        print(
            f"{stage:11} {fault:8} host {host} after {delay:4.0f} s  {took:6.0f} s  {seen}  {wrong}",
            flush=True,
        )
        return "" if wrong == "equal" else wrong

    def verdict(self, stage: str, said: str) -> str:
        """Return ``equal``, or what is wrong."""
        if "Traceback" in said or ("failed to reproduce" in said and "Error: " not in said):
            return f"a traceback, or no message:\n{said}"
        got = outs(self.found[0].run(["cat", "dvc.lock"]), (stage,))
        return (
            ", ".join(f"NOT EQUAL: {path}" for path, md5 in got.items() if self.expected[path] != md5)
            or "equal"
        )

    def kill(self, host: int) -> Callable[[], None]:
        """End a host; another takes its place afterwards."""
        self.found[host].kill()
        return lambda: self.back(host)

    def back(self, host: int) -> None:
        """Put a new host in a place that is empty."""
        self.found.add(host)
        join(self.found[host])
        self.lost += 1
        wait_for(self.found, 3, gone=self.lost)

    def before(self, host: int) -> Callable[[], None]:
        """End a host before a stage begins."""
        self.found[host].kill()
        self.lost += 1
        wait_for(self.found, 2, gone=self.lost)
        return lambda: wait_for(self.found, 3, gone=self.lost)

    def late(self, host: int) -> None:
        """Let a new host join while the stage works."""
        self.found.add(host)
        join(self.found[host])

    def cut(self, host: int, seconds: float = 5.0) -> Callable[[], None]:
        """Cut a host's network for some seconds."""
        self.found.cut(host)
        time.sleep(seconds)
        self.found.mend(host)
        return lambda: wait_for(self.found, 3, gone=self.lost)

    def gone(self, host: int) -> Callable[[], None]:
        """Cut a host's network until it is given up."""
        self.lost += 1
        return self.cut(host, 40.0)

    def server(self, host: int) -> None:
        """Kill MLflow's server, and start it again."""
        self.found[0].run(["pkill", "-9", "-f", "[m]lflow.server"])
        time.sleep(5)
        serve(self.found[0])


@click.command(help=__doc__)
@click.option("--events", default=10, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--only",
    "faults",
    type=click.Choice(FAULTS),
    multiple=True,
    help="Strike with this fault alone; repeatable.",
)
def main(*, events: int, seed: int, faults: tuple[str, ...]) -> None:
    """Play the events."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        project = made(Path(folder))
        expected = outs((project.folder / "dvc.lock").read_text())
        with cluster(3, cpus={0: 0}) as found:
            copied(project, found[0])
            serve(found[0])
            play = Events(found, expected, rng)
            for stage in STAGES:
                play.undisturbed(stage)
            order = [(faults or FAULTS)[n % len(faults or FAULTS)] for n in range(events)]
            wrong = [play.strike(rng.choice(STAGES), fault) for fault in order]
    if any(wrong):
        sys.exit(f"{sum(map(bool, wrong))} of {events} events went wrong.")
    print(f"All {events} events ended as they should.")


if __name__ == "__main__":
    main()
