"""Upgrade a project after another caramel was installed (``caramel upgrade``).

A file that caramel wrote and nobody changed becomes what the installed version would write. If both the user
and caramel changed a file, the user's stays, and the new form is written to the project's work folder for
comparison.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from caramel.errors import ConfigError
from caramel.io.files import compute_file_hash, create_empty_folder
from caramel.project.create import INPUTS, SUMS, hash_managed_files, write_files
from caramel.project.params_upgrade import rename_project_keys
from caramel.project.project_files import build_project_files
from caramel.runtime.code_deps import CARAMEL, Package
from caramel.runtime.code_manifest import (
    CODE,
    format_sums,
    hash_stage_sources,
    holds_sources,
    iter_outputs,
    load_all_stages,
    load_stages,
    read_sums,
)
from caramel.runtime.paths import WORK

GRAPH = "dvc.yaml"
ASIDE = WORK / "upgrade"
BEFORE = WORK / "upgrade_from"  # the previous graph and code/, until an upgrade is complete


@dataclass(frozen=True)
class UpgradeResult:
    """Result of an upgrade."""

    written: tuple[str, ...]  # updated files
    renamed: tuple[str, ...]  # the user's files in which keys were renamed
    conflicts: tuple[str, ...]  # files changed by both the user and caramel; the new forms are in ``ASIDE``
    dropped: tuple[str, ...]  # files of an earlier caramel that are no longer part of it; they stay
    rerun: Mapping[str, tuple[str, ...]]  # stage -> dependencies that changed
    after: tuple[str, ...]  # stages that read the outputs of these, directly or not


def upgrade_project(
    root: Path, package: Package = CARAMEL, files: Mapping[str, bytes] | None = None
) -> UpgradeResult:
    """Update a project to the installed caramel and list the stages that `dvc repro` would run again.

    The result includes the changes of an earlier interrupted upgrade.

    Args:
        root: the project.
        package: the installed caramel.
        files: what it would write into a new project; None: the installed files.

    Raises:
        ConfigError, DataError: it is not a project, a file of it is broken, or an output folder is a link.
        ResourceError: the disk is full.
    """
    load_stages(root)
    if not (root / CODE).is_dir() or holds_sources(root, package):
        what = f"has no folder {CODE}/" if not (root / CODE).is_dir() else "is caramel's own repository"
        raise ConfigError(f"{root.resolve()} {what}, so it is not a project made by `caramel new`.")
    files = build_project_files() if files is None else files
    _refuse_linked_folders(root, [f"{CODE}/STAGE.txt", *hash_managed_files(files)])
    old = _save_previous_graph(root)
    known = read_sums(old / SUMS)
    written, conflicts = _update_files(root, files, known)
    renamed = rename_project_keys(root)
    after = load_stages(root)
    code = hash_stage_sources(load_all_stages(root), root, package)
    rerun = _find_stale_stages(after, written, code, old)
    lists = {f"{CODE}/{name}.txt": format_sums(sums).encode() for name, sums in code.items()}
    dropped = {*known, *(f"{CODE}/{name}.txt" for name in load_stages(old))} - {*files, *lists}
    write_files({**lists, SUMS: format_sums(hash_managed_files(files)).encode()}, root)
    shutil.rmtree(root / BEFORE)
    existing_dropped = tuple(name for name in sorted(dropped) if (root / name).is_file())
    return UpgradeResult(
        tuple(written),
        tuple(renamed),
        tuple(conflicts),
        existing_dropped,
        rerun,
        tuple(_iter_downstream_stages(rerun, after)),
    )


def _refuse_linked_folders(root: Path, names: Iterable[str]) -> None:
    """Raise a ConfigError if a folder that caramel writes to is a link, since files elsewhere would change."""
    folders = {folder for name in names for folder in PurePosixPath(name).parents if folder.parts}
    # work/ may be a volume of its own.
    targets = [*folders, BEFORE, ASIDE, *(ASIDE / folder for folder in folders)]
    for path in sorted(root / target for target in targets):
        if path.is_symlink():
            raise ConfigError(
                f"{str(path)!r} is a link to {os.path.realpath(path)!r}, and an upgrade writes into this folder. Nothing was "
                f"written. Replace the link by the folder itself, and rerun `caramel upgrade`."
            )


def _save_previous_graph(root: Path) -> Path:
    """Return a copy of the graph and of ``code/`` from before this upgrade or an interrupted earlier one."""
    backup = root / BEFORE
    if not backup.is_dir():
        for path in (root / SUMS, *(root / CODE).glob("*.txt")):
            read_sums(path)  # raises if it is broken, before it is copied
        scratch = create_empty_folder(backup.with_name(f"{backup.name}.new"))
        shutil.copy(root / GRAPH, scratch / GRAPH)
        shutil.copytree(root / CODE, scratch / CODE)
        scratch.rename(backup)
    return backup


def _find_stale_stages(
    graph: Mapping[str, dict[str, Any]],
    written: Sequence[str],
    code: Mapping[str, Mapping[str, str]],
    old: Path,
) -> dict[str, tuple[str, ...]]:
    """Return stage -> its dependencies that changed."""
    before = load_stages(old)
    rerun = {}
    for name, stage in graph.items():
        why = [path for path in written if _has_path(stage.get("deps", ()), path)]
        why += ["dvc.yaml"] if stage != before.get(name) else []
        sources = read_sums(old / CODE / f"{name}.txt")
        why += sorted(source for source, _ in sources.items() ^ code.get(name, sources).items())
        if why:
            rerun[name] = tuple(dict.fromkeys(why))
    return rerun


def _update_files(
    root: Path, files: Mapping[str, bytes], old: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Write the files that nobody changed since caramel wrote them.

    Return the written ones and the conflicts.
    """
    written: list[str] = []
    conflicts: list[str] = []
    for name, digest in hash_managed_files(files).items():
        path = root / name
        here = compute_file_hash(path) if path.is_file() else None
        if digest == old.get(name):
            continue  # at most the user changed it
        changed = here not in (old.get(name), digest)
        (conflicts if changed else written).append(name)
        if here != digest:
            write_files({name: files[name]}, root / ASIDE if changed else root)
    lacking = [name for name in files if name.startswith(INPUTS) and not (root / name).parent.is_dir()]
    written += lacking  # stages need the folder to exist; its content is the user's
    write_files({name: files[name] for name in lacking}, root)
    return written, conflicts


def _has_path(deps: Collection[str], path: str) -> bool:
    """Return whether a file is a dependency or lies in one."""
    return any(path == dep or path.startswith(f"{dep}/") for dep in deps)


def _iter_downstream_stages(first: Collection[str], graph: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the stages that depend, directly or not, on the outputs of some stages, in the graph's order."""
    outputs = {path for name in first for path in iter_outputs(graph[name])}
    for name, stage in graph.items():
        read = any(
            _has_path([dep], out) or _has_path([out], dep) for dep in stage.get("deps", ()) for out in outputs
        )
        if name not in first and read:
            outputs |= {*iter_outputs(stage)}
            yield name
