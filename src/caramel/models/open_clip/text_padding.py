"""Compute open_clip's text towers without the padding columns that do not affect the result.

Captions fill a fifth of their columns on average. The columns that a text's vector can depend on are
determined by the tower:

    causal, pooled at the end token       columns after the end token cannot be attended to: the batch is
    (CLIP, CustomTextCLIP)                cut after its last end token
    causal, class token at the end        padding is masked, with the mask one column late, and the class
    (CoCa)                                token keeps its own position: the columns in between are left out
    all others                            every column counts: SigLIP, CLIPA and MobileCLIP attend to padding,
                                          and Hugging Face's towers handle padding themselves

The result equals ``model.encode_text`` on all columns, except for the order of summation. The module is not
changed, so threads may share it, and gradients flow as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caramel.models.open_clip.last_layer import compute_pooled_output

if TYPE_CHECKING:
    import torch


def compute_text_vectors(
    model: Any, tokens: torch.Tensor, columns: int | None = None, *, normalised: bool = True
) -> torch.Tensor:
    """Return vectors (n, d) of tokens (n, context), n at least 1.

    Args:
        model: model of open_clip.
        tokens: tokens on its device.
        columns: result of ``count_needed_columns`` for the tokens, if it is known already. For tokens on a
            GPU, computing it waits for all pending work of the GPU.
        normalised: whether they are unit vectors.
    """
    import torch
    from torch.nn.functional import normalize

    tower = _find_causal_tower(model)
    if tower is None:
        whole: torch.Tensor = model.encode_text(tokens, normalize=normalised)
        return whole
    if getattr(tower, "cls_emb", None) is not None:
        x, mask = _embed_without_padding(tower, tokens)
        positions = torch.full((len(tokens),), x.shape[1] - 1, device=tokens.device)
    else:
        positions = _find_end_positions(tower, tokens)
        x, mask = _embed_columns(tower, tokens, columns or int(positions.max()) + 1)
    vectors = _project_text(tower, compute_pooled_output(tower.transformer, x, positions, mask))
    return normalize(vectors, dim=-1) if normalised else vectors


def encode_text_words(
    model: Any, tokens: torch.Tensor, columns: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the vectors of ``compute_text_vectors``, the projected words, and a mask of words.

    The shapes are (n, d), (n, columns, d) and (n, columns).

    Start token and padding are not words; the end token is one. The model's tower must pool at the end token
    (``patch_tokens.explain_missing_tokens``).
    """
    import torch
    from torch.nn.functional import normalize

    tower = _find_causal_tower(model)
    positions = _find_end_positions(tower, tokens)
    x, mask = _embed_columns(tower, tokens, columns or int(positions.max()) + 1)
    words = _project_text(tower, tower.transformer(x, attn_mask=mask))
    column = torch.arange(x.shape[1], device=x.device)
    is_word = (column > 0) & (column <= positions[:, None])
    return normalize(words[torch.arange(len(x), device=x.device), positions], dim=-1), words, is_word


def has_end_token_pooling(model: Any) -> bool:
    """Return whether the text tower is causal and a text's vector is its end token's."""
    tower = _find_causal_tower(model)
    return tower is not None and getattr(tower, "cls_emb", None) is None


def _project_text(tower: Any, x: torch.Tensor) -> torch.Tensor:
    """Return columns (…, width) after the last norm and the projection, (…, d)."""
    import torch

    x = tower.ln_final(x)
    projection = tower.text_projection
    if isinstance(projection, torch.nn.Linear):
        x = projection(x)
    elif projection is not None:
        x = x @ projection
    return x


def count_needed_columns(model: Any, tokens: torch.Tensor) -> int | None:
    """Return the number of columns that the batch needs; None if the end tokens do not determine it."""
    return int(compute_text_lengths(model, tokens).max()) if has_end_token_pooling(model) else None


def compute_text_lengths(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return how many columns of each text count (n,); a batch is cut after the columns of its longest text."""
    import torch

    tower = _find_causal_tower(model)
    if tower is None:
        return torch.full((len(tokens),), tokens.shape[1])
    if getattr(tower, "cls_emb", None) is None:
        return _find_end_positions(tower, tokens) + 1
    columns = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    lengths: torch.Tensor = ((tokens != tower.pad_id) * columns).amax(1)
    return lengths


def _find_causal_tower(model: Any) -> Any:
    """Return the part with the text tower's layers if leaving columns out is exact, else None."""
    from open_clip.coca_model import CoCa
    from open_clip.model import CLIP, CustomTextCLIP
    from open_clip.transformer import TextTransformer

    # Exact types: a subclass may encode in another way.
    if type(model) is CLIP:
        tower = model
    elif type(model) in (CustomTextCLIP, CoCa) and type(model.text) is TextTransformer:
        tower = model.text
    else:
        return None
    if tower.attn_mask is None:
        return None
    return (
        tower
        if getattr(tower, "cls_emb", None) is not None or _get_pool_type(tower) in ("argmax", "eos")
        else None
    )


def _get_pool_type(tower: Any) -> str:
    """Return the tower's pooling; ``CLIP`` has its text tower's settings under names of its own."""
    name: str = tower.text_pool_type if hasattr(tower, "text_pool_type") else tower.pool_type
    return name


def _find_end_positions(tower: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return the column (n,) at which each text is pooled."""
    if _get_pool_type(tower) == "argmax":  # the end token has the highest id
        return tokens.argmax(1)
    end: int = tower.text_eos_id if hasattr(tower, "text_eos_id") else tower.eos_id
    return tokens.eq(end).int().argmax(1)


def _embed_columns(tower: Any, tokens: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input (n, length, width) and the mask (length, length) of the first columns."""
    dtype = tower.transformer.get_cast_dtype()
    x = tower.token_embedding(tokens[:, :length]).to(dtype) + tower.positional_embedding[:length].to(dtype)
    return x, tower.attn_mask[:length, :length]


def _embed_without_padding(tower: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the input (n, columns, width) and the mask (n · heads, columns, columns) that CoCa needs."""
    import torch

    x, mask = tower._embeds(tokens)  # the class token is the last column
    real = (tokens != tower.pad_id).any(0).nonzero()
    # Nothing after this column is attended to, whether the mask is one column late (released weights) or not.
    length = min(int(real.max()) + 2, tokens.shape[1]) if len(real) else 1
    columns = torch.tensor([*range(length), tokens.shape[1]], device=tokens.device)
    return x[:, columns], mask[:, columns][:, :, columns]
