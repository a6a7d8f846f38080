"""What can go wrong, made to go wrong: kills, full and read-only volumes, damaged files, links, planted settings."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
from sandbox import (
    BEHIND,
    ELSEWHERE,
    OF_OTHERS,
    RAN,
    VOLUMES,
    Attempt,
    Sandbox,
    end,
    files,
    kill,
    mount,
    unmount,
)

RAY = ("synthesize", "finetune", "evaluate")
TRACKED = ("train_generator", "pretrain", "finetune", "evaluate")
WITH_FILES = (
    "scores",
    "refine",
    "select_negatives",
    "filter_images",
    "finetune_sugarcrepe_pp",
    "evaluate",
    "report",
)  # stages with an output that is a file
DAMAGED = {"work": "work", "data": "data", "mlruns": "mlruns", "dvc.lock": "dvc.lock", "cache": ".dvc/cache"}
KILLED = ("driver", "dvc", "worker", "raylet", "starting raylet", "group", "everything")
INODES = ("data", "work", "mlruns", "tmp")
START = 4.0  # seconds after which a raylet does not start any longer
# What a stranger who can write to a repository's settings would have git run.
PLANTED = (
    "[core]\n\tfsmonitor = touch {0}\n\tpager = touch {0}\n\thooksPath = .\n[diff]\n\texternal = touch {0}\n"
    '[filter "lfs"]\n\tclean = touch {0}\n\tprocess = touch {0}\n'
)

# Modules that Python, DVC, a stage or Ray imports. None is put into pipelines/ or src/: Python imports from the folder of the
# script that it is given and from PYTHONPATH, whoever wrote what lies there, and `dvc repro` is told to run it.
MODULES = (
    "sitecustomize",
    "usercustomize",
    "argparse",
    "logging",
    "dvc",
    "git",
    "mlflow",
    "ray",
    "torch",
    "caramel",
)


class Fault(NamedTuple):
    """One kind of fault and what it hits."""

    kind: str
    where: str

    def __str__(self) -> str:
        """Return it as the table shows it."""
        return f"{self.kind}:{self.where}"

    def stages(self, names: list[str]) -> list[str]:
        """Return the stages of the graph during which it can strike."""
        if self.where in ("worker", "raylet", "starting raylet", "ray"):
            return [name for name in names if name in RAY]
        if str(self) == "link:output":
            return [name for name in names if name in WITH_FILES]
        if self.where in ("work", "mlruns") and self.kind in ("flip", "cut", "empty"):
            return [name for name in names if name in TRACKED]
        return names


FAULTS = [
    *(Fault("kill", who) for who in KILLED),
    *(Fault(kind, volume) for kind in ("fill", "readonly") for volume in VOLUMES),
    *(Fault("inodes", volume) for volume in INODES),
    *(Fault(kind, place) for kind in ("flip", "cut", "empty") for place in DAMAGED),
    Fault("remove", "ray"),
    Fault("widen", "ray"),
    Fault("link", "output"),
    Fault("link", "cache"),
    Fault("plant", "git"),
    Fault("plant", "python"),
]
MOUNTED = ("fill", "readonly", "inodes")  # kinds that need volumes


@dataclass(frozen=True)
class Struck:
    """What a strike did.

    ``gone``: it ended the run itself, so that the run owes no message. ``lasting``: it goes on until
    ``relieve`` is called.
    """

    place: str
    gone: bool = False
    lasting: bool = False
    relieve: Callable[[], object] = lambda: None


def strike(fault: Fault, sandbox: Sandbox, attempt: Attempt, stage: str, rng: random.Random) -> Struck | None:
    """Do it; None if there is nothing to hit at this moment."""
    match fault.kind:
        case "kill":
            return _kill(fault.where, sandbox, attempt, stage, rng)
        case "fill":
            return _fill(sandbox.root / VOLUMES[fault.where][0])
        case "readonly":
            return _read_only(sandbox, fault.where)
        case "inodes":
            return _use_up_inodes(sandbox.root / VOLUMES[fault.where][0])
        case "remove" | "widen":
            return _open_folder(sandbox, fault.kind)
        case "link":
            return _link_cache(sandbox, rng) if fault.where == "cache" else _link(sandbox, stage, rng)
        case "plant":
            return _plant(sandbox) if fault.where == "git" else _plant_python(sandbox)
        case _:
            return _damage(fault, sandbox, attempt, stage, rng)


def _kill(who: str, sandbox: Sandbox, attempt: Attempt, stage: str, rng: random.Random) -> Struck | None:
    if who in ("worker", "raylet", "starting raylet"):
        found = [p for p in attempt.family() if _is(p, who)]
        kill(found := found and [rng.choice(found)])
        return Struck(f"process {found[0].pid}") if found else None
    if who == "driver":
        driver = attempt.driver(stage)
        kill([driver] if driver else [])
        return Struck(f"process {driver.pid}", gone=True) if driver else None
    if who == "everything":
        end(sandbox.processes())
    elif who == "group":
        os.killpg(attempt.process.pid, 9)
    else:
        attempt.process.kill()
    return Struck(f"process {attempt.process.pid}", gone=True)


def _is(process: psutil.Process, who: str) -> bool:
    """Return whether a process is Ray's raylet, or a worker that works."""
    with suppress(psutil.Error):
        title = (process.cmdline() or [""])[0]
        if who == "raylet":
            return title.endswith("/raylet")
        if who == "starting raylet":
            return title.endswith("/raylet") and time.time() - process.create_time() < START
        return title.startswith("ray::") and not title.endswith(
            ("IDLE", "Agent")
        )  # agents go with the raylet
    return False


