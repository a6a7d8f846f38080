"""A batch encoded once: what a method's loss is given, and nothing that it does not ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from caramel.interfaces.method import Encoded, Method
from caramel.models.open_clip.encoder import encode_text, normalised, picture_vectors
from caramel.models.open_clip.patch_tokens import image_parts
from caramel.models.open_clip.text_padding import text_parts
from caramel.training.data.batch import Batch

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.checkpoints import Clip

AS_IN_BATCH = ("image_of", "there", "kinds", "negative_image_of", "paraphrased")


def encode(clip: Clip, method: Method, batch: Batch) -> Encoded:
    """Return the batch as the model has it; in fp32, with gradient.

    All pictures go through the model at once, and so do all texts.
    """
    from torch.nn.utils.parametrize import cached

    with cached():  # a corrected weight is made once, however often a layer asks for it
        found: dict[str, Any] = {**_images(clip, method, batch), **_texts(clip, method, batch)}
    found |= {**temperature(clip, method), **{name: getattr(batch, name) for name in AS_IN_BATCH}}
    return Encoded(**found)


def temperature(clip: Clip, method: Method) -> dict[str, torch.Tensor]:
    """Return the inverse temperature, and the bias where the method has one."""
    scale = {"scale": clip.model.logit_scale.exp()}
    return {**scale, "bias": clip.model.logit_bias} if method.bias else scale


def _images(clip: Clip, method: Method, batch: Batch) -> dict[str, torch.Tensor]:
    """Return vectors of the pictures, and the patches of the positive ones."""
    n = len(batch.images)
    found: dict[str, torch.Tensor] = {}
    stack = _stacked([batch.images, batch.negative_images], batch.images.ndim - 1)
    if method.parts:
        vectors, patches = image_parts(clip.model, normalised(clip, stack))
        found["patches"] = patches[:n].float()
    else:
        vectors = picture_vectors(clip, stack)
    vectors = vectors.float()
    found["images"] = vectors[:n]
    if batch.negative_images is not None:
        found["negative_images"] = vectors[n:].view(*batch.negative_images.shape[:2], -1)
    return found


def _texts(clip: Clip, method: Method, batch: Batch) -> dict[str, torch.Tensor]:
    """Return vectors of the captions, their negatives and paraphrases, and the words of the first two."""
    import torch

    n = len(batch.texts)
    found: dict[str, torch.Tensor] = {}
    tokens = _stacked([batch.texts, batch.negative_texts, batch.paraphrases], 1)
    if method.parts:
        vectors, words, is_word = text_parts(clip.model, tokens, batch.columns)
        for name, value in (("words", words.float()), ("is_word", is_word)):
            behind = value[n:].view(n, -1, *value.shape[1:])
            found[name] = torch.cat([value[:n, None], behind], 1)
    else:
        vectors = encode_text(clip, tokens, batch.columns)
    vectors = vectors.float()
    found["texts"] = vectors[:n]
    if batch.negative_texts is not None:
        end = n + batch.negative_texts.shape[:2].numel()
        found["negative_texts"] = vectors[n:end].view(*batch.negative_texts.shape[:2], -1)
    if batch.paraphrases is not None:
        found["paraphrases"] = vectors[-n:]
    return found


def _stacked(parts: list[torch.Tensor | None], dimensions: int) -> torch.Tensor:
    """Return what is there of the parts as one stack of things that have so many dimensions."""
    import torch

    return torch.cat([part.flatten(0, -dimensions - 1) for part in parts if part is not None])
