"""Encode a batch once, into the features that a method's loss needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caramel.interfaces.method import Features, Method
from caramel.models.open_clip.encoder import encode_image, encode_text, normalise_pixels
from caramel.models.open_clip.patch_tokens import encode_image_patches
from caramel.models.open_clip.text_padding import encode_text_words
from caramel.training.data.batch import TEXTS, Batch

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip

AS_IN_BATCH = (
    "image_ids",
    "negative_mask",
    "negative_types",
    "negative_image_ids",
    "paraphrased",
    "phrase_mask",
)


def encode_batch(clip: Clip, method: Method, batch: Batch) -> Features:
    """Return the features of a batch in fp32, with gradient.

    All images go through the model in one pass, and so do all texts.
    """
    from torch.nn.utils.parametrize import cached

    with cached():  # a weight with a low-rank update is computed only once
        tensors: dict[str, Any] = {
            **_encode_images(clip, method, batch),
            **_encode_texts(clip, method, batch),
        }
    tensors |= {**compute_logit_params(clip, method), **{name: getattr(batch, name) for name in AS_IN_BATCH}}
    return Features(**tensors)


def compute_logit_params(clip: Clip, method: Method) -> dict[str, torch.Tensor]:
    """Return the inverse temperature, and the bias if the method has one."""
    scale = {"logit_scale": clip.model.logit_scale.exp()}
    return {**scale, "logit_bias": clip.model.logit_bias} if method.bias else scale


def _encode_images(clip: Clip, method: Method, batch: Batch) -> dict[str, torch.Tensor]:
    """Return the vectors of the images, and the patches of the positive images."""
    n = len(batch.images)
    tensors: dict[str, torch.Tensor] = {}
    stack = _stack_tensors([batch.images, batch.negative_images], batch.images.ndim - 1)
    if method.parts or method.patches:
        vectors, patches = encode_image_patches(clip.model, normalise_pixels(clip, stack))
        tensors["patches"] = patches[:n].float()
    else:
        vectors = encode_image(clip, stack)
    vectors = vectors.float()
    tensors["image_features"] = vectors[:n]
    if batch.negative_images is not None:
        tensors["negative_images"] = vectors[n:].view(*batch.negative_images.shape[:2], -1)
    return tensors


def _encode_texts(clip: Clip, method: Method, batch: Batch) -> dict[str, torch.Tensor]:
    """Return the vectors of all texts, and the words of captions and negatives."""
    import torch

    texts = {name: tokens for name in TEXTS if (tokens := getattr(batch, name)) is not None}
    counts = [tokens.shape[:-1].numel() for tokens in texts.values()]
    tokens = _stack_tensors(list(texts.values()), 1)
    tensors: dict[str, torch.Tensor] = {}
    if method.parts:
        vectors, words, is_word = encode_text_words(clip.model, tokens, batch.columns)
        n = len(batch.texts)
        for name, value in (("words", words.float()), ("is_word", is_word)):
            behind = value[n:].view(n, -1, *value.shape[1:])
            tensors[name] = torch.cat([value[:n, None], behind], 1)
    else:
        vectors = encode_text(clip, tokens, batch.columns)
    for (name, tokens), part in zip(texts.items(), torch.split(vectors.float(), counts), strict=True):
        tensors["text_features" if name == "texts" else name] = part.view(*tokens.shape[:-1], -1)
    return tensors


def _stack_tensors(parts: list[torch.Tensor | None], dimensions: int) -> torch.Tensor:
    """Return the parts that are not None as one stack of items with ``dimensions`` dimensions each."""
    import torch

    return torch.cat([part.flatten(0, -dimensions - 1) for part in parts if part is not None])
