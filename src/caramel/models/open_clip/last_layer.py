"""Compute a transformer's last layer only at the pooled position, for vectors that depend on no other output.

A vector uses one output of the last layer: the class token's, or the end token's. It needs the keys and
values of all positions. Query, output projection and the layers of the MLP, ten twelfths of the products, are
needed at that position alone. The result equals the whole layer's, except for the order of summation. The
order depends on the number of rows. This is therefore used in training alone: cached vectors must not depend
on what was encoded with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def compute_pooled_output(
    transformer: Any, x: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Return ``transformer(x, attn_mask=mask)`` at one position of each row, (n, width).

    Without a gradient, the whole layer is computed.

    Args:
        transformer: transformer of open_clip.
        x: (n, columns, width).
        positions: (n,) column of each row.
        mask: added to the logits of attention: (columns, columns), one mask per row, or None.
    """
    import torch

    rows = torch.arange(len(x), device=x.device)
    if not torch.is_grad_enabled() or not _is_plain(transformer) or (mask is not None and mask.ndim != 2):
        whole: torch.Tensor = transformer(x, attn_mask=mask)
        return whole[rows, positions]
    *first, last = transformer.resblocks
    for layer in first:
        x = layer(x, attn_mask=mask)
    keys = last.ln_1(x)
    if mask is not None:  # one mask per head of each row
        mask = mask.to(keys.dtype)[positions][:, None].repeat_interleave(last.attn.num_heads, 0)
    attended, _ = last.attn(keys[rows, positions][:, None], keys, keys, need_weights=False, attn_mask=mask)
    out: torch.Tensor = x[rows, positions] + last.ls_1(attended[:, 0])
    beside: torch.Tensor = last.ls_2(last.mlp(last.ln_2(out)))
    return out + beside


def compute_tower_vectors(tower: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Return ``tower(pixels)`` of an image tower, (n, d): after its projection, if it has one, and not normalised.

    Args:
        tower: image tower of open_clip, of any type.
        pixels: (n, 3, height, width).
    """
    import torch
    from open_clip.transformer import VisionTransformer

    if (
        type(tower) is not VisionTransformer
        or tower.attn_pool is not None
        or tower.final_ln_after_pool
        or tower.pool_type != "tok"
        or tower.output_tokens
    ):
        whole: torch.Tensor = tower(pixels)
        return whole
    x = tower._embeds(pixels)
    first = torch.zeros(len(x), dtype=torch.long, device=x.device)
    vectors: torch.Tensor = tower.ln_post(compute_pooled_output(tower.transformer, x, first, None))
    return vectors if tower.proj is None else vectors @ tower.proj


def compute_image_vectors(model: Any, pixels: torch.Tensor, *, normalised: bool = True) -> torch.Tensor:
    """Return ``model.encode_image(pixels, normalize=normalised)``, (n, d)."""
    from open_clip.model import CLIP, CustomTextCLIP
    from torch.nn.functional import normalize

    if type(model) not in (CLIP, CustomTextCLIP):
        whole: torch.Tensor = model.encode_image(pixels, normalize=normalised)
        return whole
    vectors = compute_tower_vectors(model.visual, pixels)
    return normalize(vectors, dim=-1) if normalised else vectors


def _is_plain(transformer: Any) -> bool:
    """Return whether the last layer can be computed at one position."""
    from open_clip.transformer import ResidualAttentionBlock, Transformer

    if type(transformer) is not Transformer or transformer.grad_checkpointing or not transformer.batch_first:
        return False
    last = transformer.resblocks[-1]
    return type(last) is ResidualAttentionBlock and not hasattr(last, "ln_1_kv")
