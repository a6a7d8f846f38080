"""Compute once what requests share: the tokens of a prompt's rules and worked examples, some nine tenths of it.

The keys and values of attention at a token depend only on the tokens before it. They are computed for the
first request of a prompt and reused for every other one, up to the first token that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from caramel.interfaces.language_model import Message

if TYPE_CHECKING:
    import torch

MOST = 24  # prompts whose prefix is stored: all that one run uses; 20 MB each for 135M weights, 60 MB for 8B
LEAST = 32  # tokens of a shorter prefix are not worth a forward pass of their own


class Prefix(NamedTuple):
    """A sequence of tokens, and keys and values of each layer, each (1, heads, tokens, width)."""

    ids: list[int]
    states: list[tuple[torch.Tensor, torch.Tensor]]


class PrefixCache:
    """The prefixes of the prompts used last.

    Args:
        model: a causal model. Models whose state is more than keys and values of all tokens (sliding windows,
            convolutions, recurrence) have no stored prefixes.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._prefixes = model, dict[Message, Prefix]()
        self._is_supported = has_plain_cache(model)

    def compute_prefix(self, prompt: Message, rows: Sequence[list[int]]) -> Prefix | None:
        """Return what all rows begin with, computed at most once; None if that is too short, or not supported.

        Args:
            prompt: a message that requests with an equal beginning share.
            rows: the tokens of each request. At least one token of each is not in the prefix.
        """
        stored = self._prefixes.pop(prompt, None)
        others = [stored.ids] if stored else []
        length = min(count_common_tokens([*rows, *others]), min(map(len, rows)) - 1)
        if not self._is_supported or length < LEAST:
            return None
        states = stored.states if stored else self._compute_states(rows[0][:length])
        prefix = Prefix(rows[0][:length], [(k[..., :length, :], v[..., :length, :]) for k, v in states])
        self._prefixes[prompt] = prefix  # the last one
        if len(self._prefixes) > MOST:
            del self._prefixes[next(iter(self._prefixes))]
        return prefix

    def _compute_states(self, ids: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        import torch
        from transformers import DynamicCache

        cache = DynamicCache(config=self._model.config)
        with torch.inference_mode():
            inputs = torch.tensor([ids], device=self._model.device)
            self._model.base_model(input_ids=inputs, past_key_values=cache, use_cache=True)
        return [(layer.keys, layer.values) for layer in cache.layers]


def has_plain_cache(model: Any) -> bool:
    """Return whether keys and values of each token are the whole state of a model."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    if not model._supports_default_dynamic_cache():
        return False
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def count_common_tokens(rows: Sequence[list[int]]) -> int:
    """Return how many tokens all rows begin with."""
    # the first and the last in lexicographic order differ first
    first, last = min(rows), max(rows)
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))


def expand_prefix(prefix: Prefix, number: int) -> Any:
    """Return a ``DynamicCache`` that holds the prefix for this many rows."""
    from transformers import DynamicCache

    return DynamicCache(
        [(k.expand(number, -1, -1, -1), v.expand(number, -1, -1, -1)) for k, v in prefix.states]
    )
