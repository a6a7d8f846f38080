"""Contrastive losses of dual encoders, on unit vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def contrastive_loss(
    images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor, negative_texts: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the symmetric InfoNCE loss, with hard negative texts as extra columns if given.

    Args:
        images: (n, d); row i belongs to text i.
        texts: (n, d).
        scale: inverse temperature, a scalar.
        negative_texts: (m, d): further columns of the image→text loss; the text→image loss runs
            over the positives only (NegCLIP, as used for TROHN-Text in BiVLC E.3).
    """
    import torch
    from torch.nn.functional import cross_entropy

    columns = texts if negative_texts is None else torch.cat([texts, negative_texts])
    target = torch.arange(len(images), device=images.device)
    to_text = cross_entropy(scale * images @ columns.T, target)
    to_image = cross_entropy(scale * texts @ images.T, target)
    return (to_text + to_image) / 2
