"""Sample tokens by a random generator for each request, from truncated distributions.

Truncation follows transformers' and vLLM's order: the temperature first, then top-p (Holtzman et al. 2020),
then min-p (Nguyen et al. 2024, arXiv 2407.01082). llama.cpp applies the temperature last, so that equal
settings there truncate more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from caramel.interfaces.language_model import Request

if TYPE_CHECKING:
    import torch


class GumbelMaxProcessor:
    """Adds Gumbel noise to logits: the largest is then the token sampled at the request's temperature."""

    def __init__(self, requests: Sequence[Request]) -> None:
        import torch

        self._requests = requests
        self._generators = [torch.Generator().manual_seed(request.seed) for request in requests]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (n, tokens); input_ids (n, length) are not used."""
        import torch

        scores = scores.float()
        for row, (request, generator) in enumerate(zip(self._requests, self._generators, strict=True)):
            if request.temperature:
                uniform = torch.rand(scores.shape[1], generator=generator, dtype=torch.float64)
                gumbel = -(-uniform.clamp_min(1e-300).log()).log()
                scores[row] = truncate_logits(scores[row] / request.temperature, request) + gumbel.to(scores)
        return scores


def truncate_logits(logits: torch.Tensor, request: Request) -> torch.Tensor:
    """Return logits (tokens,) with minus infinity for tokens outside the request's top_p and min_p."""
    from transformers import LogitsProcessorList, MinPLogitsWarper, TopPLogitsWarper

    warpers = LogitsProcessorList()
    if request.top_p < 1:
        warpers.append(TopPLogitsWarper(request.top_p))
    if request.min_p > 0:
        warpers.append(MinPLogitsWarper(request.min_p))
    return warpers(None, logits[None])[0] if warpers else logits
