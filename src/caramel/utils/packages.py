"""Look up installed packages without importing them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

NO_SPACY_MODEL = "neither an installed package nor a folder; pip install 'caramel[spacy]' and a model"


def is_package_or_folder(name: str) -> bool:
    """Return whether a name is an installed package or a folder, such as that of a spaCy model."""
    return Path(name).is_dir() or (name.isidentifier() and find_spec(name) is not None)
