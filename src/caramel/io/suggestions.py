"""Explain a missing file by suggesting an existing file of a similar name.

Similar names differ in the Unicode normal form (a Mac writes ``é`` as two characters), in case, in the
suffix, or as COCO's do: the image ``000000085329.jpg`` of 2017 is ``COCO_val2014_000000085329.jpg`` in 2014.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePath

DEPTH = 2  # levels of subfolders that are searched
_COCO = re.compile(r"coco_(?:train|val|test)\d{4}_(?=\d{12}$)")
_NUMBER = re.compile(r"\d{12}")
Key = tuple[str, ...]


class NearNames:
    """Files of similar names. Each folder is listed once."""

    def __init__(self) -> None:
        self._files: dict[Path, dict[Key, list[Path]]] = {}

    def explain_missing(self, path: Path) -> str:
        """Return ``missing``, followed by a similarly named file, if any, and what to do with it."""
        base = next((parent for parent in path.parents if parent.is_dir()), None)
        if base is None:
            return "missing"
        if base not in self._files:
            self._files[base] = _group_by_key(base)
        files, wanted = self._files[base], path.relative_to(base)
        key = _normalise_path(wanted)
        near = [*files.get(key, ()), *(files.get((key[-1],), ()) if _NUMBER.fullmatch(key[-1]) else ())]
        if not near:
            return "missing"
        return (
            f"missing; {str(near[0])!r} exists, {_describe_difference(near[0].relative_to(base), wanted)}: rename it, "
            f"or link it to this name"
        )


def _group_by_key(base: Path) -> dict[Key, list[Path]]:
    """Return the files below a folder by key. COCO's files are also listed by number alone, in any folder."""
    files: dict[Key, list[Path]] = {}
    for path in _iter_files(base, DEPTH):
        key = _normalise_path(path.relative_to(base))
        files.setdefault(key, []).append(path)
        if len(key) > 1 and _NUMBER.fullmatch(key[-1]):
            files.setdefault(key[-1:], []).append(path)
    return files


def _iter_files(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, sorted by name.

    A folder that cannot be read yields none.
    """
    try:
        with os.scandir(folder) as entries:
            listed = sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError:
        return
    for name, is_folder in listed:
        if not is_folder:
            yield folder / name
        elif depth:
            yield from _iter_files(folder / name, depth - 1)


def _normalise_path(path: PurePath) -> Key:
    """Return the parts of a path without the differences between similar names."""
    *folders, last = (unicodedata.normalize("NFC", part).casefold() for part in path.parts)
    return (*folders, _COCO.sub("", PurePath(last).stem))


def _describe_difference(near: PurePath, wanted: PurePath) -> str:
    """Return how two paths differ, in words that follow "exists"."""
    one, other = (unicodedata.normalize("NFC", str(path)) for path in (near, wanted))
    if one == other:
        forms = [form for form in ("NFC", "NFD") if unicodedata.is_normalized(form, str(near))]
        return f"whose name is in another Unicode normal form{f' ({forms[0]})' * bool(forms)}"
    if one.casefold() == other.casefold():
        return "which differs in upper and lower case"
    if _COCO.match(near.stem.casefold()) or _COCO.match(wanted.stem.casefold()):
        return "COCO's image of this number under the name of another year"
    if near.stem.casefold() == wanted.stem.casefold() and near.suffix != wanted.suffix:
        return f"which has the suffix {near.suffix!r}"
    return "COCO's image of this number in another folder"
