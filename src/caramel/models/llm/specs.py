"""Check specs of language models that write text, ``KIND:TARGET``."""

from __future__ import annotations

from caramel.errors import BackendError
from caramel.registry import LANGUAGE_MODELS


def missing_language_model(spec: str) -> list[str]:
    """Return the reasons why the language model of a spec cannot be loaded, without loading it.

    Raises:
        BackendError: the spec is invalid, or its kind is unknown.
    """
    backend, _, target = spec.partition(":")
    if not target:
        known = " or ".join(f"{name}:{LANGUAGE_MODELS[name].target}" for name in LANGUAGE_MODELS)
        raise BackendError(f"A language model must be given as {known}, not as {spec!r}.")
    return LANGUAGE_MODELS[backend].missing(target)
