"""TROHN-Img: negatives with their images are pairs of their own.

Of a batch of 128 it sees 64 captions with their images, and their 64 negatives with theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, both_ways, negatives_of

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int) -> torch.Tensor:
    """Return InfoNCE on [x; x'] × [y; h], the negatives that there are being rows like the others."""
    import torch

    texts, there = negatives_of(encoded)
    assert encoded.negative_images is not None
    assert encoded.negative_image_of is not None
    images = torch.cat([encoded.images, encoded.negative_images[there]])
    shown = torch.cat([encoded.image_of, encoded.negative_image_of[there]])
    return both_ways(images, torch.cat([encoded.texts, texts[there]]), encoded.scale, apart(shown))


METHOD = Method(
    name="trohn_img",
    help="captions and images of the negatives are pairs of their own.",
    source="Miranda et al., BiVLC, NeurIPS 2024, E.3: 200 + 200 pairs of a batch, lr 1e-6, decay 0.1, warm-up 50, 10 epochs.",
    loss=loss,
    negatives=1,
    images=True,
)
