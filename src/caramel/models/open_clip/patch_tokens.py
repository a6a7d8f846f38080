"""Compute the projected patch tokens of open_clip's image towers; words are computed in ``text_padding``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caramel.models.open_clip.text_padding import has_end_token_pooling

if TYPE_CHECKING:
    import torch


def explain_missing_tokens(model: Any) -> str:
    """Return why a model has no patches or words in the space of its vectors; "" if it has both."""
    from open_clip.transformer import VisionTransformer

    tower = model.visual
    if type(tower) is not VisionTransformer or tower.attn_pool is not None or tower.final_ln_after_pool:
        return f"its image tower ({type(tower).__name__}) is not a plain vision transformer"
    if not has_end_token_pooling(model):
        return "its text tower does not pool at the end token"
    return ""


def encode_image_patches(model: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return unit vectors (n, d) of images (n, 3, height, width), and their projected patches (n, patches, d).

    The vectors are those of ``model.encode_image``. The model must pass ``explain_missing_tokens``.
    """
    from torch.nn.functional import normalize

    tower = model.visual
    pooled, patches = tower._pool(tower.transformer(tower._embeds(pixels)))
    if tower.proj is not None:
        pooled, patches = pooled @ tower.proj, patches @ tower.proj
    return normalize(pooled, dim=-1), patches
