"""DeGLA: own negatives among images and among texts, close to a teacher that follows slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Encoded, Method
from caramel.training.losses import neg, negatives_of, own, own_cross_entropy

if TYPE_CHECKING:
    import torch

BATCH = 256  # rows that the published weight of the distance is for: it is a sum over the batch


def loss(
    encoded: Encoded, step: int, *, image: float, text: float, distance: float, text_scale: float
) -> torch.Tensor:
    """Return Neg(x, y, h) + ``image`` · IGC + ``text`` · TGC + ``distance`` · Δ.

    IGC: −ln softmax₀ of s x_i·[y_i, h_i]. TGC: of ``text_scale`` y_i·[ȳ_i, h_i], ȳ being the teacher's; in their
    code, y_i meets the negatives of other rows there. Δ: squared distances of all vectors to the teacher's, summed,
    times 256 / n.
    """
    negatives, there = negatives_of(encoded)
    assert encoded.teacher is not None
    in_images = own(encoded.images, encoded.texts, negatives, encoded.scale)
    in_texts = own(encoded.texts, encoded.teacher.texts, negatives, text_scale)
    grounded = image * own_cross_entropy(in_images, there) + text * own_cross_entropy(in_texts, there)
    return neg(encoded) + grounded + distance * to_teacher(encoded)


def to_teacher(encoded: Encoded) -> torch.Tensor:
    """Return Δ of images, captions and the negatives that there are."""
    negatives, there = negatives_of(encoded)
    teacher = encoded.teacher
    assert teacher is not None
    assert teacher.negative_texts is not None
    further = ((negatives - teacher.negative_texts) ** 2).sum(2) * there
    total = ((encoded.images - teacher.images) ** 2).sum() + ((encoded.texts - teacher.texts) ** 2).sum()
    return (total + further.sum()) * (BATCH / len(there))


METHOD = Method(
    name="degla",
    help="as `trohn_text`, with four negatives; besides, images and texts tell a caption from its own negatives, and all vectors "
    "stay near those of a teacher, the average of the weights.",
    source="Hu et al., ACM MM 2025: batch 8 × 32, lr 1e-6, decay 0.1, warm-up 50, 5 epochs.",
    loss=loss,
    weights={"image": 0.1, "text": 0.1, "distance": 0.005, "text_scale": 10.0},
    negatives=4,
    teacher=0.9996,
)
