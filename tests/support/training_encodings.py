"""What a step encodes, made up: random unit vectors with all that any training method asks for."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn.functional import normalize

from caramel.interfaces.method import Features, Method

KINDS = 3


def made_up(
    seed: int, n: int = 4, k: int = 3, d: int = 5, *, missing: float = 0.3, shared: bool = True
) -> Features:
    """Return an encoding in float64 of n rows with k negatives, some of which are missing, some rows of one image."""
    generator = torch.Generator().manual_seed(seed)

    def vectors(*shape: int) -> torch.Tensor:
        return normalize(torch.randn(*shape, d, generator=generator, dtype=torch.float64), dim=-1)

    def some(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator) >= missing

    def once() -> Features:
        return Features(
            image_features=vectors(n),
            text_features=vectors(n),
            image_ids=torch.randint(0, n - 1 if shared else 10**9, (n,), generator=generator),
            logit_scale=torch.tensor(4.0, dtype=torch.float64),
            logit_bias=torch.tensor(-2.0, dtype=torch.float64),
            negative_texts=vectors(n, k),
            negative_mask=some(n, k),
            negative_types=torch.randint(0, KINDS, (n, k), generator=generator),
            negative_images=vectors(n, k),
            negative_image_ids=100
            + torch.randint(0, n * k - 1 if shared else 10**9, (n, k), generator=generator),
            paraphrases=vectors(n),
            paraphrased=some(n),
            patches=1.5 * vectors(n, 4),
            words=0.7 * vectors(n, 1 + k, 6),
            is_word=torch.cat([torch.ones(n, 1 + k, 1, dtype=torch.bool), some(n, 1 + k, 5)], 2),
            state=torch.rand(KINDS, generator=generator, dtype=torch.float64),
            phrases=vectors(n, k),
            phrase_mask=some(n, k),
            foils=vectors(n, k),
        )

    teacher = once()
    return replace(once(), teacher=teacher)


def loss_of(method: Method, encoded: Features, step: int = 0) -> torch.Tensor:
    """Return the loss with the method's own weights."""
    return method.loss(encoded, step, **method.weights)
