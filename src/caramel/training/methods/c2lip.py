"""C2LIP: align an image with each noun phrase of its caption, whole and through its patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caramel.interfaces.method import Features, Method
from caramel.training.data.caption_phrases import find_noun_phrases
from caramel.training.losses import compute_sigmoid_loss

if TYPE_CHECKING:
    import torch

EPSILON = 1e-16  # least squared length of a pooled vector, as in the authors' code


def compute_loss(encoded: Features, step: int, *, concepts: float, attended: float) -> torch.Tensor:
    """Return SigLIP's loss + ``concepts`` · C(x) + ``attended`` · C(v).

    C(a) = −(1/N) Σ_ij ln σ(z_ij (s a_ij·c_j + b)), over all images i and all N phrases c_j of the batch, with
    z = 1 if c_j is a phrase of caption i, and −1 otherwise. a_ij is the image x_i itself, or v_ij: the unit
    vector of Σ_p softmax_p(c_j·p_ip) p_ip over the image's patches p_ip, as unit vectors.

    Phrases of another row of the same image are left out. In the published code they are negatives, and so is
    a phrase that is true of another image, also here. A batch without phrases has SigLIP's loss.
    """
    import torch
    from torch.nn.functional import normalize

    assert encoded.phrases is not None
    assert encoded.phrase_mask is not None
    assert encoded.patches is not None
    phrases = encoded.phrases[encoded.phrase_mask]  # (N, d)
    patches = normalize(encoded.patches, dim=2)
    scores = torch.einsum("npd,cd->ncp", patches, phrases)
    weights = scores.softmax(2)
    # |Σ_p w_p p|² = wᵀ (p pᵀ) w: the pooled vectors of all pairs, (n, N, d), are never in memory.
    lengths = ((weights @ (patches @ patches.mT)) * weights).sum(2).clamp(min=EPSILON).sqrt()
    whole = compute_concept_loss(encoded, encoded.image_features @ phrases.T)
    by_patches = compute_concept_loss(encoded, (weights * scores).sum(2) / lengths)
    return compute_sigmoid_loss(encoded) + concepts * whole + attended * by_patches


def compute_concept_loss(encoded: Features, cosines: torch.Tensor) -> torch.Tensor:
    """Return C of the cosines (n, N) of images and phrases; 0 without phrases."""
    import torch
    from torch.nn.functional import logsigmoid

    assert encoded.phrase_mask is not None
    assert encoded.logit_bias is not None
    row = encoded.phrase_mask.nonzero()[:, 0]  # of each phrase
    is_own = torch.arange(len(cosines), device=cosines.device)[:, None] == row
    counted = is_own | (encoded.image_ids[:, None] != encoded.image_ids[row])
    logits = encoded.logit_scale * cosines + encoded.logit_bias
    signs = 2 * is_own.to(logits.dtype) - 1
    return -(logsigmoid(signs * logits) * counted).sum() / max(1, len(row))


METHOD = Method(
    name="c2lip",
    help="none; SigLIP's loss, and two terms that match an image with each noun phrase of its caption, "
    "whole and by the patches that the phrase attends to.",
    source="Pham et al., CVPR 2026 (arXiv 2603.25722), and their code: SigLIP B/16, batch 8 × 96, lr 1e-5, "
    "decay 0.1, warm-up 50, 5 epochs. There a language model or spaCy lists all noun phrases of a caption, "
    "and the patches pass SigLIP's value projection and MLP; here they pass the tower's own projection.",
    loss=compute_loss,
    weights={"concepts": 1.0, "attended": 0.01},
    phrases=find_noun_phrases,
    most_phrases=4,
    patches=True,
    bias=True,
)
