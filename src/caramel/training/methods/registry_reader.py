"""READ's paraphrase term: a caption is found by what says the same in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, contrast, neg

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int, *, paraphrase: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``paraphrase`` · X(p → y) over the rows that have a paraphrase.

    Their third term, in which a frozen T5-large writes the caption anew from its vector (weight 0.1), is left out: it
    needs that decoder in each step.
    """
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    counts = apart(encoded.image_of) & has[:, None]
    return neg(encoded) + paraphrase * contrast(second, encoded.texts, encoded.scale, counts=counts)


METHOD = Method(
    name="read",
    help="as `trohn_text`, with three negatives; besides, each paraphrase finds its caption among the others.",
    source="Kwon et al., READ-CLIP, NeurIPS 2025: batch 256, lr 1e-5, decay 0.1, warm-up 50, 5 epochs.",
    loss=loss,
    weights={"paraphrase": 0.5},
    negatives=3,
    paraphrases=True,
)
