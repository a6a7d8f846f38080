"""Which paths a version may hold: of files of data, below ``data/``.

Who gets a stranger's version lets the stranger name files in a folder of theirs. A path inside of that folder is not yet
harmless: git reads ``.git/config``, Python ``sitecustomize.py``, a shell ``.envrc``, and run what those say. So that which a
version may hold is listed here; all else is refused, when a version is pinned and when it is got.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from caramel.io.validators import is_plain_path

TOP = "data"  # folder of a project that holds all outputs
# Of tables, texts, arrays, images, weights and pages.
SUFFIXES = {
    ".arrow", ".bin", ".bmp", ".bpe", ".ckpt", ".csv", ".feather", ".gif", ".gz", ".h5", ".html", ".jinja", ".jpeg", ".jpg",
    ".json", ".jsonl", ".md", ".model", ".npy", ".npz", ".onnx", ".parquet", ".png", ".pt", ".pth", ".safetensors", ".svg",
    ".tar", ".tif", ".tiff", ".tsv", ".txt", ".vocab", ".webp", ".yaml", ".yml", ".zip", ".zst",
}  # fmt: skip
_DEVICE = re.compile(
    r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE
)  # whatever the suffix, on Windows
_STAGES = "dvc.yaml"  # DVC collects the commands of every file of this name in a project
_SHORT = re.compile(r"~\d")  # GIT~1 is .git on Windows


def explain_bad_path(path: str) -> str | None:
    """Return why no version may have a file or folder of this path, None if it may."""
    parts = PurePosixPath(path).parts
    if not is_plain_path(path):
        return "not the plain path of something below the project's folder"
    if parts[0] != TOP or len(parts) == 1:
        return f"not below {TOP}/, where all outputs of a version lie"
    if any(part.startswith(".") for part in parts):
        return "a part of it begins with a dot, as names of settings do"
    if parts[-1].casefold() == _STAGES:
        return "DVC takes commands from a file of that name, in any folder"
    if any(part != part.strip() for part in parts):
        return "a part of it begins or ends with a space, which is lost where names are listed or written by hand"
    if any(part.endswith(".") or _DEVICE.fullmatch(part) or _SHORT.search(part) for part in parts):
        return "a part of it names something else on Windows"
    return None


def list_bad_files(paths: Iterable[str]) -> list[str]:
    """Return a line for each file that no version may have: by its path, its suffix, or another file of the same place.

    Paths that differ in case or in the form of their Unicode alone are one file on some systems.
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
            problems.append(f"{path!r}: {suffix or 'no suffix'}, which no file of data has")
        elif files[_normalise_path(path)] != path:
            problems.append(f"{path!r}: the same file as {files[_normalise_path(path)]!r} on some systems")
        elif folder := next((files[folder] for folder in folders if folder in files), None):
            problems.append(f"{path!r}: lies in {folder!r}, which is a file")
    return problems


def _normalise_path(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
