"""Load language models of kind ``local``: a causal model of a folder, in this process or on workers of Ray.

A target is FOLDER, whose tokenizer must have a chat template, or ``FOLDER#plain_text`` for a model that was not
trained on instructions: its prompts are plain text.
"""

from __future__ import annotations

from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.connections import AUTO, AUTO_NEEDS_SERVER, MaxConnections
from caramel.interfaces.language_model import LanguageModel, LanguageModelSpec
from caramel.models.transformers.transformers_files import list_checkpoint_problems, load_tokenizer

MAGIC = b"GGUF"  # first bytes of such a file
PLAIN_TEXT = "#plain_text"  # end of the target of a model without a chat template


def load_local_model(target: str, *, max_connections: MaxConnections, workers: int) -> LanguageModel:
    """Return the model of a folder, in this process or on this many workers of Ray.

    Raises:
        BackendError: the target is no folder of transformers, its tokenizer has no chat template and the target does
            not say ``PLAIN_TEXT``, or there is no batch size; others are those of ``load_causal_model``.
    """
    if max_connections == AUTO:
        raise BackendError(f"The model 'local:{target}' cannot be used with {AUTO_NEEDS_SERVER}")
    _check_format(target)
    _check_template(target)
    target = target.removesuffix(PLAIN_TEXT)
    if workers:
        from caramel.models.llm.sharded import ShardedLanguageModel

        return ShardedLanguageModel(target, max_connections, workers)
    from caramel.models.llm.causal import load_causal_model

    return load_causal_model(target, max_connections=max_connections)


def _check_format(target: str) -> None:
    """Raise a BackendError if the target is a file, or a folder of GGUF files alone."""
    path = Path(target.removesuffix(PLAIN_TEXT))
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


def _check_template(target: str) -> None:
    """Raise a BackendError if the tokenizer has no chat template, unless the target says so."""
    if target.endswith(PLAIN_TEXT) or load_tokenizer(target).chat_template is not None:
        return
    raise BackendError(
        f"The tokenizer of {target!r} has no chat template, so the model would get prompts in a form that it was not "
        f"trained on. Put the chat_template.jinja of the model as it was published into the folder. If it is a model "
        f"of plain text, without training on instructions, give local:{target}{PLAIN_TEXT}."
    )


def _list_problems(target: str) -> list[str]:
    """Return the reasons why the model of a folder cannot be loaded, without reading its weights."""
    try:
        _check_format(target)
        problems = list_checkpoint_problems(target.removesuffix(PLAIN_TEXT), images=False)
        if not problems:
            _check_template(target)
    except BackendError as error:
        return [str(error)]
    return problems


LOCAL_WRITER = LanguageModelSpec("local", "FOLDER", load_local_model, _list_problems)