def _fill(volume: Path) -> Struck:
    """Leave no byte free."""
    filler = volume / ".filler"
    with filler.open("wb") as stream:
        size = os.statvfs(volume).f_bavail * os.statvfs(volume).f_bsize
        while size >= 4096:
            try:
                os.posix_fallocate(stream.fileno(), os.fstat(stream.fileno()).st_size, size)
            except OSError:
                size //= 2
    return Struck("full", lasting=True, relieve=lambda: filler.unlink(missing_ok=True))


def _use_up_inodes(volume: Path) -> Struck:
    """Leave no file free, and much space."""
    before = f"remount,nr_inodes={os.statvfs(volume).f_files}"
    for _ in range(100):
        stat = os.statvfs(volume)
        if mount("-o", f"remount,nr_inodes={stat.f_files - stat.f_ffree}", str(volume)):
            return Struck("no inodes", lasting=True, relieve=lambda: mount("-o", before, str(volume)))
    raise AssertionError(f"the inodes of {volume} cannot be limited: files are made there all the time")


def _open_folder(sandbox: Sandbox, kind: str) -> Struck | None:
    """Remove the private folder of Ray's temporary files under a session of Ray, or let all users into it."""
    private = sandbox.root / "tmp" / f"caramel-{os.geteuid()}"
    if not private.exists() or not any(path.name.isdecimal() for path in private.iterdir()):
        return None
    if kind == "remove":
        shutil.rmtree(private, ignore_errors=True)
    else:
        private.chmod(0o777)
    return Struck(str(private.relative_to(sandbox.root)))


def _link(sandbox: Sandbox, stage: str, rng: random.Random) -> Struck | None:
    """Put a link to a file elsewhere where a stage will write one; half of the time after the run has been killed."""
    if not _missing_outputs(sandbox, stage):
        return None
    if gone := rng.random() < 0.5:
        end(sandbox.processes())
    outs = _missing_outputs(sandbox, stage)
    if not outs:  # they were written just now
        return Struck("nothing: the outputs were there", gone=True) if gone else None
    aim, out = sandbox.root / ELSEWHERE, rng.choice(outs)
    aim.write_text(ELSEWHERE)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        out.symlink_to(aim)
    except FileExistsError:  # it was written just now
        return None
    return Struck(f"{out.relative_to(sandbox.folder)}{', killed before' if gone else ''}", gone=gone)


