"""A finished project on small volumes of its own, and `dvc repro` in it, again and again.

The volumes are tmpfs mounts, so that they can be filled and made read-only for real. They are mounted
in a mount namespace that goes with its last process (``isolated``): nothing is left mounted.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from project import Project
from ruamel.yaml import YAML

from caramel.io.files import compute_file_hash
from caramel.runtime.dvc.state import read_lock

OF_DVC = re.compile(r"\.[\w-]{22}\.tmp")  # what DVC links, until it has its name
ELSEWHERE, RAN = "elsewhere", "ran"  # beside the project: what links lead to, and what planted programs make
BEHIND = "behind"  # and the folder that a link in DVC's cache leads to
# Its files; DVC would call two of them objects, and broken ones.
OF_OTHERS = ("notes.txt", "0" * 30, f"{'0' * 30}.dir")
MARK = "CARAMEL_SANDBOX"  # in the environment of every process of a sandbox
# Where each volume is mounted, and its size. Outer ones first.
VOLUMES = {
    "project": ("project", "1g"),
    "data": ("project/data", "512m"),
    "work": ("project/work", "512m"),
    "mlruns": ("project/mlruns", "256m"),
    "tmp": ("tmp", "512m"),
}
# What the Makefile exports.
MAKE = {"DVC_NO_ANALYTICS": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "RAY_USAGE_STATS_ENABLED": "0"}


def isolated() -> bool:
    """Return whether this process may mount; in a namespace of its own, which it enters on the first call."""
    if MARK in os.environ:
        return os.environ[MARK] == "mounts"
    able = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    os.environ[MARK] = "mounts" if able else "plain"
    if able:
        sys.stdout.flush()
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    return False


def mount(*words: str) -> bool:
    """Call ``mount`` and return whether it could."""
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0


def unmount(place: str) -> None:
    """Unmount what lies on top there; for good when nothing has a file of it open."""
    subprocess.run(["umount", "--lazy", place], check=True)


class Sandbox:
    """The folder ``root`` with the project's volumes and a volume for temporary files."""

    def __init__(self, root: Path, *, mounts: bool) -> None:
        self.root, self.mounts = root, mounts
        self.project = Project(root / "project")
        self.folder = self.project.folder
        self.project.environment |= MAKE | {
            MARK: str(root),
            "PYTHONPATH": str(self.folder / "src"),
            "TMPDIR": str(root / "tmp"),
            "RAY_TMPDIR": str(root / "tmp"),
            "DVC_SITE_CACHE_DIR": str(root / "dvc"),
        }
        self._attempts = 0

    def restore(self, base: Path) -> None:
        """Make the volumes anew, with the finished project ``base`` without scratch files and tracked runs."""
        self.remove()
        for place, size in VOLUMES.values():
            (self.root / place).mkdir(parents=True, exist_ok=True)
            if self.mounts and not mount(
                "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.root / place)
            ):
                raise AssertionError(f"{self.root / place} cannot be mounted")
        left_out = shutil.ignore_patterns("work", "tmp", "mlflow.db*", "artifacts", "runs.lock")
        shutil.copytree(base, self.folder, ignore=left_out, dirs_exist_ok=True, symlinks=True)

    def remove(self) -> None:
        """End what runs, unmount and remove."""
        end(self.processes())
        for place, _ in reversed(VOLUMES.values()):
            while self.mounts and os.path.ismount(self.root / place):
                unmount(str(self.root / place))
        shutil.rmtree(self.root, ignore_errors=True)

    def stages(self) -> dict[str, list[str]]:
        """Return the outputs of each stage of the graph, in order of the graph."""
        stages = YAML(typ="safe").load(self.folder / "dvc.yaml")["stages"]
        lists = {name: [*s["outs"], *s.get("metrics", ()), *s.get("plots", ())] for name, s in stages.items()}
        return {name: [str(out) for out in outs] for name, outs in lists.items()}

    def undo(self, names: set[str]) -> None:
        """Have the stages to be run again: without outputs, scratch files and entries in ``dvc.lock``."""
        lock, yaml = self.folder / "dvc.lock", YAML()
        recorded = yaml.load(lock)
        outputs = self.stages()
        for name in names:
            recorded["stages"].pop(name, None)
            for path in [*(self.folder / out for out in outputs[name]), self.folder / "work" / name]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        yaml.dump(recorded, lock)
        # DVC would take the outputs from its cache of earlier runs.
        for cached in list(files(self.folder / ".dvc" / "cache" / "runs")):
            if any(f"pipelines/{name}.py" in cached.read_text(errors="replace") for name in names):
                shutil.rmtree(cached.parent)

    def attempt(self, logs: Path) -> Attempt:
        """Start ``dvc repro``; what it says goes to a file of the folder ``logs``."""
        self._attempts += 1
        return Attempt(self.project, logs / f"{self._attempts:03}.log")

    def processes(self) -> list[psutil.Process]:
        """Return all that runs in the sandbox: by its environment, which Ray's workers overwrite, or its folder."""
        return [member for member in psutil.process_iter() if self._holds(member)]

    def drivers(self) -> list[psutil.Process]:
        """Return the stages that run, whoever started them."""
        found = []
        for member in self.processes():
            with suppress(psutil.Error):
                found += [member] if _script(member) else []
        return found

    def _holds(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            here = process.environ().get(MARK) == str(self.root)
            return running(process) and (here or Path(process.cwd()).is_relative_to(self.root))
        return False

    def outputs(self) -> dict[str, str]:
        """Return the hash of every file in ``data/``, but of those that a killed DVC left beside the outputs, which are in none."""
        data = self.folder / "data"
        stages = read_lock(self.folder).get("stages", {}).values()
        outs = [self.folder / out["path"] for stage in stages for out in stage.get("outs", ())]
        return {
            str(p.relative_to(data)): compute_file_hash(p)
            for p in sorted(data.rglob("*"))
            if p.is_file()
            and not (OF_DVC.fullmatch(p.name) and not any(p.is_relative_to(out) for out in outs))
        }


class Attempt:
    """One ``dvc repro``, in a session of its own."""

    def __init__(self, project: Project, log: Path) -> None:
        self.log = log
        with log.open("wb") as stream:
            self.process = psutil.Popen(
                ["dvc", "repro"],
                cwd=project.folder,
                env=project.environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        """Return what it has said, without the progress bars that were overwritten."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return re.sub(r"[^\r\n]*\r(?!\n)", "", text)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def family(self) -> list[psutil.Process]:
        """Return DVC's descendants."""
        with suppress(psutil.NoSuchProcess):
            return list(self.process.children(recursive=True))
        return []

    def driver(self, stage: str = "") -> psutil.Process | None:
        """Return the process of a stage, or of any, if it runs."""
        for member in self.family():
            with suppress(psutil.Error):
                if _script(member) == (stage or _script(member)) != "":
                    return member
        return None

    def stage(self) -> str:
        """Return the stage that runs, nothing if none does."""
        driver = self.driver()
        with suppress(psutil.NoSuchProcess):
            return _script(driver) if driver else ""
        return ""

    def passed(self, stage: str, since: int) -> bool:
        """Return whether the stage ended well after ``since`` characters had been said."""
        if self.ended() and self.process.returncode == 0:
            return True
        said = self.said()
        if re.search(rf"^Stage '{stage}' ", said[since:], re.MULTILINE):  # it did not change, or was cached
            return True
        start = said.rfind(f"Running stage '{stage}'")
        after = said[max(start + 1, since) :]
        return (
            start >= 0
            and re.search(r"^(Updating lock file|Running stage '|Stage ')", after, re.M) is not None
        )

    def wait(self, until: Callable[[], object], seconds: float) -> bool:
        """Wait until something holds or this ends; return whether either did in time."""
        end = time.monotonic() + seconds
        while not (until() or self.ended()):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def _script(process: psutil.Process) -> str:
    """Return the stage whose script a process runs, nothing if it is another process."""
    found = re.fullmatch(r"pipelines/(\w+)\.py", " ".join(process.cmdline()[1:2]))
    return found[1] if found else ""


def kill(processes: list[psutil.Process]) -> None:
    """Send SIGKILL to each."""
    for member in processes:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)


def end(processes: list[psutil.Process]) -> list[str]:
    """Kill the processes and wait for them; return their names."""
    names = []
    for member in processes:
        with suppress(psutil.NoSuchProcess):
            names.append(" ".join(member.cmdline())[:80])
    kill(processes)
    wait_for(processes, seconds=30)
    return names


def wait_for(processes: list[psutil.Process], *, seconds: float) -> None:
    """Wait until they have ended; their parents alone may ask for their exit codes."""
    end = time.monotonic() + seconds
    while any(map(running, processes)) and time.monotonic() < end:
        time.sleep(0.05)


def running(process: psutil.Process) -> bool:
    """Return whether it has not ended, whether or not its parent knows."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that hold something."""
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):  # a temporary file that is just renamed
            if path.is_file() and path.stat().st_size:
                yield path
