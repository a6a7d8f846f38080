"""CS-CLIP: rank each phrase that a negative changes above its false counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.data.caption_phrases import find_changed_phrases
from caramel.training.losses import contrastive_cross_entropy, distinct_image_mask, negclip_loss

if TYPE_CHECKING:
    import torch


def compute_loss(encoded: Features, step: int, *, units: float) -> torch.Tensor:
    """Return Neg(x, y, h) + ``units`` · mean_k ½ [X(x → u_k ⊕ own f_k) + X(u_k → x)].

    u_k is the k-th unit of each caption, an entity or a relation, and f_k its foil, the unit with a minimal
    edit. A foil is a column of its own image alone. Each k has the rows that have a k-th unit; it counts as 0
    if there is none.
    """
    import torch

    phrases, foils, mask = encoded.phrases, encoded.foils, encoded.phrase_mask
    assert phrases is not None
    assert foils is not None
    assert mask is not None
    distinct = distinct_image_mask(encoded.image_ids)
    terms = []
    for k in range(phrases.shape[1]):
        key_mask = distinct & mask[:, k]
        to_unit = contrastive_cross_entropy(
            encoded.image_features,
            phrases[:, k],
            encoded.logit_scale,
            key_mask=key_mask,
            own_negatives=foils[:, k],
        )
        from_unit = contrastive_cross_entropy(
            phrases[:, k], encoded.image_features, encoded.logit_scale, key_mask=key_mask & mask[:, k, None]
        )
        terms.append((to_unit + from_unit) / 2)
    return negclip_loss(encoded) + units * torch.stack(terms).mean()


METHOD = Method(
    name="cs_clip",
    help="as `trohn_text`, with two negatives. A further term ranks the phrase that a negative changes, an "
    "entity or a relation, above the negative's phrase.",
    source="Kargi et al., 2026 (arXiv 2602.23906), and their code: batch 128, lr 5e-6, decay 0.01, 5 epochs, "
    "two units per caption. There a language model writes units and foils; here they are the phrases in "
    "which a row's negative differs from its caption.",
    loss=compute_loss,
    weights={"units": 0.5},
    negatives=2,
    units=find_changed_phrases,
)
