"""Run the checks of ``caramel doctor``; each finding is one line with a suggested action.

No check uses the network, except for a cluster at RAY_ADDRESS and a tracking server at CARAMEL_TRACKING_URI.
The slow checks (DVC and torch) run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from caramel.config.schema import load_config
from caramel.doctor import machine, settings, versions
from caramel.doctor.findings import FAIL, Finding
from caramel.runtime import code_manifest
from caramel.runtime.dvc import cache, state
from caramel.runtime.dvc import settings as dvc_settings


def examine_project(root: Path) -> Iterator[Finding]:
    """Yield every finding on this machine and the project at ``root``."""
    repository = versions.check_dvc_repository(
        root
    )  # before DVC runs, because DVC writes to the files checked here
    status = versions.start_dvc_status(root)
    try:
        yield machine.check_python()
        yield machine.check_packages(root)
        yield machine.check_disk(root)
        yield machine.check_memory()
        yield machine.check_cores()
        params_finding = settings.check_params(root)
        yield params_finding
        config = load_config(root / "params.yaml") if params_finding.state != FAIL else None
        if config is not None:
            yield settings.check_backends(config)
            yield settings.check_inputs(root, config)
            yield settings.check_methods(root, config)
        if (root / code_manifest.CODE).is_dir():
            yield settings.check_code(root)
        yield machine.check_gpu(config)
        yield machine.check_ray(config)
        yield settings.check_hub(config)
        yield versions.check_git(root)
        yield repository
        if repository.state != FAIL:
            yield versions.check_site_cache(root)
        yield versions.check_dvc_lock(root, status)
        yield versions.check_mlflow(root)
    finally:
        versions.stop_dvc_status(status)


def fix_project(root: Path) -> Iterator[str]:
    """Repair what a killed process left in DVC's files without losing finished work, and make DVC verify pulls.

    Yields the repairs.

    Raises:
        ResourceError: DVC is at work in this project, or the system refuses to read ``dvc.lock``.
    """
    if state.find_rwlock_problem(root):
        yield state.mend_rwlock(root)
    if versions.find_lock_problem(root):
        yield state.mend_lock(root)
    if broken_entries := cache.find_broken_entries(root, whole=True):
        state.refuse_beside(root)
        yield cache.remove_entries(broken_entries)
    if careless := dvc_settings.find_unverified_remotes(root):
        yield dvc_settings.verify_pulls(root, careless)
