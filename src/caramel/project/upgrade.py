"""``caramel upgrade``: a project of one's own after another caramel was installed.

What caramel wrote and nobody changed since becomes what the installed version would write. Of a file that both
changed the user's stays, and the new form is put beside the project's work, to be compared.
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
    load_stages,
    read_sums,
)
from caramel.runtime.paths import WORK

GRAPH = "dvc.yaml"
ASIDE = WORK / "upgrade"
BEFORE = WORK / "upgrade_from"  # the graph and code/ as they were, until an upgrade is done


@dataclass(frozen=True)
class UpgradeResult:
    """What an upgrade did to a project."""

    written: tuple[str, ...]  # files that were brought up to date
    renamed: tuple[str, ...]  # files of the user in which keys got their new names
    conflicts: tuple[
        str, ...
    ]  # files that the user changed and caramel did too; the new forms are in ``ASIDE``
    dropped: tuple[str, ...]  # files that caramel wrote once and that are no longer part of it; they stay
    rerun: Mapping[str, tuple[str, ...]]  # stage -> what it depends on that is not as it was
    after: tuple[str, ...]  # stages that read what these make, directly or not


def upgrade_project(
    root: Path, package: Package = CARAMEL, files: Mapping[str, bytes] | None = None
) -> UpgradeResult:
    """Bring a project up to date with the installed caramel, and say which stages `dvc repro` would run again.

    Where an earlier upgrade was cut off, what it did counts as of this one.

    Args:
        root: the project.
        package: the installed caramel.
        files: what it would write into a new project; None: as it is installed.

    Raises:
        ConfigError, DataError: it is no project, a file of it is broken, or a folder that is written to is a link.
        ResourceError: the disk is full.
    """
    load_stages(root)
    if not (root / CODE).is_dir() or holds_sources(root, package):
        what = f"has no folder {CODE}/" if not (root / CODE).is_dir() else "is caramel's own repository"
        raise ConfigError(f"{root.resolve()} {what}: it is no project that `caramel new` made.")
    files = build_project_files() if files is None else files
    _refuse_linked_folders(root, [f"{CODE}/STAGE.txt", *hash_managed_files(files)])
    old = _save_previous_graph(root)
    known = read_sums(old / SUMS)
    written, conflicts = _update_files(root, files, known)
    renamed = rename_project_keys(root)
    after = load_stages(root)
    code = hash_stage_sources(after, root, package)
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
    """Raise a ConfigError if a folder of files that caramel writes into a project is a link: files would change elsewhere."""
    folders = {folder for name in names for folder in PurePosixPath(name).parents if folder.parts}
    # work/ itself may be a volume of its own.
    targets = [*folders, BEFORE, ASIDE, *(ASIDE / folder for folder in folders)]
    for path in sorted(root / target for target in targets):
        if path.is_symlink():
            raise ConfigError(
                f"{str(path)!r} is a link to {os.path.realpath(path)!r}, and an upgrade writes into this folder. Nothing was "
                f"written. Put the folder itself there in place of the link, and run `caramel upgrade` again."
            )


def _save_previous_graph(root: Path) -> Path:
    """Return a copy of the graph and of ``code/`` as they were when this upgrade, or one that was cut off, began."""
    backup = root / BEFORE
    if not backup.is_dir():
        for path in (root / SUMS, *(root / CODE).glob("*.txt")):
            read_sums(path)  # what is broken is said, not kept
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
    """Return stage -> what it depends on that is not as it was."""
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
    """Write what nobody changed since caramel wrote it; return what was written, and what both changed."""
    written: list[str] = []
    conflicts: list[str] = []
    for name, digest in hash_managed_files(files).items():
        path = root / name
        here = compute_file_hash(path) if path.is_file() else None
        if digest == old.get(name):
            continue  # only the user changed it, if anybody
        changed = here not in (old.get(name), digest)
        (conflicts if changed else written).append(name)
        if here != digest:
            write_files({name: files[name]}, root / ASIDE if changed else root)
    lacking = [name for name in files if name.startswith(INPUTS) and not (root / name).parent.is_dir()]
    written += lacking  # a folder that stages read has to be there; what is in it is the user's
    write_files({name: files[name] for name in lacking}, root)
    return written, conflicts


def _has_path(deps: Collection[str], path: str) -> bool:
    """Return whether a file is one of the dependencies or lies in one."""
    return any(path == dep or path.startswith(f"{dep}/") for dep in deps)


def _iter_downstream_stages(first: Collection[str], graph: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the stages that read what some stages make, or what such a stage makes, in the graph's order."""
    outputs = {path for name in first for path in iter_outputs(graph[name])}
    for name, stage in graph.items():
        read = any(
            _has_path([dep], out) or _has_path([out], dep) for dep in stage.get("deps", ()) for out in outputs
        )
        if name not in first and read:
            outputs |= {*iter_outputs(stage)}
            yield name
