"""Load language models of kind ``local``: a causal model of a folder, in this process or on workers of Ray."""

from __future__ import annotations

from caramel.interfaces.language_model import LanguageModel, LanguageModelSpec
from caramel.models.transformers.transformers_files import list_checkpoint_problems


def load_local_model(target: str, *, max_connections: int, workers: int) -> LanguageModel:
    """Return the model of a folder, in this process or on this many workers of Ray.

    Errors are those of ``load_causal_model``.
    """
    if workers:
        from caramel.models.llm.sharded import ShardedLanguageModel

        return ShardedLanguageModel(target, max_connections, workers)
    from caramel.models.llm.causal import load_causal_model

    return load_causal_model(target, max_connections=max_connections)


def _list_problems(target: str) -> list[str]:
    """Return the reasons why the model of a folder cannot be loaded, without reading its weights."""
    return list_checkpoint_problems(target, images=False)


LOCAL_WRITER = LanguageModelSpec("local", "FOLDER", load_local_model, _list_problems)
