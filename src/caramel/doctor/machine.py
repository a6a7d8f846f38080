"""Check this machine for ``caramel doctor``: Python and packages, disk, memory, CPU cores, GPUs and Ray."""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from caramel.config.schema import Config
from caramel.doctor.findings import FAIL, GIB, OK, WARN, Finding
from caramel.io.disk_space import find_volume, find_volume_problem, suggest_cleanup
from caramel.io.regular_files import read_plain_text
from caramel.runtime.ray.cluster import find_connection_problem, get_cluster_address


def check_python() -> Finding:
    """Report the running Python."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding(OK, "python", f"{version} in {sys.prefix}")


def check_packages(root: Path) -> Finding:
    """Compare the installed versions with ``requirements.lock``."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lock = root / "requirements.lock"
    if not lock.exists():
        return Finding(WARN, "packages", "no requirements.lock here", "run this in the project's folder")
    try:
        text = re.sub(r"\\\n|--hash=\S+", "", read_plain_text(lock))
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        pins = [Requirement(line) for line in lines if line]
        required = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    except (OSError, ValueError) as error:  # ValueError: not text, or not a requirement
        reason = " ".join(str(error).split())[:200]
        return Finding(
            FAIL, "packages", f"requirements.lock is broken: {reason}", "git checkout requirements.lock"
        )
    if not required:
        return Finding(
            FAIL, "packages", "requirements.lock names no packages", "git checkout requirements.lock"
        )
    names = [(d.metadata["Name"], d.version) for d in metadata.distributions()]
    installed = {canonicalize_name(name): version for name, version in names if name}
    missing, other = [], []
    for pin in required:
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
    return Finding(OK, "packages", f"all {len(required)} match requirements.lock")


def check_disk(root: Path) -> Finding:
    """Check free space and write access on each volume for data, cache, results and runs."""
    written = [root / name for name in (".", "data", "work", "mlruns", ".dvc")]
    stuck = [problem for path in written if (problem := find_volume_problem(path))]
    if stuck:
        return Finding(FAIL, "disk", " ".join(dict.fromkeys(stuck)))
    free = {find_volume(path): shutil.disk_usage(find_volume(path)).free / GIB for path in written}
    least = min(free, key=lambda volume: free[volume])
    text = f"{free[least]:.0f} GiB free" + (
        f" on {least}, the fullest of {len(free)}" if len(free) > 1 else ""
    )
    cure = suggest_cleanup(least) or "free space there"
    if free[least] < 2:
        return Finding(FAIL, "disk", text, cure)
    if free[least] < 10:
        return Finding(WARN, "disk", text, f"enough for the small profiles; {cure}")
    return Finding(OK, "disk", text)


def check_memory() -> Finding:
    """Check the memory of this machine."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    if total < 6:
        return Finding(
            WARN, "memory", f"{total:.0f} GiB", "use `caramel config use NAME --set run.executor=inline`"
        )
    return Finding(OK, "memory", f"{total:.0f} GiB")


def check_cores() -> Finding:
    """Report the CPU cores available to this process."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding(OK, "cores", str(usable))


def check_gpu(config: Config | None) -> Finding:
    """Report the GPUs available to torch, and whether MLflow's system metrics see them."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding(FAIL, "gpu", f"torch cannot be imported: {error}", "pip install -r requirements.lock")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        if find_spec("pynvml") is None:
            text = f"{names}; tracked runs do not record their load and memory"
            return Finding(WARN, "gpu", text, "pip install nvidia-ml-py")
        return Finding(OK, "gpu", names)
    if config is not None and config.run.device == "cuda":
        cure = "use a machine with a GPU, or set run.device to auto"
        return Finding(FAIL, "gpu", "no GPU, but run.device is cuda", cure)
    return Finding(OK, "gpu", "no GPU: models are trained on the CPU")


def check_ray(config: Config | None) -> Finding:
    """Check Ray and the cluster at RAY_ADDRESS."""
    if find_spec("ray") is None:
        inline = config is not None and config.run.executor == "inline"
        return Finding(WARN if inline else FAIL, "ray", "not installed", "pip install -r requirements.lock")
    address = get_cluster_address()
    if not address:
        return Finding(OK, "ray", "this machine only (RAY_ADDRESS names no cluster)")
    if problem := find_connection_problem(address):
        cure = "unset it, or start the cluster"
        return Finding(FAIL, "ray", f"RAY_ADDRESS={address!r} cannot be reached: {problem}", cure)
    return Finding(OK, "ray", f"cluster at {address}")
