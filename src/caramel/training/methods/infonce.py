"""InfoNCE: the symmetric contrastive loss of CLIP.

Of a batch of 128 it sees 128 captions and 128 images, all of them positives: the same numbers as TROHN-Img, each positive twice as
often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, both_ways

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int) -> torch.Tensor:
    """Return ½ [X(x → y) + X(y → x)]."""
    return both_ways(encoded.images, encoded.texts, encoded.scale, apart(encoded.image_of))


METHOD = Method(
    name="infonce",
    help="none; CLIP's own loss.",
    source="Radford et al., ICML 2021. Fine-tuned on COCO (BiVLC E.3): batch 400, lr 1e-6, decay 0.1, warm-up 50, 10 epochs.",
    loss=loss,
)
