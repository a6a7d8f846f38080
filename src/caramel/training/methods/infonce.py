"""InfoNCE: the symmetric contrastive loss of CLIP.

A batch of 128 has 128 captions and 128 images, all of them positives. These are the same numbers as for
TROHN-Img, but each positive is seen twice as often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import clip_loss, distinct_image_mask

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return ½ [X(x → y) + X(y → x)]."""
    return clip_loss(
        encoded.image_features,
        encoded.text_features,
        encoded.logit_scale,
        distinct_image_mask(encoded.image_ids),
    )


METHOD = Method(
    name="infonce",
    help="none; CLIP's own loss.",
    source="Radford et al., ICML 2021. Fine-tuned on COCO (BiVLC E.3): batch 400, lr 1e-6, decay 0.1, "
    "warm-up 50, 10 epochs.",
    loss=compute_loss,
)
