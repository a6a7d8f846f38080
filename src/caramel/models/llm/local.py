"""Kind ``local``: a causal language model of a folder, in this process or on workers of Ray."""

from __future__ import annotations

from caramel.interfaces.language_model import LanguageModel, LanguageModelKind
from caramel.models.transformers.transformers_files import missing_transformers


def load_local_writer(target: str, *, at_once: int, workers: int) -> LanguageModel:
    """Return the model of a folder in this process, or on so many workers of Ray; errors as in ``load_causal_writer``."""
    if workers:
        from caramel.models.llm.sharded import SpreadWriter

        return SpreadWriter(target, at_once, workers)
    from caramel.models.llm.causal import load_causal_writer

    return load_causal_writer(target, at_once=at_once)


def _missing(target: str) -> list[str]:
    """Return what keeps the model of a folder from being loaded, without reading its weights."""
    return missing_transformers(target, images=False)


LOCAL_WRITER = LanguageModelKind("local", "FOLDER", load_local_writer, _missing)
