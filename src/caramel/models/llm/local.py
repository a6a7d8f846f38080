"""Load language models of kind ``local``: a causal model of a folder, in this process or on workers of Ray."""

from __future__ import annotations

from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.language_model import LanguageModel, LanguageModelSpec
from caramel.models.transformers.transformers_files import list_checkpoint_problems

MAGIC = b"GGUF"  # first bytes of such a file


def load_local_model(target: str, *, max_connections: int, workers: int) -> LanguageModel:
    """Return the model of a folder, in this process or on this many workers of Ray.

    Errors are those of ``load_causal_model``.
    """
    _check_format(target)
    if workers:
        from caramel.models.llm.sharded import ShardedLanguageModel

        return ShardedLanguageModel(target, max_connections, workers)
    from caramel.models.llm.causal import load_causal_model

    return load_causal_model(target, max_connections=max_connections)


def _check_format(target: str) -> None:
    """Raise a BackendError if the target is a file, or a folder of GGUF files alone."""
    path = Path(target)
    files = [path] if path.is_file() else sorted(path.glob("*.gguf"))
    if not files or (path / "config.json").is_file():
        return
    with files[0].open("rb") as file:
        is_gguf = file.read(len(MAGIC)) == MAGIC
    if not is_gguf:
        raise BackendError(
            f"{str(files[0])!r} is neither a folder of transformers nor a GGUF file. Give local:FOLDER with "
            f"config.json, weights and tokenizer, as save_pretrained() writes them."
        )
    raise BackendError(
        f"{str(files[0])!r} is a GGUF file, and local: reads folders of transformers. Serve it by llama.cpp and "
        f"give chat:MODEL@URL, or convert it: from_pretrained(FOLDER, gguf_file=NAME), then save_pretrained()."
    )


def _list_problems(target: str) -> list[str]:
    """Return the reasons why the model of a folder cannot be loaded, without reading its weights."""
    try:
        _check_format(target)
    except BackendError as error:
        return [str(error)]
    return list_checkpoint_problems(target, images=False)


LOCAL_WRITER = LanguageModelSpec("local", "FOLDER", load_local_model, _list_problems)
