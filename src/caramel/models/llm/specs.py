"""Specs of language models that write, ``KIND:TARGET``: what keeps one from being loaded."""

from __future__ import annotations

from caramel.errors import BackendError
from caramel.registry import LANGUAGE_MODELS


def missing_language_model(spec: str) -> list[str]:
    """Return what keeps the language model of a spec from being loaded, without loading it.

    Raises:
        BackendError: it is no spec, or there is no such kind.
    """
    backend, _, target = spec.partition(":")
    if not target:
        known = " or ".join(f"{name}:{LANGUAGE_MODELS[name].target}" for name in LANGUAGE_MODELS)
        raise BackendError(f"A language model is given as {known}, not as {spec!r}.")
    return LANGUAGE_MODELS[backend].missing(target)
