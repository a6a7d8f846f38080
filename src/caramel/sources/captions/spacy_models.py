"""Load spaCy models, and keep the analyses of the last captions."""

from __future__ import annotations

import functools
from typing import Any

from caramel.errors import BackendError

TRIED = "A man is on a horse."
CACHED = 4096  # captions whose analysis stays in memory; the scripts of one caption run together


@functools.cache
def load_spacy_model(target: str) -> Any:
    """Return the spaCy model of a package or a folder.

    Raises:
        BackendError: spaCy or the model is missing or invalid, or the model finds no dependencies.
    """
    try:
        import spacy
    except ImportError as error:
        raise BackendError(
            f"The spaCy model {target!r} needs spaCy: pip install 'caramel[spacy]', and a model."
        ) from error
    try:
        model = spacy.load(target)
        finds = model(TRIED).has_annotation("DEP")
    except (OSError, ValueError) as error:
        raise BackendError(
            f"spacy:{target} cannot be loaded: {error} Give the name of an installed model, or its folder."
        ) from error
    if not finds:
        raise BackendError(
            f"spacy:{target} finds no dependencies: {', '.join(model.pipe_names) or 'it is empty'}."
        )
    return model


@functools.lru_cache(CACHED)
def parse_caption(text: str, model: str) -> Any:
    """Return spaCy's ``Doc`` of a caption."""
    return load_spacy_model(model)(text)
