"""What ``caramel doctor`` looks at: one line per finding, with what to do.

Nothing here reaches the network, but for a cluster that RAY_ADDRESS names and a tracking server that
CARAMEL_TRACKING_URI does. The slow parts
(DVC and torch) run side by side.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from caramel.config import Config, load
from caramel.errors import CaramelError, DataError, ResourceError, shown, shown_address
from caramel.names import is_there, unmet
from caramel.running import dvc_cache, dvc_settings, dvc_state, own_code
from caramel.running.on_ray.cluster import named_cluster, unreachable
from caramel.running.tracking import git_commit
from caramel.running.tracking_server import named_server, require_server
from caramel.running.tracking_store import DATABASE, counted_runs, database_uri
from caramel.storage.volumes import room, trouble, volume_of

State = Literal["ok", "warn", "FAIL"]
OK: State = "ok"
WARN: State = "warn"
FAIL: State = "FAIL"
GIB = 2**30
ABSENT = ("deleted", "not in cache")  # what `dvc status` calls an output that is not in the project
SLOW = 8.0  # seconds that DVC may take before its finding is given up


@dataclass(frozen=True)
class Finding:
    """One line."""

    state: State
    name: str
    text: str
    cure: str = ""

    def __str__(self) -> str:
        """Return the line as it is printed."""
        cure = f"  -> {self.cure}" if self.cure else ""
        return f"{self.state:4}  {self.name:10} {self.text}{cure}"


def examine(root: Path) -> Iterator[Finding]:
    """Yield every finding on this machine and the project at ``root``."""
    repository = dvc_repository(root)  # before DVC runs: it writes what is looked at here
    status = _start_dvc_status(root)
    try:
        yield python()
        yield packages(root)
        yield disk(root)
        yield memory()
        yield cores()
        found = params(root)
        yield found
        config = load(root / "params.yaml") if found.state != FAIL else None
        if config is not None:
            yield backends(config)
            yield inputs(root, config)
            yield methods(root, config)
        if (root / own_code.CODE).is_dir():
            yield code(root)
        yield gpu(config)
        yield ray(config)
        yield hub(config)
        yield check_git(root)
        yield repository
        yield dvc_lock(root, status)
        yield runs(root)
    finally:
        if status is not None and status.poll() is None:
            status.send_signal(signal.SIGINT)  # killed, it could leave half a file
            status.wait()


def mend(root: Path) -> Iterator[str]:
    """Mend what a killed process left of DVC's files, where that loses no finished work, and have pulls checked.

    Yields what was done.

    Raises:
        ResourceError: DVC is at work in this project, or the system does not let ``dvc.lock`` be read.
    """
    if dvc_state.rwlock_trouble(root):
        yield dvc_state.mend_rwlock(root)
    if lock_trouble(root):
        yield dvc_state.mend_lock(root)
    if found := dvc_cache.broken(root, whole=True):
        dvc_state.refuse_beside(root)
        yield dvc_cache.remove(found)
    if careless := dvc_settings.unverified(root):
        yield dvc_settings.verify_pulls(root, careless)


def lock_trouble(root: Path) -> str:
    """Return why DVC would refuse ``dvc.lock``, nothing if it is missing or whole.

    Raises:
        ResourceError: the system does not let it be read; that is not mended by another one.
    """
    try:
        dvc_state.read_lock(root)
    except DataError as error:
        return str(error)
    return ""


def python() -> Finding:
    """The Python that runs this."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding(OK, "python", f"{version} in {sys.prefix}")


