"""Zero-shot classification (Radford et al. 2021): choose the class of an image among class names.

A class is its name in several templates; their embeddings are averaged. The images are in one folder per
class, such as ImageNet's validation set sorted by class. Two classes with the same name cannot be told apart:
such images tie, which is a miss. Accuracy is over images. ``recall@1`` and ``recall@5`` are top-1 and top-5
accuracy.

A name must be words. A folder named by an id ("n01440764", "7", "class_7") is refused until ``classes.json``
gives its name. Otherwise a model would be asked for "a origami n01440764." and give figures without any
error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from caramel.errors import DataError, format_items
from caramel.interfaces.benchmark import RANKING_COLUMNS, Benchmark, ImageFile, Rankings
from caramel.io.readers import iter_lines, read_json
from caramel.io.validators import format_value, read_text_field, validate_text

LAYOUT = """\
  zero_shot/<class>/*.jpg …       a folder of images per class, here or in IMAGES
  zero_shot/classes.json          optional: {"<class>": "name of the class", …}, for all folders; without it the
                                  name is the folder's, with spaces for underscores; required if folders are
                                  named by WordNet ids (n01440764), numbers or other ids
  zero_shot/templates.txt         optional: one template per line, with {} for the name; default: seven of CLIP's"""
# The templates that CLIP's authors selected afterwards from their 80 for ImageNet.
TEMPLATES = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)
# WordNet's ids, alone or before a name (Stanford Dogs: n02085620-Chihuahua).
SYNSET = re.compile(r"[nvars]\d{8}(?![^\W_])", re.IGNORECASE)
# Other folder names that are not words: numbers, alone or before a name (CUB: 001.Black_footed_Albatross),
# numbers of classes (class_7), and Open Images' ids (m_0bt9lr).
OTHER_ID = re.compile(
    r"[\W\d_]+|\d+\..*|(class|label|category|cat|cls|id|idx|index)[ ._-]?\d+|m[._]0\w*\d\w*", re.IGNORECASE
)
IMAGENET = "For ImageNet, names that suit CLIP are open_clip.IMAGENET_CLASSNAMES: 1,000, in the order of the sorted ids."
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


def read_zero_shot(data: Path, images: Path) -> Rankings:
    """Return the task of the class folders in ``data``, or in ``images`` if ``data`` has none.

    Raises:
        DataError: fewer than two classes exist, a class has no image or no name, or a file is broken.
    """
    folders = _list_class_folders(data) or _list_class_folders(images)
    if len(folders) < 2:
        raise DataError(
            f"Neither {str(data)!r} nor {str(images)!r} has folders of at least two classes. "
            f"Expected layout:\n{LAYOUT}"
        )
    names, templates = _load_class_names(data, [folder.name for folder in folders]), _load_templates(data)
    files = [_list_images(folder) for folder in folders]
    empty = [str(folder) for folder, paths in zip(folders, files, strict=True) if not paths]
    if empty:
        raise DataError(
            f"{len(empty)} class folders have no image ({', '.join(SUFFIXES)}):\n{format_items(empty)}\n"
            f"Fill or remove them."
        )
    listed = [(path, number) for number, paths in enumerate(files) for path in paths]
    labels = [
        validate_text(f"{path.parent.name}/{path.name}", "file name", repr(str(data))) for path, _ in listed
    ]
    rows: list[tuple[object, ...]] = [
        (label, label, [], "i2t", image, 0, [number])
        for image, (label, (_, number)) in enumerate(zip(labels, listed, strict=True))
    ]
    return Rankings(
        pd.DataFrame(rows, columns=list(RANKING_COLUMNS)),
        [ImageFile(str(path)) for path, _ in listed],
        [tuple(template.replace("{}", name) for template in templates) for name in names],
        [np.arange(len(names))],
    )


def has_content(folder: Path) -> bool:
    """Return whether a folder holds files other than hidden ones and the README.md that keeps it in git."""
    return any(path.name != "README.md" and not path.name.startswith(".") for path in folder.iterdir())


def _list_class_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _list_images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _load_class_names(data: Path, folders: Sequence[str]) -> list[str]:
    """Return the class name of each folder."""
    path = data / "classes.json"
    if not path.is_file():
        ids = [folder for folder in folders if SYNSET.match(folder) or OTHER_ID.fullmatch(folder)]
        _check_words(
            ids,
            f"{len(ids)} class folders are named by ids, which are not words, and {str(path)!r} is missing",
            path,
        )
        return [folder.replace("_", " ") for folder in folders]
    names = read_json(path)
    if not isinstance(names, dict):
        raise DataError(
            f"{str(path)!r} must be an object that maps folders to names, not {format_value(names)}."
        )
    odd = sorted(set(names) ^ set(folders))
    if odd:
        raise DataError(
            f"{str(path)!r} and the class folders differ in {len(odd)} classes:\n{format_items([format_value(name) for name in odd])}\n"
            f"Name every folder and nothing else, because every name is a candidate."
        )
    stated = [read_text_field(names, folder, repr(str(path))) for folder in folders]
    ids = [name for name in stated if SYNSET.match(name.strip())]
    _check_words(ids, f"{str(path)!r} gives {len(ids)} WordNet ids as names, which are not words", path)
    return stated


def _check_words(ids: Sequence[str], problem: str, path: Path) -> None:
    """Raise DataError if any class names are not words. ``path`` is the path of ``classes.json``."""
    if ids:
        raise DataError(
            f"{problem}:\n{format_items([format_value(name) for name in ids])}\n"
            f"A model would be asked for {TEMPLATES[1].replace('{}', ids[0])!r}. Write {str(path)!r}: "
            f'{{"FOLDER": "name of the class in words", …}}. {IMAGENET}'
        )


def _load_templates(data: Path) -> list[str]:
    """Return the templates of ``templates.txt``, or CLIP's."""
    path = data / "templates.txt"
    if not path.is_file():
        return list(TEMPLATES)
    lines = [line.strip() for line in iter_lines(path) if line.strip()]
    bad = [format_value(line) for line in lines if "{}" not in line]
    if bad or not lines:
        raise DataError(
            f"{str(path)!r}: {f'the template {bad[0]} has no {{}}' if bad else 'it has no template'}. Write one "
            f"template per line, such as 'a photo of a {{}}.'."
        )
    return lines


BENCHMARK = Benchmark(
    name="zero_shot",
    layout=LAYOUT,
    reader=read_zero_shot,
    metrics=("recall@1", "recall@5"),
    any_folder=True,
    confirmed="openai/CLIP: notebooks/Prompt_Engineering_for_ImageNet.ipynb (templates, ensembling, top-1 and top-5); "
    "the folders are those of torchvision's ImageFolder",
)
