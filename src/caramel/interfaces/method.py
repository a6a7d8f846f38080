"""What a way to train a CLIP contrastively is, and what its loss is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import torch


Joins = Callable[[str, str, np.random.Generator], str | None]
Pairing = Literal["own", "other", "apart"]


@dataclass(frozen=True)
class Features:
    """What a step encodes, once: n rows with up to K negatives each, in d dimensions; vectors are of unit length.

    What a method does not ask for is None. Rows are the first dimension of all but ``logit_scale``, ``logit_bias`` and ``state``.

    Attributes:
        image_features: (n, d), the positive images x.
        text_features: (n, d), their captions y.
        image_ids: (n,) whole numbers, equal where rows show one image: their captions are no negatives of each other.
        logit_scale: inverse temperature s, a scalar.
        logit_bias: of the logits, a scalar (SigLIP).
        negative_texts: (n, K, d), the hard negatives h.
        negative_mask: (n, K) truth values: which of the negatives a row has; the others hold anything finite.
        negative_types: (n, K) whole numbers from 0: the subtype of each negative.
        negative_images: (n, K, d), images x' of which the negatives are true.
        negative_image_ids: (n, K), as ``image_ids`` and in the same numbers.
        paraphrases: (n, d), second captions p.
        paraphrased: (n,) truth values: which rows have one.
        patches: (n, P, d), patches of the positive images, projected and of any length.
        words: (n, 1 + K, L, d), tokens of the captions and of their negatives behind them, as ``patches``.
        is_word: (n, 1 + K, L) truth values: neither start nor padding.
        teacher: the same of the teacher, without gradient.
        state: what the method carries from step to step.
    """

    image_features: torch.Tensor
    text_features: torch.Tensor
    image_ids: torch.Tensor
    logit_scale: torch.Tensor
    logit_bias: torch.Tensor | None = None
    negative_texts: torch.Tensor | None = None
    negative_mask: torch.Tensor | None = None
    negative_types: torch.Tensor | None = None
    negative_images: torch.Tensor | None = None
    negative_image_ids: torch.Tensor | None = None
    paraphrases: torch.Tensor | None = None
    paraphrased: torch.Tensor | None = None
    patches: torch.Tensor | None = None
    words: torch.Tensor | None = None
    is_word: torch.Tensor | None = None
    teacher: Features | None = None
    state: torch.Tensor | None = None


@dataclass(frozen=True)
class State:
    """What a method carries from step to step: one tensor.

    Attributes:
        start: number of kinds of negatives -> the tensor before the first step.
        after: (what a step encoded, the method's weights) -> the tensor for the next step; no gradient flows through it.
    """

    start: Callable[[int], torch.Tensor]
    after: Callable[[Features, Mapping[str, float]], torch.Tensor]


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        name: as in ``finetune.variants``.
        help: what it does with the negatives, in words, as docs/graph.md says it.
        source: who published it, and the settings there.
        loss: (encoded, the step's number from 0, **weights) -> scalar.
        weights: keyword arguments of the loss, as published.
        negatives: hard negative texts of a row that it takes, as published; 0: none.
        images: whether each negative must have its image.
        captions: whether it takes the negatives' captions; else their images alone.
        pairing: whose negatives stand beside a row: its own; those of another row, one drawn for the whole training; or none,
            each negative being a row apart with its caption and its image, drawn by itself.
        drawn: whether a row's negatives are drawn anew at each visit, where it has more than are taken; else the first are.
        neighbours: nearest images of a row, one of which is drawn as a further row of its batch; 0: none.
        paraphrases: whether it takes second captions.
        joins: where every other step joins each row with one of another image, their pictures, and their captions both ways as
            caption and paraphrase: gives the negative of two captions in that order, or None if there is none.
        parts: whether it takes patches and words.
        bias: whether its logits have a bias.
        teacher: decay of the weights' average by which a teacher follows, in [0, 1]; None: there is none.
        state: what it carries from step to step.
    """

    name: str
    help: str
    source: str
    loss: Callable[..., torch.Tensor]
    weights: Mapping[str, float] = field(default_factory=dict)
    negatives: int = 0
    images: bool = False
    captions: bool = True
    pairing: Pairing = "own"
    drawn: bool = False
    neighbours: int = 0
    paraphrases: bool = False
    joins: Joins | None = None
    parts: bool = False
    bias: bool = False
    teacher: float | None = None
    state: State | None = None
