"""Recognise a folder with a checkpoint of ALBEF or X-VLM, and what is missing in it, without reading its weights."""

from __future__ import annotations

import re
from pathlib import Path

from caramel.errors import BackendError

ENDING = ".pth"
VOCABULARIES = ("vocab.txt", "tokenizer.json")
_SIZE = re.compile(r"(?P<folder>.+)\?image_size=(?P<size>[1-9]\d{0,4})", re.DOTALL)


def split_image_size(target: str) -> tuple[str, int | None]:
    """Return the folder of a target FOLDER?image_size=N, and N; None: the size of the checkpoint."""
    match = _SIZE.fullmatch(target)
    return (match["folder"], int(match["size"])) if match else (target, None)


def find_albef_file(target: str) -> Path | None:
    """Return the file of weights in a folder of ALBEF or X-VLM; None for every other target, such as a model of transformers.

    Raises:
        BackendError: the folder has several such files.
    """
    folder = Path(split_image_size(target)[0])
    if not folder.is_dir() or (folder / "config.json").exists():
        return None
    files = sorted(path for path in folder.iterdir() if path.suffix == ENDING)
    if len(files) > 1:
        raise BackendError(
            f"{str(folder)!r} has {len(files)} files of weights: {files[0].name}, {files[1].name} … Keep one in it."
        )
    return files[0] if files else None


def list_albef_problems(target: str) -> list[str] | None:
    """Return the reasons why a folder of ALBEF or X-VLM cannot be loaded; None if the target is no such folder."""
    try:
        if find_albef_file(target) is None:
            return None
    except BackendError as error:
        return [str(error)]
    folder = split_image_size(target)[0]
    if any((Path(folder) / name).is_file() for name in VOCABULARIES):
        return []
    return [
        f"no {' or '.join(VOCABULARIES)} in {folder!r}: put the tokenizer files of bert-base-uncased beside the weights"
    ]
