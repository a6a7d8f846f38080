"""Create a project (``caramel new``): a git repository that uses caramel as an installed package."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from caramel.errors import ConfigError, ResourceError
from caramel.io.files import write_atomically
from caramel.project.project_files import build_project_files
from caramel.runtime.code_manifest import CODE, format_sums, hash_stage_sources, load_all_stages
from caramel.runtime.git import run_git

SUMS = f"{CODE}/project.sums"  # hashes of the files that caramel wrote and will update
INPUTS = "inputs/"
OWN = (
    "params.yaml",
    "README.md",
    ".gitignore",
    ".dvc/",
    INPUTS,
    "mlruns/",
)  # belong to the user after creation


def create_project(folder: Path) -> None:
    """Create a project in a new or empty folder, as a git repository without a commit.

    Raises:
        ConfigError: the folder is not empty, or is a file.
        ResourceError: git is missing or fails, or the disk is full; nothing remains.
        OSError: the folder cannot be written.
    """
    lacking = [path for path in (folder, *folder.parents) if not path.exists()]
    if not lacking and (not folder.is_dir() or any(folder.iterdir())):
        what = "holds files" if folder.is_dir() else "is a file"
        raise ConfigError(f"{str(folder)!r} {what}. Give a new or an empty folder for the project.")
    if shutil.which("git") is None:
        raise ResourceError("git is not installed. Install it first: a project is a git repository.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = build_project_files()
        write_files(files, folder)
        for stage, sums in hash_stage_sources(load_all_stages(folder), folder).items():
            write_files({f"{CODE}/{stage}.txt": format_sums(sums).encode()}, folder)
        write_files({SUMS: format_sums(hash_managed_files(files)).encode()}, folder)
        done = run_git("init", "--quiet", folder=folder)
        if done.returncode:
            message = done.stderr.decode(errors="replace").strip()[:300]
            raise ResourceError(f"`git init` failed in {str(folder)!r}: {message}")
    except BaseException:
        _remove_created(folder, lacking)
        raise


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, each completely or not at all."""
    for name, content in files.items():
        write_atomically(folder / name, lambda temporary, content=content: temporary.write_bytes(content))  # type: ignore[misc]


def hash_managed_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return path -> SHA-256 of the files that an upgrade updates."""
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if not name.startswith(OWN)
    }


def _remove_created(folder: Path, new_folders: Iterable[Path]) -> None:
    """Remove the created files from the folder, then the created folders, innermost first."""
    for path in folder.iterdir() if folder.is_dir() else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in new_folders:
        with suppress(OSError):  # not created yet, or it now has other content
            path.rmdir()
