"""FSC-CLIP: a selectively calibrated loss on a row's own negatives, for whole texts and for their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.losses import (
    clip_loss,
    distinct_image_mask,
    get_negatives,
    mask_missing_negatives,
    per_row_logits,
)

if TYPE_CHECKING:
    import torch


def compute_loss(
    encoded: Features, step: int, *, whole: float, local: float, focus: float, smoothing: float
) -> torch.Tensor:
    """Return InfoNCE + ``whole`` · G + ``local`` · ℓ; InfoNCE has no columns of negatives.

    G is ``calibrated_cross_entropy`` of s x_i·[y_i, h_i]. ℓ is the same of S(x_i, [y_i, h_i]), which compares
    words and patches (``local_similarity``).
    """
    negatives, negative_mask = get_negatives(encoded)
    batch = clip_loss(
        encoded.image_features,
        encoded.text_features,
        encoded.logit_scale,
        distinct_image_mask(encoded.image_ids),
    )
    logits = per_row_logits(encoded.image_features, encoded.text_features, negatives, encoded.logit_scale)
    in_texts = calibrated_cross_entropy(logits, negative_mask, focus=focus, smoothing=smoothing)
    in_words = calibrated_cross_entropy(
        local_similarity(encoded), negative_mask, focus=focus, smoothing=smoothing
    )
    return batch + whole * in_texts + local * in_words


def calibrated_cross_entropy(
    logits: torch.Tensor, negative_mask: torch.Tensor, *, focus: float, smoothing: float
) -> torch.Tensor:
    """Return the mean of Σ_c q_c (1 − π_c)^focus (−ln π_c) over the rows that have a negative; 0 if none has.

    π is the softmax of the logits (n, 1 + K). With K_i available negatives and β = ``smoothing``,
    q_0 = 1 − β + β / (K_i + 1) and q_k = β / (K_i + 1). The gradient also flows through 1 − π.
    """
    import torch

    logs = mask_missing_negatives(logits, negative_mask).log_softmax(1)
    option_mask = torch.nn.functional.pad(negative_mask, (1, 0), value=True)
    share = smoothing / option_mask.sum(1, keepdim=True).to(logs.dtype)
    targets = torch.cat([1 - smoothing + share, share.expand_as(logs[:, 1:])], 1)
    logs = logs.masked_fill(~option_mask, 0.0)  # minus infinity times 0 would be NaN
    terms = targets * (1 - logs.exp()) ** focus * -logs
    return (terms * option_mask).sum() / negative_mask.any(1).sum().clamp(
        min=1
    )  # a row without negatives has π₀ = 1 and terms of 0


def local_similarity(encoded: Features) -> torch.Tensor:
    """Return S(x_i, T) of each row's image with its caption and its negatives, (n, 1 + K).

    For patches V and words W:

    - A = W Vᵀ without gradient; over the patches it is scaled to [0, 1] (minimum 0, maximum 1), then divided
      by its sum. If all patches are equal, each has the same weight (their code: NaN).
    - u_t is the unit vector of Σ_p A_tp V_p, and w_t the unit vector of W_t.
    - S = ln Σ_t e^(s u_t·w_t).
    """
    import torch
    from torch.nn.functional import normalize

    assert encoded.patches is not None
    assert encoded.words is not None
    assert encoded.is_word is not None
    patches, words = encoded.patches, encoded.words
    with torch.no_grad():
        weights = torch.einsum("nktd,npd->nktp", words, patches)
        low, high = weights.aminmax(dim=3, keepdim=True)
        weights = torch.where(high > low, (weights - low) / (high - low), 1.0)
        weights = weights / weights.sum(3, keepdim=True)
    attended = normalize(torch.einsum("nktp,npd->nktd", weights, patches), dim=3)
    logits = encoded.logit_scale * (attended * normalize(words, dim=3)).sum(3)
    return logits.masked_fill(~encoded.is_word, -torch.inf).logsumexp(2)


METHOD = Method(
    name="fsc_clip",
    help="CLIP's own loss, and two terms that separate an image's caption from its own three negatives: "
    "one compares whole texts, the other words and patches.",
    source="Oh et al., EMNLP 2024: batch 256, lr 5e-6, decay 0.1, warm-up 50, 5 epochs; `local` 0.5 for "
    "B/16 and L/14. In their code a missing negative enters as a logit of 0.",
    loss=compute_loss,
    weights={"whole": 0.5, "local": 0.2, "focus": 2.0, "smoothing": 0.02},
    negatives=3,
    parts=True,
)