def packages(root: Path) -> Finding:
    """Installed versions against ``requirements.lock``."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lock = root / "requirements.lock"
    if not lock.exists():
        return Finding(WARN, "packages", "no requirements.lock here", "run this in the project's folder")
    try:
        text = re.sub(r"\\\n|--hash=\S+", "", lock.read_text(encoding="utf-8"))
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        pins = [Requirement(line) for line in lines if line]
        here = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    except (OSError, ValueError) as error:  # ValueError: no text, or no requirement
        said = " ".join(str(error).split())[:200]
        return Finding(
            FAIL, "packages", f"requirements.lock is broken: {said}", "git checkout requirements.lock"
        )
    if not here:
        return Finding(FAIL, "packages", "requirements.lock names none", "git checkout requirements.lock")
    names = [(d.metadata["Name"], d.version) for d in metadata.distributions()]
    installed = {canonicalize_name(name): version for name, version in names if name}
    missing, other = [], []
    for pin in here:
        version = installed.get(canonicalize_name(pin.name))
        if version is None:
            missing.append(pin.name)
        elif version not in pin.specifier:
            other.append(f"{pin.name} {version} (lock: {pin.specifier})")
    cure = "pip install -r requirements.lock"
    if missing:
        return Finding(FAIL, "packages", f"{len(missing)} missing: {', '.join(missing[:5])}", cure)
    if other:
        return Finding(WARN, "packages", f"{len(other)} differ from the lock: {', '.join(other[:5])}", cure)
    return Finding(OK, "packages", f"all {len(here)} as in requirements.lock")


def disk(root: Path) -> Finding:
    """Free space on each volume that data, cache, results and runs go to, and whether it can be written."""
    written = [root / name for name in (".", "data", "work", "mlruns", ".dvc")]
    stuck = [said for path in written if (said := trouble(path))]
    if stuck:
        return Finding(FAIL, "disk", " ".join(dict.fromkeys(stuck)))
    free = {volume_of(path): shutil.disk_usage(volume_of(path)).free / GIB for path in written}
    least = min(free, key=lambda volume: free[volume])
    text = f"{free[least]:.0f} GiB free" + (
        f" on {least}, the fullest of {len(free)}" if len(free) > 1 else ""
    )
    cure = room(least) or "make room there"
    if free[least] < 2:
        return Finding(FAIL, "disk", text, cure)
    if free[least] < 10:
        return Finding(WARN, "disk", text, f"enough for the small profiles; {cure}")
    return Finding(OK, "disk", text)


def memory() -> Finding:
    """Memory of this machine."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    if total < 6:
        return Finding(
            WARN, "memory", f"{total:.0f} GiB", "use `caramel profile NAME --set run.executor=inline`"
        )
    return Finding(OK, "memory", f"{total:.0f} GiB")


def cores() -> Finding:
    """Processors that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding(OK, "cores", str(usable))


def params(root: Path) -> Finding:
    """Whether ``params.yaml`` can be read, and its profile."""
    try:
        config = load(root / "params.yaml")
    except CaramelError as error:
        return Finding(FAIL, "params", str(error).replace("\n", "\n" + " " * 17))
    return Finding(OK, "params", f"profile {config.profile!r}, source {config.scenes.source!r}")


def backends(config: Config) -> Finding:
    """Whether all backends, scorers, models and benchmarks that the params name are there."""
    found = [line.replace("\n", " ") for line in unmet(config)]
    if found:
        cure = f"put there what is named, or set these keys: caramel profile {config.profile} --set KEY=VALUE"
        return Finding(FAIL, "backends", f"not there:\n{shown(found, 20)}", cure)
    return Finding(OK, "backends", "all that the params name are there")


def inputs(root: Path, config: Config) -> Finding:
    """Whether the folders of the user's own that the params name are there; a hub name is none."""
    named = {
        key: name
        for key, backend, name in (
            (
                "train_generator.pretrained",
                config.train_generator.backend,
                config.train_generator.pretrained,
            ),
            ("pretrain.pretrained", config.pretrain.backend, config.pretrain.pretrained),
        )
        if backend == "pretrained" and name and _is_path(root, name)
    }
    if config.scenes.source == "files":
        named = {"scenes.files": config.scenes.files, **named}
    lacking = [f"{key} = {name!r}" for key, name in named.items() if not (root / name).exists()]
    if "scenes.files" in named and not lacking and not _holds_captions(root / config.scenes.files):
        lacking.append(f"captions: scenes.files = {config.scenes.files!r} holds no file of captions")
    if lacking:
        said = f"not there:\n{shown(lacking)}"
        return Finding(FAIL, "inputs", said, "put them there, or set these keys; see the profile's comments")
    return Finding(OK, "inputs", ", ".join(named.values()) or "none are needed")


def _holds_captions(folder: Path) -> bool:
    """Return whether a folder holds what stage ``scenes`` reads: a table of captions, or SugarCrepe's files."""
    from caramel.sources.folders import READERS
    from caramel.sources.sugarcrepe_files import subtype_files

    return any((folder / name).is_file() for name in READERS) or bool(subtype_files(folder))


def _is_path(root: Path, name: str) -> bool:
    """Return whether a name is meant as a path here: its first folder is one of the project's."""
    return Path(name).is_absolute() or (len(Path(name).parts) > 1 and (root / Path(name).parts[0]).is_dir())


