"""CLIC: bring two captions of an image close to each other, and closer to the image than its negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import clip_loss, contrastive_cross_entropy, distinct_image_mask, get_negatives

if TYPE_CHECKING:
    import torch


def compute_loss(
    encoded: Features, step: int, *, pairs: float, negatives: float, together: float
) -> torch.Tensor:
    """Return the loss of a step: the paper's loss in even steps, InfoNCE in odd ones.

    With captions p1 = y and p2 = p, the paper's loss is ``pairs`` · mean_m ½ [X(x → p_m) + X(p_m → x)] +
    ``negatives`` · the mean of softplus(s x_i·h_ik − s x_i·p_mi) + ``together`` · mean_i ‖p1_i − p2_i‖².

    In the paper, an image is two joined images, as in ``clic_joined``. Here it is one image with its own
    paraphrase and hard negatives. Rows without a paraphrase have only the terms of p1.
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
    """Return the mean of softplus(s x_i·h_ik − s x_i·p_mi) over the available negatives and captions."""
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
    help="in every other step, both captions of an image are brought close to each other and ranked above "
    "its negative; the other steps use CLIP's own loss.",
    source="Peleg et al., NeurIPS 2025: only the text tower is trained; batch 4 × 200, lr 1e-6, decay 0.1, "
    "warm-up 20 %, 1 epoch. Their joined images are normalised with other statistics than the "
    "model's.",
    loss=compute_loss,
    weights={"pairs": 0.5, "negatives": 0.5, "together": 1.0},
    negatives=1,
    paraphrases=True,
)