def _missing_outputs(sandbox: Sandbox, stage: str) -> list[Path]:
    """Return the files that a stage has not written yet; what is in a folder of a stage is not known."""
    outs = [sandbox.folder / out for out in sandbox.stages()[stage]]
    return [out for out in outs if out.suffix and not os.path.lexists(out)]


def _link_cache(sandbox: Sandbox, rng: random.Random) -> Struck | None:
    """Replace a folder of DVC's cache by a link to a folder elsewhere, with files of others."""
    folders = sorted(f for f in (sandbox.folder / ".dvc/cache/files/md5").glob("??") if not f.is_symlink())
    if not folders:
        return None
    aim, folder = sandbox.root / BEHIND, rng.choice(folders)
    aim.mkdir(exist_ok=True)
    for name in OF_OTHERS:
        (aim / name).write_text(ELSEWHERE)
    shutil.rmtree(folder)
    folder.symlink_to(aim)
    return Struck(str(folder.relative_to(sandbox.folder)))


def _plant(sandbox: Sandbox) -> Struck:
    """Have the repository's own settings name a program wherever git takes one."""
    with (sandbox.folder / ".git" / "config").open("a", encoding="utf-8") as stream:
        stream.write(PLANTED.format(sandbox.root / RAN))
    return Struck(".git/config")


def _plant_python(sandbox: Sandbox) -> Struck:
    """Put modules into the project's folder that are called as some that a run imports."""
    for name in MODULES:
        text = f"open({str(sandbox.root / RAN)!r}, 'a').write(__file__)\n"
        (sandbox.folder / f"{name}.py").write_text(text, encoding="utf-8")
    return Struck(f"{len(MODULES)} modules")


def _read_only(sandbox: Sandbox, volume: str) -> Struck:
    """Make a volume read-only.

    A volume on which files are open for writing cannot be remounted. A read-only mount of it on top of
    itself does the same for whatever is opened from then on. The project's own is the processes' working
    folder, which does not see that: there the run is ended first, and the next one meets it.
    """
    place = str(sandbox.root / VOLUMES[volume][0])
    if volume == "project":
        end(sandbox.processes())
        if not mount("-o", "remount,ro", place):
            raise AssertionError(f"{place} cannot be remounted: something writes there")
        return Struck("read-only", gone=True, lasting=True, relieve=lambda: mount("-o", "remount,rw", place))
    if not (mount("--bind", place, place) and mount("-o", "remount,bind,ro", place)):
        raise AssertionError(f"{place} cannot be mounted read-only")
    return Struck("read-only", lasting=True, relieve=lambda: unmount(place))


def _damage(
    fault: Fault, sandbox: Sandbox, attempt: Attempt, stage: str, rng: random.Random
) -> Struck | None:
    """Damage a file while the run goes on, or, half of the time, after it has been killed.

    Outputs of the stage that runs are left alone: what is damaged between being written and being hashed by DVC
    was never seen whole by anyone.
    """
    top = sandbox.folder / DAMAGED[fault.where]
    own = [sandbox.folder / out for out in sandbox.stages()[stage]]
    found = [top] if top.is_file() else list(files(top))
    found = [path for path in found if not any(path.is_relative_to(out) for out in own)]
    if not found:
        return None
    gone = rng.random() < 0.5
    if gone:
        end(sandbox.processes())
    folder = rng.choice(sorted({path.parent for path in found}))
    path = rng.choice([path for path in found if path.parent == folder])
    try:
        what = _spoil(path, fault.kind, rng)
    except FileNotFoundError:  # it was renamed or removed just now
        return Struck("nothing: the file was gone", gone=gone)
    return Struck(f"{path.relative_to(sandbox.folder)}{what}{', killed before' if gone else ''}", gone=gone)


def _spoil(path: Path, kind: str, rng: random.Random) -> str:
    """Change one byte of a file, cut it somewhere, or cut it to nothing; return what was done."""
    size = path.stat().st_size
    at = rng.randrange(size) if kind != "empty" else 0
    if kind != "flip":
        os.truncate(path, at)
        return f" to {at} of {size} bytes"
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0] ^ rng.randrange(1, 256)
        stream.seek(at)
        stream.write(bytes([byte]))
    return f" byte {at} of {size}"