def methods(root: Path, config: Config) -> Finding:
    """Whether the pairs and the model have what the methods of ``finetune.variants`` train on, as far as they are made."""
    from caramel.training.variants import check_data, check_settings, split_rows

    rows, base = root / "data/assemble/training.parquet", root / "data/base"
    names = ", ".join(config.finetune.variants)
    if not (rows.exists() and base.exists()):
        return Finding(OK, "methods", f"{names}; pairs and model are not made yet")
    try:
        train_rows, _ = split_rows(rows)
        check_data(config.finetune.variants, train_rows, base)
        for variant in config.finetune.variants:
            mine = {**config.finetune.model_dump(), **config.finetune.own.get(variant, {})}
            check_settings(variant, mine, len(train_rows), config.finetune.processes)
    except CaramelError as error:
        return Finding(FAIL, "methods", str(error))
    return Finding(OK, "methods", f"{names}; their data is there")


def code(root: Path) -> Finding:
    """Whether the files of ``code/``, in a project of one's own, list the sources of the installed caramel."""
    version = metadata.version("caramel")
    try:
        other = own_code.apart(root)
    except CaramelError as error:
        return Finding(FAIL, "code", str(error))
    if other:
        text = f"caramel {version} has other sources than code/ lists for {', '.join(other)}"
        return Finding(FAIL, "code", text, "caramel upgrade")
    return Finding(OK, "code", f"that of caramel {version}, as code/ lists it")


def gpu(config: Config | None) -> Finding:
    """GPUs that torch can use."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding(FAIL, "gpu", f"torch cannot be imported: {error}", "pip install -r requirements.lock")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return Finding(OK, "gpu", names)
    if config is not None and config.run.device == "cuda":
        cure = "run this where there is one, or set run.device to auto"
        return Finding(FAIL, "gpu", "none, but run.device is cuda", cure)
    return Finding(OK, "gpu", "none: models are trained on the processor")


def ray(config: Config | None) -> Finding:
    """Ray, and the cluster that RAY_ADDRESS names."""
    if find_spec("ray") is None:
        inline = config is not None and config.run.executor == "inline"
        return Finding(WARN if inline else FAIL, "ray", "not installed", "pip install -r requirements.lock")
    address = named_cluster()
    if not address:
        return Finding(OK, "ray", "this machine (RAY_ADDRESS names no other)")
    if said := unreachable(address):
        cure = "unset it, or start the cluster"
        return Finding(FAIL, "ray", f"RAY_ADDRESS={address!r} cannot be reached: {said}", cure)
    return Finding(OK, "ray", f"cluster at {address}")


def hub(config: Config | None) -> Finding:
    """Whether models may be fetched, and whether the params ask for it."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
    named = [p for p in _pretrained(config) if not (is_there(p) or _is_path(Path(), p))]
    if named and offline:
        return Finding(
            WARN,
            "hub",
            f"params name {', '.join(map(repr, named))}, but HF_HUB_OFFLINE is set",
            "export HF_HUB_OFFLINE=0, unless the files are in the local cache",
        )
    return Finding(OK, "hub", "offline: nothing is fetched" if offline else "models may be fetched")


def _pretrained(config: Config | None) -> list[str]:
    """Return the pretrained models that the params ask for."""
    if config is None:
        return []
    stages = (config.train_generator, config.pretrain)
    return [s.pretrained for s in stages if s.backend == "pretrained" and s.pretrained]


def dvc_repository(root: Path) -> Finding:
    """The DVC repository and its remote."""
    if not (root / ".dvc").is_dir():
        return Finding(
            FAIL, "dvc", "no DVC repository here", "run this in the project's folder, or `dvc init`"
        )
    if trouble := dvc_state.rwlock_trouble(root):
        return Finding(FAIL, "dvc", f"{trouble}; no command of DVC runs", "caramel doctor --fix")
    if found := dvc_cache.broken(root, whole=False):
        text = f"{len(found)} broken entries in its cache: stages fail, or run each time again"
        return Finding(FAIL, "dvc", text, "caramel doctor --fix")
    try:
        remotes = list(dvc_settings.remotes(dvc_settings.settings(root)))
        careless = dvc_settings.unverified(root)
    except CaramelError as error:
        return Finding(FAIL, "dvc", str(error))
    if careless:
        text = (
            f"what is pulled from {', '.join(careless)} is not checked: DVC takes damaged objects for whole"
        )
        return Finding(FAIL, "dvc", text, "caramel doctor --fix, and commit .dvc/config")
    if not remotes:
        return Finding(
            WARN, "dvc", "no remote: data can be rebuilt, not pulled", "dvc remote add -d NAME URL"
        )
    return Finding(OK, "dvc", f"remote {', '.join(remotes)}; `caramel doctor --remote` tests it")


