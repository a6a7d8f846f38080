"""Two captions of an image: each is told from the others' and from all hard negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, neg, negatives_of, with_negative_texts

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int) -> torch.Tensor:
    """Return ½ [Neg(x, y, h) + Neg(x, p, h)], the second over the rows that have a paraphrase."""
    texts, there = negatives_of(encoded)
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    counts = (
        apart(encoded.image_of) & has
    )  # captions that are not there are no columns, and their rows have no loss
    return (
        neg(encoded) + with_negative_texts(encoded.images, second, encoded.scale, counts, texts, there)
    ) / 2


METHOD = Method(
    name="two_captions",
    help="as `trohn_text`, with the caption and once more with its paraphrase, the mean of both.",
    source="Dumpala et al., SugarCrepe++, NeurIPS 2024, E.3, fine-tunes on 40 % of itself by an objective that it does not state; this "
    "one is ours.",
    loss=loss,
    negatives=1,
    paraphrases=True,
)
