"""READ's paraphrase term: a caption is found by what says the same in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import contrastive_cross_entropy, distinct_image_mask, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int, *, paraphrase: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``paraphrase`` · X(p → y) over the rows that have a paraphrase.

    Their third term, in which a frozen T5-large writes the caption anew from its vector (weight 0.1), is left out: it
    needs that decoder in each step.
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
    help="as `trohn_text`, with three negatives; besides, each paraphrase finds its caption among the others.",
    source="Kwon et al., READ-CLIP, NeurIPS 2025: batch 256, lr 1e-5, decay 0.1, warm-up 50, 5 epochs.",
    loss=compute_loss,
    weights={"paraphrase": 0.5},
    negatives=3,
    paraphrases=True,
)
