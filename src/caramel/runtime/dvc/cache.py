"""Find and remove what kills, full disks and damaged files leave in DVC's cache.

DVC trusts the content of ``.dvc/cache``. It silently puts a damaged object into ``data/``, reruns a stage
each time if its list of files is damaged, and refuses to run a stage whose entry in the run cache is empty.
What is removed here is computed again by ``dvc repro``, or fetched by ``dvc pull``.

A cache elsewhere (``dvc cache dir``, or behind a link in this one) is left alone. Others may use it, and a
link in a stranger's project may lead to files that are not a cache.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

OBJECTS = Path(".dvc", "cache", "files", "md5")
RUNS = Path(".dvc", "cache", "runs")


def find_broken_entries(root: Path, *, whole: bool) -> list[Path]:
    """Return broken entries of the cache: objects whose content does not match their name, and empty runs.

    Args:
        root: folder of the project.
        whole: read every object; otherwise only the lists of files, whose damage affects ``dvc repro``.
    """
    objects = _list_entries(root, OBJECTS, "*" if whole else "*.dir")
    damaged = [path for path in objects if path.is_file() and _parse_digest(path) != _compute_md5(path)]
    return damaged + [
        path for path in _list_entries(root, RUNS, "*") if path.is_dir() and not any(path.iterdir())
    ]


def _list_entries(root: Path, subfolder: Path, pattern: str) -> list[Path]:
    """Return DVC's files in a subfolder of a project's cache, without following links."""
    folders = (subfolder, *subfolder.parents[:-1])
    if any((root / folder).is_symlink() for folder in folders):
        return []
    entries = (
        path for part in (root / subfolder).glob("??") if not part.is_symlink() for path in part.glob(pattern)
    )
    return sorted(path for path in entries if not path.is_symlink())


def remove_entries(entries: list[Path]) -> str:
    """Remove broken entries, and return a message."""
    for path in entries:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"{len(entries)} broken entries of DVC's cache were removed; `dvc repro` makes them again"


def _parse_digest(path: Path) -> str:
    """Return the hash in an object's path."""
    return path.parent.name + path.name.removesuffix(".dir")


def _compute_md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()
