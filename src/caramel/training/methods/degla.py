"""DeGLA: a row's own negatives for its image and its text, and a distance to a slowly moving teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import get_negatives, negclip_loss, per_row_cross_entropy, per_row_logits

if TYPE_CHECKING:
    import torch

BATCH = 256  # rows: the batch size of the published weight of Δ, which is a sum over the batch


def compute_loss(
    encoded: Features, step: int, *, image: float, text: float, distance: float, text_scale: float
) -> torch.Tensor:
    """Return Neg(x, y, h) + ``image`` · IGC + ``text`` · TGC + ``distance`` · Δ.

    - IGC: −ln softmax₀ of s x_i·[y_i, h_i].
    - TGC: −ln softmax₀ of ``text_scale`` y_i·[ȳ_i, h_i] with the teacher's ȳ. In their code, y_i is compared
      with the negatives of other rows there.
    - Δ: sum of the squared distances of all vectors to the teacher's, times 256 / n.
    """
    negatives, negative_mask = get_negatives(encoded)
    assert encoded.teacher is not None
    in_images = per_row_logits(encoded.image_features, encoded.text_features, negatives, encoded.logit_scale)
    in_texts = per_row_logits(encoded.text_features, encoded.teacher.text_features, negatives, text_scale)
    grounded = image * per_row_cross_entropy(in_images, negative_mask) + text * per_row_cross_entropy(
        in_texts, negative_mask
    )
    return negclip_loss(encoded) + grounded + distance * teacher_distance(encoded)


def teacher_distance(encoded: Features) -> torch.Tensor:
    """Return Δ of images, captions and available negatives; see ``compute_loss``."""
    negatives, negative_mask = get_negatives(encoded)
    teacher = encoded.teacher
    assert teacher is not None
    assert teacher.negative_texts is not None
    further = ((negatives - teacher.negative_texts) ** 2).sum(2) * negative_mask
    total = ((encoded.image_features - teacher.image_features) ** 2).sum() + (
        (encoded.text_features - teacher.text_features) ** 2
    ).sum()
    return (total + further.sum()) * (BATCH / len(negative_mask))


METHOD = Method(
    name="degla",
    help="as `trohn_text`, with four negatives. Further terms separate a caption from its own negatives, "
    "for images and for texts, and keep all vectors close to those of a teacher, an average of the "
    "weights.",
    source="Hu et al., ACM MM 2025: batch 8 × 32, lr 1e-6, decay 0.1, warm-up 50, 5 epochs.",
    loss=compute_loss,
    weights={"image": 0.1, "text": 0.1, "distance": 0.005, "text_scale": 10.0},
    negatives=4,
    teacher=0.9996,
)
