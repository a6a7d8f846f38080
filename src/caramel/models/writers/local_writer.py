"""Kind ``local``: a causal language model of a folder, in this process or on workers of Ray."""

from __future__ import annotations

from caramel.kinds.language_model import LanguageModel, LanguageModelKind
from caramel.models.families.transformers_files import missing_transformers


def load_local_writer(target: str, *, at_once: int, workers: int) -> LanguageModel:
    """Return the model of a folder in this process, or on so many workers of Ray; errors as in ``load_causal_writer``."""
    if workers:
        from caramel.models.writers.spread_writer import SpreadWriter

        return SpreadWriter(target, at_once, workers)
    from caramel.models.writers.causal_writer import load_causal_writer

    return load_causal_writer(target, at_once=at_once)


def _missing(target: str) -> list[str]:
    """Return what keeps the model of a folder from being loaded, without reading its weights."""
    return missing_transformers(target, images=False)


LOCAL_WRITER = LanguageModelKind("local", "FOLDER", load_local_writer, _missing)
