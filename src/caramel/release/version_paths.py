"""Check the paths of a version: only data files below ``data/`` are allowed.

Whoever gets a version lets its author name files in a folder. A path inside that folder can still be harmful:
git reads ``.git/config``, Python ``sitecustomize.py`` and a shell ``.envrc``, and each runs what the file
says. Therefore this module lists what is allowed. Everything else is refused when a version is pinned and
when it is fetched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from caramel.io.validators import is_plain_path

TOP = "data"  # project folder of all outputs
# Suffixes of tables, texts, arrays, images, weights and pages.
SUFFIXES = {
    ".arrow", ".bin", ".bmp", ".bpe", ".ckpt", ".csv", ".feather", ".gif", ".gz", ".h5", ".html", ".jinja", ".jpeg", ".jpg",
    ".json", ".jsonl", ".md", ".model", ".npy", ".npz", ".onnx", ".parquet", ".png", ".pt", ".pth", ".safetensors", ".svg",
    ".tar", ".tif", ".tiff", ".tsv", ".txt", ".vocab", ".webp", ".yaml", ".yml", ".zip", ".zst",
}  # fmt: skip
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows with any suffix
_STAGES = "dvc.yaml"  # DVC runs the commands of every file of this name in a project
_SHORT = re.compile(r"~\d")  # GIT~1 is .git on Windows


def explain_bad_path(path: str) -> str | None:
    """Return why no version may hold a file or folder of this path; None if it may."""
    parts = PurePosixPath(path).parts
    if not is_plain_path(path):
        return "not a plain path below the project's folder"
    if parts[0] != TOP or len(parts) == 1:
        return f"not below {TOP}/, the folder of all outputs of a version"
    if any(part.startswith(".") for part in parts):
        return "a part begins with a dot, like the names of settings"
    if parts[-1].casefold() == _STAGES:
        return "DVC runs the commands in files of that name, in any folder"
    if any(part != part.strip() for part in parts):
        return "a part begins or ends with a space, which is easily lost"
    if any(part.endswith(".") or _DEVICE.fullmatch(part) or _SHORT.search(part) for part in parts):
        return "a part has another meaning on Windows"
    return None


def list_bad_files(paths: Iterable[str]) -> list[str]:
    """Return one line for each file that no version may hold, because of its path, suffix, or a clash.

    Paths that differ only in case or Unicode normalization are the same file on some systems.
    """
    paths = list(paths)
    files = {_normalise_path(path): path for path in paths}
    problems = []
    for path in paths:
        suffix = PurePosixPath(path).suffix.lower()
        folders = [str(folder) for folder in PurePosixPath(_normalise_path(path)).parents]
        if problem := explain_bad_path(path):
            problems.append(f"{path!r}: {problem}")
        elif suffix not in SUFFIXES:
            problems.append(f"{path!r}: {suffix or 'no suffix'} is not a suffix of data files")
        elif files[_normalise_path(path)] != path:
            problems.append(f"{path!r}: the same file as {files[_normalise_path(path)]!r} on some systems")
        elif folder := next((files[folder] for folder in folders if folder in files), None):
            problems.append(f"{path!r}: lies in {folder!r}, which is a file")
    return problems


def _normalise_path(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
