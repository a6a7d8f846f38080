"""Sentence-transformers' objective for triplets, with the image as anchor and both captions as positives.

sentence-transformers calls it ``MultipleNegativesRankingLoss``: cross-entropy of the anchor's positive among the
positives and the hard negatives of all rows, with cosines times 20, in one direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import contrastive_cross_entropy, distinct_image_mask, get_negatives

if TYPE_CHECKING:
    import torch

SCALE = 20.0  # the library's; the model's own temperature is neither used nor trained


def compute_loss(encoded: Features, step: int) -> torch.Tensor:
    """Return ½ [X(x → y ⊕ h) + X(x → p ⊕ h)] at scale 20; the second term is over the rows that have a paraphrase."""
    negatives, negative_mask = get_negatives(encoded)
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    scale = encoded.logit_scale.new_tensor(SCALE)
    mask = distinct_image_mask(encoded.image_ids)
    terms = [
        contrastive_cross_entropy(
            encoded.image_features,
            texts,
            scale,
            key_mask=key_mask,
            negatives=negatives,
            negative_mask=negative_mask,
        )
        for texts, key_mask in ((encoded.text_features, mask), (second, mask & has))
    ]
    return (terms[0] + terms[1]) / 2


METHOD = Method(
    name="sentence_transformers",
    help="the caption, and its paraphrase, among all captions and hard negatives of the batch, from image to text "
    "alone and at a fixed temperature: the loss of the library sentence-transformers for triplets.",
    source="Dumpala et al., SugarCrepe++, NeurIPS 2024, E.3, name the objective of sentence-transformers (Reimers "
    "and Gurevych, EMNLP 2019) for the tuning on 40 %. That paper has three objectives. This is the library's for "
    "an anchor, a positive and a negative, and that of all-RoBERTa-large-v1, which they evaluate. Learning rate, "
    "epochs and batch are not stated.",
    loss=compute_loss,
    negatives=1,
    paraphrases=True,
)
