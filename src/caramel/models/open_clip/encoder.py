"""Use open_clip models as dual encoders: batches in, vectors out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from caramel.interfaces.model import Embeddings, Identity
from caramel.io.image_codec import decode_image
from caramel.models.batching import run_in_batches, run_in_batches_by_length
from caramel.models.devices import resolve_precision, use_precision
from caramel.models.identity import get_package_versions, hash_weights
from caramel.models.open_clip.last_layer import compute_image_vectors
from caramel.models.open_clip.pixel_cache import load_pixels
from caramel.models.open_clip.text_padding import compute_text_lengths, compute_text_vectors
from caramel.runtime.ray.sharded_map import map_in_threads

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip


def decode_images(clip: Clip, images: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Return pixels, shape (n, 3, size, size), resized and cropped as the model needs them.

    Raises:
        DataError: an image does not decode; the message gives its index.
    """

    def decode_pixels(index: int) -> npt.NDArray[np.uint8]:
        return load_pixels(images[index], f"number {index}", decode_image, clip.to_pixels)

    return np.stack(map_in_threads(decode_pixels, range(len(images)))).transpose(0, 3, 1, 2)


def normalise_pixels(clip: Clip, pixels: torch.Tensor) -> torch.Tensor:
    """Return pixels (n, 3, size, size), normalised for the model, on the device where they are."""
    import torch

    # A blocking copy would wait for all pending work of the GPU.
    mean, std = (
        torch.tensor(v).view(1, 3, 1, 1).to(pixels.device, non_blocking=True) for v in (clip.mean, clip.std)
    )
    return (pixels.float() / 255 - mean) / std


def encode_image(clip: Clip, stack: torch.Tensor) -> torch.Tensor:
    """Return unit vectors (n, d) of pixels (n, 3, size, size), or of features (n, d) that were computed before."""
    return stack if stack.ndim == 2 else compute_image_vectors(clip.model, normalise_pixels(clip, stack))


def encode_text(clip: Clip, tokens: torch.Tensor, columns: int | None = None) -> torch.Tensor:
    """Return unit vectors (n, d) of tokens (n, context); padding is computed only where it matters.

    ``columns`` is the result of ``count_needed_columns`` for the tokens, if it is known already.
    """
    return compute_text_vectors(clip.model, tokens, columns)


class ClipEncoder:
    """A ``DualEncoder`` over an open_clip model; the score of a pair is the cosine of its vectors.

    SigLIP's own score is the sigmoid of scale · cosine + bias, with one scale and one bias for all pairs. It
    orders pairs as the cosine does. CoCa is scored by its contrastive vectors, not by its decoder.

    Args:
        clip: the model with its tokenizer and preprocessing.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.
        normalised: whether vectors are unit vectors, as those of a ``DualEncoder`` are; False: as projected, for probes.
    """

    def __init__(
        self, clip: Clip, device: str, precision: str, name: str, *, normalised: bool = True
    ) -> None:
        self.name = name
        self._clip, self._device, self._normalised = clip, device, normalised
        self._precision = resolve_precision(precision, device)

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the embeddings."""
        return {
            "family": "open_clip",
            "versions": get_package_versions("open_clip_torch", "timm", "torchvision", "transformers"),
            "weights": hash_weights(self._clip.model),
            "config": dict(self._clip.config),  # architecture, activation and preprocessing
            "vocabulary": self._clip.vocabulary,
            "precision": self._precision,
            "device": self._device.partition(":")[0],
            **({} if self._normalised else {"vectors": "projected, not normalised"}),
        }

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return vectors, shape (n, d), for encoded image files; n may be 0."""
        if not len(images):
            return self._create_empty_vectors()
        return run_in_batches(
            images,
            lambda files: decode_images(self._clip, files),
            self._embed_pixels,
            batch_size=batch_size,
            device=self._device,
            fill=True,
        )

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return vectors, shape (n, d), n may be 0; captions share batches with captions of the same length.

        Texts with equal tokens have bitwise equal vectors, so that they tie.
        """
        import torch

        if not len(texts):
            return self._create_empty_vectors()
        tokens, inverse = np.unique(tokenize_texts(self._clip, texts), axis=0, return_inverse=True)
        rows = run_in_batches_by_length(
            range(len(tokens)),
            compute_text_lengths(self._clip.model, torch.from_numpy(tokens)).tolist(),
            lambda indices: tokens[list(indices)],
            self._embed_tokens,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )
        return rows[inverse.reshape(-1)]

    def _create_empty_vectors(self) -> Embeddings:
        return np.zeros((0, self._clip.config["model_cfg"]["embed_dim"]), np.float32)

    def _embed_pixels(self, pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
        with self._use_inference_context():
            ready = normalise_pixels(self._clip, self._move_to_device(pixels))
            return compute_image_vectors(self._clip.model, ready, normalised=self._normalised)

    def _embed_tokens(self, tokens: npt.NDArray[np.int64]) -> torch.Tensor:
        with self._use_inference_context():
            ready = self._move_to_device(tokens)
            return compute_text_vectors(self._clip.model, ready, normalised=self._normalised)

    def _move_to_device(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.from_numpy(batch).to(self._device)

    @contextmanager
    def _use_inference_context(self) -> Iterator[None]:
        import torch

        # Not inference_mode: a model in training may keep a tensor of this pass and later compute gradients
        # through it.
        with torch.no_grad(), use_precision(self._device, self._precision):
            yield


def tokenize_texts(clip: Clip, texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the tokens (n, context) of the texts, n at least 1."""
    tokens: npt.NDArray[np.int64] = clip.tokenize(list(texts)).numpy()
    return tokens
