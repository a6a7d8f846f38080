"""Interface of a contrastive training method and the inputs of its loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import torch


Joins = Callable[[str, str, np.random.Generator], str | None]
ListPhrases = Callable[[str], list[str]]
FindUnit = Callable[[str, str], tuple[str, str]]
Pairing = Literal["own", "other", "apart"]


@dataclass(frozen=True)
class Features:
    """Encoded inputs of a step, computed once: n rows, up to K negatives each, d dimensions, unit vectors.

    What a method does not use is None. Rows are the first dimension of all but ``logit_scale``,
    ``logit_bias`` and ``state``.

    Attributes:
        image_features: (n, d), the positive images x.
        text_features: (n, d), their captions y.
        image_ids: (n,) integers, equal for rows of one image: its captions are never negatives for each
            other.
        logit_scale: inverse temperature s, a scalar.
        logit_bias: bias of the logits, a scalar (SigLIP).
        negative_texts: (n, K, d), the hard negatives h.
        negative_mask: (n, K) booleans: which negatives a row has; the other entries may hold any finite
            values.
        negative_types: (n, K) integers from 0: the subtype of each negative.
        negative_images: (n, K, d), images x' for which the negatives are true.
        negative_image_ids: (n, K), numbered like ``image_ids``.
        paraphrases: (n, d), second captions p.
        paraphrased: (n,) booleans: which rows have a paraphrase.
        patches: (n, P, d), patches of the positive images, projected, not normalised.
        words: (n, 1 + K, L, d), tokens of the captions, followed by those of their negatives, like
            ``patches``.
        is_word: (n, 1 + K, L) booleans: neither start token nor padding.
        phrases: (n, P, d), phrases of the captions.
        phrase_mask: (n, P) booleans: which phrases a row has; the others may hold any finite values.
        foils: (n, P, d), a false counterpart of each phrase.
        teacher: the same features of the teacher, without gradient.
        state: tensor that the method carries from step to step.
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
    phrases: torch.Tensor | None = None
    phrase_mask: torch.Tensor | None = None
    foils: torch.Tensor | None = None
    teacher: Features | None = None
    state: torch.Tensor | None = None


@dataclass(frozen=True)
class State:
    """The tensor that a method carries from step to step.

    Attributes:
        start: number of negative types -> the tensor before the first step.
        after: (features of a step, weights of the method) -> the tensor for the next step; without gradient.
    """

    start: Callable[[int], torch.Tensor]
    after: Callable[[Features, Mapping[str, float]], torch.Tensor]


@dataclass(frozen=True)
class Method:
    """A training method.

    Attributes:
        name: name in ``finetune.variants``.
        help: how it uses the negatives, as in docs/graph.md.
        source: publication, and its settings.
        loss: (features, step number from 0, **weights) -> scalar.
        weights: keyword arguments of the loss, as published.
        negatives: number of hard negative texts per row, as published; 0: none.
        images: whether each negative needs its image.
        captions: whether it uses the negatives' captions; otherwise only their images.
        pairing: source of a row's negatives: the row itself; another row, drawn once for the whole training;
            or none, so that each negative is a separate row with its caption and image, drawn on its own.
        drawn: whether a row's negatives are drawn again at each visit if it has more than are used; otherwise
            the first ones are used.
        neighbours: number of nearest images of a row, one of which is drawn as a further row of its batch; 0:
            none.
        paraphrases: whether it uses second captions.
        joins: if every other step joins each row with one of another image (their images side by side, and
            their captions in both orders as caption and paraphrase): returns the negative of two captions in
            that order, or None if there is none.
        phrases: if it uses phrases of captions: returns those of a caption, in order.
        most_phrases: number of phrases of a caption that it uses, the first ones.
        units: if it uses phrases that negatives change: returns the unit of a caption and the foil of its
            negative, for each of a row's negatives.
        patches: whether it uses patches.
        parts: whether it uses patches and words.
        bias: whether its logits have a bias.
        teacher: decay of the moving average of weights that is the teacher, in [0, 1]; None: no teacher.
        state: tensor that it carries from step to step.
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
    phrases: ListPhrases | None = None
    most_phrases: int = 0
    units: FindUnit | None = None
    patches: bool = False
    parts: bool = False
    bias: bool = False
    teacher: float | None = None
    state: State | None = None
