"""READ: a contrastive term that matches a paraphrase with its caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import contrastive_cross_entropy, distinct_image_mask, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int, *, paraphrase: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``paraphrase`` · X(p → y) over the rows that have a paraphrase.

    The paper's third term is left out, since it needs a decoder in each step: a frozen T5-large reconstructs
    the caption from its vector (weight 0.1).
    """
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    key_mask = distinct_image_mask(encoded.image_ids) & has[:, None]
    return negclip_loss(encoded) + paraphrase * contrastive_cross_entropy(
        second, encoded.text_features, encoded.logit_scale, key_mask=key_mask
    )


METHOD = Method(
    name="read",
    help="as `trohn_text`, with three negatives. A further term matches each paraphrase with its caption "
    "among all captions.",
    source="Kwon et al., READ-CLIP, NeurIPS 2025: batch 256, lr 1e-5, decay 0.1, warm-up 50, 5 epochs.",
    loss=compute_loss,
    weights={"paraphrase": 0.5},
    negatives=3,
    paraphrases=True,
)
