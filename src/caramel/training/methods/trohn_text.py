"""TROHN-Text: hard negative texts as further columns of the image-to-text direction.

A batch of 128 has 64 captions with their images and 64 negative captions: half as many images as for
TROHN-Img.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return Neg(x, y, h) = ½ [X(x → y ⊕ h) + X(y → x)]."""
    return negclip_loss(encoded)


METHOD = Method(
    name="trohn_text",
    help="the hard-negative captions are further columns of the image-to-text loss.",
    source="Miranda et al., BiVLC, NeurIPS 2024, E.3: batch of 200 rows, lr 1e-6, decay 0.1, warm-up 50, "
    "10 epochs.",
    loss=compute_loss,
    negatives=1,
)
