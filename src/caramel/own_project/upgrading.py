"""``caramel upgrade``: a project of one's own after another caramel was installed.

What caramel wrote and nobody changed since becomes what the installed version would write. Of a file that both
changed the user's stays, and the new form is put beside the project's work, to be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caramel.errors import ConfigError
from caramel.own_project.contents import contents
from caramel.own_project.making import INPUTS, SUMS, sums_of, write
from caramel.running.closures import CARAMEL, Package
from caramel.running.own_code import CODE, apart, as_sums, read_sums, stages
from caramel.running.work_folder import WORK
from caramel.storage.files import file_hash

ASIDE = WORK / "upgrade"


@dataclass(frozen=True)
class Upgraded:
    """What an upgrade did to a project."""

    written: tuple[str, ...]  # files that were brought up to date
    kept: tuple[str, ...]  # files that the user changed and caramel did too; the new forms are in ``ASIDE``
    rerun: Mapping[str, tuple[str, ...]]  # stage -> what it depends on that is not as it was
    after: tuple[str, ...]  # stages that read what these make, directly or not


def upgrade(root: Path, package: Package = CARAMEL, files: Mapping[str, bytes] | None = None) -> Upgraded:
    """Bring a project up to date with the installed caramel, and say which stages `dvc repro` would run again.

    Args:
        root: the project.
        package: the installed caramel.
        files: what it would write into a new project; None: as it is installed.

    Raises:
        ConfigError, DataError: it is no project, or a file of it is broken.
        ResourceError: the disk is full.
    """
    before = stages(root)
    if not (root / CODE).is_dir():
        raise ConfigError(
            f"{root.resolve()} has no folder {CODE}/: it is no project that `caramel new` made."
        )
    written, kept = _renewed(root, contents() if files is None else files)
    after = stages(root)
    code = apart(root, package)
    rerun = {}
    for name, stage in after.items():
        sources = read_sums(root / CODE / f"{name}.txt")
        why = [path for path in written if _covers(stage.get("deps", ()), path)]
        why += ["dvc.yaml"] if stage != before.get(name) else []
        if name in code:
            why += sorted(source for source, _ in sources.items() ^ code[name].items())
        if why:
            rerun[name] = tuple(dict.fromkeys(why))
    write({f"{CODE}/{name}.txt": as_sums(sums).encode() for name, sums in code.items()}, root)
    return Upgraded(tuple(written), tuple(kept), rerun, tuple(_after(rerun, after)))


def _renewed(root: Path, files: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
    """Write what nobody changed since caramel wrote it; return what was written, and what both changed."""
    old, new = read_sums(root / SUMS), sums_of(files)
    written: list[str] = []
    kept: list[str] = []
    for name, digest in new.items():
        path = root / name
        here = file_hash(path) if path.is_file() else None
        if digest in (here, old.get(name)):
            continue  # it is so already, or only the user changed it
        changed = here != old.get(name)
        (kept if changed else written).append(name)
        write({name: files[name]}, root / ASIDE if changed else root)
    lacking = [name for name in files if name.startswith(INPUTS) and not (root / name).parent.is_dir()]
    written += lacking  # a folder that stages read has to be there; what is in it is the user's
    write({name: files[name] for name in lacking}, root)
    write({SUMS: as_sums(new).encode()}, root)
    return written, kept


def _covers(deps: Collection[str], path: str) -> bool:
    """Return whether a file is one of the dependencies or lies in one."""
    return any(path == dep or path.startswith(f"{dep}/") for dep in deps)


def _after(first: Collection[str], graph: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the stages that read what some stages make, or what such a stage makes, in the graph's order."""
    made = {path for name in first for path in _outs(graph[name])}
    for name, stage in graph.items():
        read = any(
            _covers([dep], out) or _covers([out], dep) for dep in stage.get("deps", ()) for out in made
        )
        if name not in first and read:
            made |= {*_outs(stage)}
            yield name


def _outs(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that a stage makes; one with options is a mapping of one key."""
    for kind in ("outs", "metrics", "plots"):
        for out in stage.get(kind, ()):
            yield from out if isinstance(out, dict) else (out,)