def check_git(root: Path) -> Finding:
    """Whether git knows the commit, which tracked runs and pins name."""
    try:
        commit = git_commit(root)
    except ResourceError as error:
        return Finding(FAIL, "git", str(error))
    if commit == "unknown":
        return Finding(WARN, "git", "no commit: runs and pins name no code", "git init, and commit")
    return Finding(OK, "git", f"commit {commit[:12]}{', and changed files' * commit.endswith('-dirty')}")


def _start_dvc_status(root: Path) -> subprocess.Popen[str] | None:
    """Start DVC's own check of the lock, which takes seconds, most of them imports.

    It is ``dvc status``: ``dvc repro --dry`` fails where no output has been made, as in a fresh clone.
    """
    if not (root / "dvc.lock").exists():
        return None
    return subprocess.Popen(
        [sys.executable, "-m", "dvc", "status", "--json"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def dvc_lock(root: Path, status: subprocess.Popen[str] | None) -> Finding:
    """Whether ``dvc.lock`` is what the sources and params would make, and whether its outputs are in the project."""
    try:
        if status is None:
            in_git = dvc_state.lock_in_git(root) is not None
            said, cure = (
                ("git has it", "git checkout dvc.lock") if in_git else ("nothing was made yet", "dvc repro")
            )
            return Finding(WARN, "dvc.lock", f"missing: {said}", cure)
        if broken := lock_trouble(root):
            return Finding(FAIL, "dvc.lock", broken, "caramel doctor --fix, then dvc repro")
        output, errors = status.communicate(timeout=SLOW)
        changes = json.loads(output) if status.returncode == 0 else {}
    except ResourceError as error:
        return Finding(FAIL, "dvc.lock", str(error))
    except subprocess.TimeoutExpired:
        return Finding(WARN, "dvc.lock", f"not known: DVC took over {SLOW:.0f} s", "dvc status")
    if "Unable to acquire lock" in errors:
        return Finding(WARN, "dvc.lock", "not known: another DVC process is running", "wait for it")
    if status.returncode:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        text = " ".join(lines)[:300] or "DVC failed"
        return Finding(
            FAIL, "dvc.lock", f"not known: {text}", "dvc status, and git diff dvc.yaml params.yaml"
        )
    outputs = [
        out["path"]
        for stage in dvc_state.read_lock(root).get("stages", {}).values()
        for out in stage.get("outs", ())
    ]
    stale = [stage for stage, entries in changes.items() if _is_stale(entries, outputs)]
    absent = [stage for stage, entries in changes.items() if _lacks_outputs(entries)]
    text = f"{len(stale)} stages to run, from {stale[0]!r} on" if stale else "current"
    if absent:
        text += f"; outputs of {len(absent)} stages are not here"
    if stale or absent:
        cure = "dvc repro" if stale else "dvc repro; or dvc pull, where there is a remote"
        return Finding(WARN, "dvc.lock", text, cure)
    return Finding(OK, "dvc.lock", "current")


def _is_stale(entries: list[str | dict[str, dict[str, object]]], outputs: list[str]) -> bool:
    """Return whether a stage differs from the lock by more than outputs that are not here, its own or of stages before."""
    for entry in entries:
        if isinstance(entry, str):  # "changed command"
            return True
        for path, change in (item for changed in entry.values() for item in changed.items()):
            is_output = any(Path(path).is_relative_to(o) or Path(o).is_relative_to(path) for o in outputs)
            if not (is_output and change in ABSENT):
                return True
    return False


def _lacks_outputs(entries: list[str | dict[str, dict[str, object]]]) -> bool:
    """Return whether an output of a stage is not in the project."""
    outputs = [entry.get("changed outs", {}) for entry in entries if not isinstance(entry, str)]
    return any(change in ABSENT for changed in outputs for change in changed.values())


def runs(root: Path) -> Finding:
    """The store of tracked runs, or the server they go to."""
    try:
        require_server()
        if address := named_server():
            return Finding(OK, "mlflow", f"the server at {shown_address(address)} answers")
        database = root.resolve() / "mlruns" / DATABASE
        database_uri(database)
    except CaramelError as error:
        return Finding(FAIL, "mlflow", str(error))
    if not database.exists():
        return Finding(OK, "mlflow", "no runs yet; the store is made by the first")
    try:
        count, running = counted_runs(database)
    except CaramelError as error:
        return Finding(FAIL, "mlflow", str(error))
    return Finding(OK, "mlflow", f"{count} runs, {running} of them running")
