"""Load spaCy models, and keep the analyses of the last captions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

from caramel.errors import BackendError

NEEDED = {"DEP": "dependencies", "POS": "parts of speech", "LEMMA": "lemmas"}  # label -> what it says
TRIED = "A man is on a horse."
CACHED = 4096  # captions whose analysis stays in memory; the scripts of one caption run together


@functools.cache
def load_spacy_model(target: str) -> Any:
    """Return the spaCy model of a package or a folder.

    Raises:
        BackendError: spaCy or the model is missing or invalid, has another version, or lacks one of ``NEEDED``.
    """
    try:
        import spacy
    except ImportError as error:
        raise BackendError(
            f"The spaCy model {target!r} needs spaCy: pip install 'caramel[spacy]', and a model."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[W095\]")  # another version: an error below
            model = spacy.load(target)
        _check_version(target, model.meta)
        doc = model(TRIED)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"spacy:{target} cannot be loaded: {error} Give the name of an installed model, or its folder."
        ) from error
    lacking = [name for label, name in NEEDED.items() if not doc.has_annotation(label)]
    if lacking:
        raise BackendError(
            f"spacy:{target} finds no {', '.join(lacking)}: {', '.join(model.pipe_names) or 'it is empty'}. "
            f"Use a model with tagger, parser and lemmatizer, such as en_core_web_sm."
        )
    return model


def _check_version(target: str, meta: Mapping[str, Any]) -> None:
    """Raise a BackendError if a model was trained for another version of spaCy: its graphs would be wrong."""
    import spacy
    from spacy.util import is_compatible_version

    wanted = str(meta.get("spacy_version", ""))
    if wanted and not is_compatible_version(spacy.__version__, wanted):
        raise BackendError(
            f"spacy:{target} was trained for spaCy {wanted}, and {spacy.__version__} is installed: install the "
            f"model of this version, or pip install 'spacy{wanted}'."
        )


@functools.lru_cache(CACHED)
def parse_caption(text: str, model: str) -> Any:
    """Return spaCy's ``Doc`` of a caption."""
    return load_spacy_model(model)(text)
