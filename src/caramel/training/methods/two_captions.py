"""Two captions of an image: separate each from the captions of other images and from all hard negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import distinct_image_mask, get_negatives, hard_negative_clip_loss, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return ½ [Neg(x, y, h) + Neg(x, p, h)]; the second term is over the rows that have a paraphrase."""
    texts, negative_mask = get_negatives(encoded)
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    key_mask = (
        distinct_image_mask(encoded.image_ids) & has
    )  # a missing paraphrase has no column, and its row has no loss
    return (
        negclip_loss(encoded)
        + hard_negative_clip_loss(
            encoded.image_features, second, encoded.logit_scale, key_mask, texts, negative_mask
        )
    ) / 2


METHOD = Method(
    name="two_captions",
    help="the mean of the loss of `trohn_text` with the caption and with its paraphrase.",
    source="ours, for rows with two captions. Dumpala et al., SugarCrepe++, NeurIPS 2024, E.3, fine-tune on 40 % "
    "of it with the objective of sentence-transformers, which is method `sentence_transformers`.",
    loss=compute_loss,
    negatives=1,
    paraphrases=True,
)
