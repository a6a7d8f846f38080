"""What determines a model's scores, as hashes: weights, settings, tokenizers, and the software that computes.

An ``identity`` is made of these. Where it differs, nothing that was stored for the one is used for the other.
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

# What settings say of where they were written, not of what they do.
_RECORDED = re.compile(
    "_?name_or_path|transformers_version|(torch_)?dtype|_commit_hash|is_local|local_files_only|.*_file"
)


def get_package_versions(*packages: str) -> dict[str, str]:
    """Return the versions of caramel, of these packages and of those that every model computes with."""
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
    """Return the SHA-256 of JSON-like settings, without paths and versions of who wrote them."""
    text = json.dumps(_clean_settings(settings), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def get_processor_settings(part: Any) -> Any:
    """Return all that a tokenizer or an image processor of transformers does, JSON-like."""
    if not hasattr(part, "get_vocab"):
        return part.to_dict()
    fast, pieces = getattr(part, "backend_tokenizer", None), getattr(part, "sp_model", None)
    if fast is not None:
        # The last call's padding and truncation stand among the rules.
        rules = {k: v for k, v in json.loads(fast.to_str()).items() if k not in ("padding", "truncation")}
    elif pieces is not None:
        rules = {"sentencepiece": hashlib.sha256(pieces.serialized_model_proto()).hexdigest()}
    else:
        rules = part.get_vocab()
    settings = {k: v for k, v in part.init_kwargs.items() if k not in ("padding", "truncation")}
    return {**settings, "class": type(part).__name__, "length": part.model_max_length, "rules": rules}


def _clean_settings(settings: Any) -> Any:
    """Return the settings without what does not change a result."""
    if isinstance(settings, Mapping):
        return {str(k): _clean_settings(v) for k, v in settings.items() if not _RECORDED.fullmatch(str(k))}
    if isinstance(settings, list | tuple):
        return [_clean_settings(v) for v in settings]
    return settings
