"""DVC's cache: what kills, full disks and damaged files leave in it, and how that is mended.

DVC trusts what is in ``.dvc/cache``. It puts a damaged object into ``data/`` without a word, runs a stage each time
again whose list of files is damaged, and refuses every run of a stage whose entry in the run cache is empty. What is
removed here is made again by ``dvc repro``, or fetched by ``dvc pull``.

A cache elsewhere (``dvc cache dir``, or behind a link in this one) is left alone: others may use it, and a link in a
stranger's project may lead to files that are no cache.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

OBJECTS = Path(".dvc", "cache", "files", "md5")
RUNS = Path(".dvc", "cache", "runs")


def find_broken_entries(root: Path, *, whole: bool) -> list[Path]:
    """Return what is broken in the cache: objects that are not what their names say, and empty runs.

    Args:
        root: folder of the project.
        whole: read every object; else the lists of files alone, whose damage is the one that ``dvc repro`` feels.
    """
    objects = _list_entries(root, OBJECTS, "*" if whole else "*.dir")
    damaged = [path for path in objects if path.is_file() and _parse_digest(path) != _compute_md5(path)]
    return damaged + [
        path for path in _list_entries(root, RUNS, "*") if path.is_dir() and not any(path.iterdir())
    ]


def _list_entries(root: Path, subfolder: Path, pattern: str) -> list[Path]:
    """Return what DVC keeps at a place of a project's cache, no link followed."""
    folders = (subfolder, *subfolder.parents[:-1])
    if any((root / folder).is_symlink() for folder in folders):
        return []
    entries = (
        path for part in (root / subfolder).glob("??") if not part.is_symlink() for path in part.glob(pattern)
    )
    return sorted(path for path in entries if not path.is_symlink())


def remove_entries(entries: list[Path]) -> str:
    """Remove what is broken; say so."""
    for path in entries:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"{len(entries)} broken entries of DVC's cache were removed; `dvc repro` makes them again"


def _parse_digest(path: Path) -> str:
    """Return the hash that is an object's name."""
    return path.parent.name + path.name.removesuffix(".dir")


def _compute_md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()
