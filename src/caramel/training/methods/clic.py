"""CLIC: two captions of an image near each other, and both nearer to it than the negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import clip_loss, contrastive_cross_entropy, distinct_image_mask, get_negatives

if TYPE_CHECKING:
    import torch


def compute_loss(
    encoded: Features, step: int, *, pairs: float, negatives: float, together: float
) -> torch.Tensor:
    """Return the loss of a step: of even steps that of the paper on captions p1 = y and p2 = p, of odd ones InfoNCE.

    ``pairs`` · mean_m ½ [X(x → p_m) + X(p_m → x)] + ``negatives`` · the mean of softplus(s x_i·h_ik − s x_i·p_mi) +
    ``together`` · mean_i ‖p1_i − p2_i‖². There, pictures are two joined ones, as ``clic_joined`` has them; here
    one picture has a paraphrase and hard negatives of its own. Rows without a paraphrase have the terms of p1 alone.
    """
    key_mask = distinct_image_mask(encoded.image_ids)
    first = clip_loss(encoded.image_features, encoded.text_features, encoded.logit_scale, key_mask)
    if step % 2:
        return first
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    to_second = contrastive_cross_entropy(
        encoded.image_features, second, encoded.logit_scale, key_mask=key_mask & has
    )
    from_second = contrastive_cross_entropy(
        second, encoded.image_features, encoded.logit_scale, key_mask=key_mask & has[:, None]
    )
    squared_distances = ((encoded.text_features - second) ** 2).sum(1)
    near = (squared_distances * has).sum() / has.sum().clamp(min=1)
    batch = (first + (to_second + from_second) / 2) / 2
    return pairs * batch + negatives * negative_softplus_loss(encoded) + together * near


def negative_softplus_loss(encoded: Features) -> torch.Tensor:
    """Return the mean of softplus(s x_i·h_ik − s x_i·p_mi) over the negatives and captions that there are."""
    import torch
    from torch.nn.functional import softplus

    texts, negative_mask = get_negatives(encoded)
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    captions = torch.stack([encoded.text_features, second], 1)  # (n, 2, d)
    captioned = torch.stack([torch.ones_like(has), has], 1)
    negative, positive = ((vectors * encoded.image_features[:, None]).sum(2) for vectors in (texts, captions))
    over = softplus(encoded.logit_scale * (negative[:, :, None] - positive[:, None]))  # (n, K, 2)
    pair_mask = negative_mask[:, :, None] & captioned[:, None]
    return (over * pair_mask).sum() / pair_mask.sum().clamp(min=1)


METHOD = Method(
    name="clic",
    help="every other step, both captions of an image lie near each other and above its negative; else CLIP's own loss.",
    source="Peleg et al., NeurIPS 2025: the text tower alone; batch 4 × 200, lr 1e-6, decay 0.1, warm-up 20 %, 1 epoch. Their joined pictures "
    "are normalised by other statistics than the model's.",
    loss=compute_loss,
    weights={"pairs": 0.5, "negatives": 0.5, "together": 1.0},
    negatives=1,
    paraphrases=True,
)
