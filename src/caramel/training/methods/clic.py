"""CLIC: two captions of an image near each other, and both nearer to it than the negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import apart, both_ways, contrast, negatives_of

if TYPE_CHECKING:
    import torch


def loss(encoded: Encoded, step: int, *, pairs: float, negatives: float, together: float) -> torch.Tensor:
    """Return the loss of a step: of even steps that of the paper on captions p1 = y and p2 = p, of odd ones InfoNCE.

    ``pairs`` · mean_m ½ [X(x → p_m) + X(p_m → x)] + ``negatives`` · the mean of softplus(s x_i·h_ik − s x_i·p_mi) +
    ``together`` · mean_i ‖p1_i − p2_i‖². There, pictures are two joined ones, as ``clic_joined`` has them; here
    one picture has a paraphrase and hard negatives of its own. Rows without a paraphrase have the terms of p1 alone.
    """
    counts = apart(encoded.image_of)
    first = both_ways(encoded.images, encoded.texts, encoded.scale, counts)
    if step % 2:
        return first
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    to_second = contrast(encoded.images, second, encoded.scale, counts=counts & has)
    from_second = contrast(second, encoded.images, encoded.scale, counts=counts & has[:, None])
    apart_ = ((encoded.texts - second) ** 2).sum(1)
    near = (apart_ * has).sum() / has.sum().clamp(min=1)
    batch = (first + (to_second + from_second) / 2) / 2
    return pairs * batch + negatives * below(encoded) + together * near


def below(encoded: Encoded) -> torch.Tensor:
    """Return the mean of softplus(s x_i·h_ik − s x_i·p_mi) over the negatives and captions that there are."""
    import torch
    from torch.nn.functional import softplus

    texts, there = negatives_of(encoded)
    second, has = encoded.paraphrases, encoded.paraphrased
    assert second is not None
    assert has is not None
    captions = torch.stack([encoded.texts, second], 1)  # (n, 2, d)
    captioned = torch.stack([torch.ones_like(has), has], 1)
    negative, positive = ((each * encoded.images[:, None]).sum(2) for each in (texts, captions))
    over = softplus(encoded.scale * (negative[:, :, None] - positive[:, None]))  # (n, K, 2)
    counts = there[:, :, None] & captioned[:, None]
    return (over * counts).sum() / counts.sum().clamp(min=1)


METHOD = Method(
    name="clic",
    help="every other step, both captions of an image lie near each other and above its negative; else CLIP's own loss.",
    source="Peleg et al., NeurIPS 2025: the text tower alone; batch 4 × 200, lr 1e-6, decay 0.1, warm-up 20 %, 1 epoch. Their joined pictures "
    "are normalised by other statistics than the model's.",
    loss=loss,
    weights={"pairs": 0.5, "negatives": 0.5, "together": 1.0},
    negatives=1,
    paraphrases=True,
)
