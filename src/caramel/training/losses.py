"""Compute the terms of contrastive losses of dual encoders from the features of a step.

X(a → b ⊕ c) is the mean over rows of the cross-entropy of a_i with its own b_i, among all b and all c. A
missing negative is a column of minus infinity, never a logit of 0. So is the caption of another row that
shows the same image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features

if TYPE_CHECKING:
    import torch


def contrastive_cross_entropy(
    queries: torch.Tensor,
    keys: torch.Tensor,
    scale: torch.Tensor,
    *,
    key_mask: torch.Tensor,
    negatives: torch.Tensor | None = None,
    negative_mask: torch.Tensor | None = None,
    own_negatives: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return X(queries → keys ⊕ negatives), a scalar; 0 if no row has a loss.

    Args:
        queries: (n, d).
        keys: (n, d); row i belongs to query i.
        scale: inverse temperature, a scalar.
        key_mask: (n, n) booleans: which keys are columns of which query. A row without its own key has no
            loss.
        negatives: (…, d), further columns of every query.
        negative_mask: (…) booleans: which negatives are available.
        own_negatives: (n, d); row i is a further column of query i alone.
    """
    import torch
    from torch.nn.functional import cross_entropy

    rows, target = key_mask.diagonal(), torch.arange(len(keys), device=keys.device)
    columns = key_mask | torch.diag(~rows)  # a row without a loss gets a finite one, which is left out
    logits = (scale * queries @ keys.T).masked_fill(~columns, -torch.inf)
    if negatives is not None:
        assert negative_mask is not None
        further = scale * queries @ negatives.flatten(0, -2).T
        logits = torch.cat([logits, further.masked_fill(~negative_mask.flatten(), -torch.inf)], 1)
    if own_negatives is not None:
        logits = torch.cat([logits, scale * (queries * own_negatives).sum(1, keepdim=True)], 1)
    losses = cross_entropy(logits, target, reduction="none")
    return (losses * rows).sum() / rows.sum().clamp(min=1)


def distinct_image_mask(image_ids: torch.Tensor) -> torch.Tensor:
    """Return a mask (n, n) of the pairs and the negatives: it excludes different rows of one image."""
    import torch

    same = image_ids[:, None] == image_ids[None, :]
    return ~same | torch.eye(len(image_ids), dtype=torch.bool, device=image_ids.device)


def clip_loss(
    images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor, key_mask: torch.Tensor
) -> torch.Tensor:
    """Return InfoNCE: ½ [X(x → y) + X(y → x)]."""
    to_text = contrastive_cross_entropy(images, texts, scale, key_mask=key_mask)
    return (to_text + contrastive_cross_entropy(texts, images, scale, key_mask=key_mask.T)) / 2


def hard_negative_clip_loss(
    images: torch.Tensor,
    texts: torch.Tensor,
    scale: torch.Tensor,
    key_mask: torch.Tensor,
    negatives: torch.Tensor,
    negative_mask: torch.Tensor,
) -> torch.Tensor:
    """Return Neg(x, y, h) = ½ [X(x → y ⊕ h) + X(y → x)]: every row's negatives are columns of every image.

    This is the loss of NegCLIP (Yuksekgonul et al., ICLR 2023, 4.1), for any number of negatives.
    """
    to_text = contrastive_cross_entropy(
        images, texts, scale, key_mask=key_mask, negatives=negatives, negative_mask=negative_mask
    )
    return (to_text + contrastive_cross_entropy(texts, images, scale, key_mask=key_mask.T)) / 2


def negclip_loss(encoded: Features) -> torch.Tensor:
    """Return Neg(x, y, h) of the rows; see ``hard_negative_clip_loss``."""
    negatives, negative_mask = get_negatives(encoded)
    key_mask = distinct_image_mask(encoded.image_ids)
    return hard_negative_clip_loss(
        encoded.image_features, encoded.text_features, encoded.logit_scale, key_mask, negatives, negative_mask
    )


def compute_sigmoid_loss(encoded: Features) -> torch.Tensor:
    """Return −(1/n) Σ_ij ln σ(z_ij (s x_i·y_j + b)) with z = 1 on the diagonal and −1 elsewhere.

    Pairs of different rows of one image are left out.
    """
    import torch
    from torch.nn.functional import logsigmoid

    assert encoded.logit_bias is not None
    n = len(encoded.image_features)
    logits = encoded.logit_scale * encoded.image_features @ encoded.text_features.T + encoded.logit_bias
    signs = 2 * torch.eye(n, device=logits.device, dtype=logits.dtype) - 1
    return -(logsigmoid(signs * logits) * distinct_image_mask(encoded.image_ids)).sum() / n


def get_negatives(encoded: Features) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the negative texts (n, K, d) and the mask of the available ones (n, K)."""
    assert encoded.negative_texts is not None
    assert encoded.negative_mask is not None
    return encoded.negative_texts, encoded.negative_mask


def per_row_logits(
    anchors: torch.Tensor, firsts: torch.Tensor, others: torch.Tensor, scale: torch.Tensor | float
) -> torch.Tensor:
    """Return scale times the cosines of each row's anchor with its first and its other vectors, (n, 1 + K).

    The shapes are (n, d) for ``anchors`` and ``firsts``, and (n, K, d) for ``others``.
    """
    import torch

    vectors = torch.cat([firsts[:, None], others], 1)
    return scale * (vectors * anchors[:, None]).sum(2)


def mask_missing_negatives(logits: torch.Tensor, negative_mask: torch.Tensor) -> torch.Tensor:
    """Return logits (n, 1 + K) with minus infinity for missing negatives; the mask is (n, K)."""
    import torch

    return logits.masked_fill(~torch.nn.functional.pad(negative_mask, (1, 0), value=True), -torch.inf)


def per_row_cross_entropy(logits: torch.Tensor, negative_mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of −ln softmax₀ of logits (n, 1 + K) over rows with a negative; 0 if none has."""
    # Rows without a negative have one column and so a loss of 0.
    return -mask_missing_negatives(logits, negative_mask).log_softmax(1)[:, 0].sum() / negative_mask.any(
        1
    ).sum().clamp(min=1)
