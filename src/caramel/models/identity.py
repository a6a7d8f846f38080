"""Hash what determines a model's scores: weights, settings, tokenizers, and software versions.

An ``identity`` consists of these. Cached results are used only if the identity is equal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Settings that record where a file was written and have no effect.
_RECORDED = re.compile(
    "_?name_or_path|transformers_version|(torch_)?dtype|_commit_hash|is_local|local_files_only|.*_file"
)


def get_package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of caramel, of these packages and of the packages that every model uses."""
    return {name: metadata.version(name) for name in ("caramel", "torch", "pillow", *packages)}


def hash_weights(model: torch.nn.Module) -> str:
    """Return the SHA-256 of all weights and buffers, with their names, types and shapes."""
    import torch

    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if not isinstance(value, torch.Tensor):
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(data.numpy().data)
    return digest.hexdigest()


def hash_settings(settings: Any) -> str:
    """Return the SHA-256 of JSON-like settings, without paths and the versions of the software that wrote them."""
    text = json.dumps(_clean_settings(settings), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def get_processor_settings(part: Any) -> Any:
    """Return the complete settings of a tokenizer or an image processor of transformers, JSON-like."""
    if not hasattr(part, "get_vocab"):
        return part.to_dict()
    fast, pieces = getattr(part, "backend_tokenizer", None), getattr(part, "sp_model", None)
    if fast is not None:
        # The rules include the padding and truncation of the last call.
        rules = {k: v for k, v in json.loads(fast.to_str()).items() if k not in ("padding", "truncation")}
    elif pieces is not None:
        rules = {"sentencepiece": hashlib.sha256(pieces.serialized_model_proto()).hexdigest()}
    else:
        rules = part.get_vocab()
    settings = {k: v for k, v in part.init_kwargs.items() if k not in ("padding", "truncation")}
    return {**settings, "class": type(part).__name__, "length": part.model_max_length, "rules": rules}


def _clean_settings(settings: Any) -> Any:
    """Return the settings without those that do not affect results."""
    if isinstance(settings, Mapping):
        return {str(k): _clean_settings(v) for k, v in settings.items() if not _RECORDED.fullmatch(str(k))}
    if isinstance(settings, list | tuple):
        return [_clean_settings(v) for v in settings]
    return settings
