"""FSC-CLIP: own negatives only, with a selectively calibrated loss, of whole texts and of their words."""

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
    """Return InfoNCE + ``whole`` · G + ``local`` · ℓ: no negative is a column of InfoNCE.

    G: ``calibrated`` of s x_i·[y_i, h_i]; ℓ: of S(x_i, [y_i, h_i]) in words and patches (``local_similarity``).
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

    π = softmax of logits (n, 1 + K); q_0 = 1 − β + β / (K_i + 1) and q_k = β / (K_i + 1) of the K_i negatives that
    there are, β = ``smoothing``. The gradient flows through 1 − π, too.
    """
    import torch

    logs = mask_missing_negatives(logits, negative_mask).log_softmax(1)
    option_mask = torch.nn.functional.pad(negative_mask, (1, 0), value=True)
    share = smoothing / option_mask.sum(1, keepdim=True).to(logs.dtype)
    targets = torch.cat([1 - smoothing + share, share.expand_as(logs[:, 1:])], 1)
    logs = logs.masked_fill(~option_mask, 0.0)  # minus infinity, which no factor would make 0
    terms = targets * (1 - logs.exp()) ** focus * -logs
    return (terms * option_mask).sum() / negative_mask.any(1).sum().clamp(
        min=1
    )  # a row without any has π₀ = 1, and terms of 0


def local_similarity(encoded: Features) -> torch.Tensor:
    """Return S(x_i, T) of each row's image with its caption and its negatives, (n, 1 + K).

    Of patches V and words W: A = W Vᵀ without gradient, from least to most over the patches as 0 to 1 and divided by
    its sum; u_t the unit vector of Σ_p A_tp V_p; S = ln Σ_t e^(s u_t·w_t), w_t the unit vector of W_t. Where all
    patches are alike, each has the same weight (their code: NaN).
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
    help="each image tells its caption from its own three negatives, as a whole and by words and patches, beside CLIP's own loss.",
    source="Oh et al., EMNLP 2024: batch 256, lr 5e-6, decay 0.1, warm-up 50, 5 epochs; `local` 0.5 of B/16 and L/14. In their code a "
    "missing negative enters as a logit of 0.",
    loss=compute_loss,
    weights={"whole": 0.5, "local": 0.2, "focus": 2.0, "smoothing": 0.02},
    negatives=3,
    parts=True,
)
