"""open_clip models as dual encoders: batches in, unit vectors out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from caramel.models.dual_encoder import Embeddings
from caramel.pictures import open_picture

if TYPE_CHECKING:
    import torch

    from caramel.models.checkpoints import Clip


def resolve_device(device: str) -> str:
    """Return ``cuda`` where ``auto`` finds a GPU, else ``cpu``; other names as they are."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def resolve_precision(precision: str, device: str) -> str:
    """Return ``bf16`` for ``auto`` where the device multiplies bf16 in hardware, else ``fp32``.

    Without such hardware a processor's bf16 products are many times slower than fp32 ones.
    """
    import torch

    if precision != "auto":
        return precision
    if device.startswith("cuda"):
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if capable else "fp32"


def compute(device: str, precision: str) -> dict[str, str]:
    """Return the device and the precision that training here means: they are part of its result."""
    device = resolve_device(device)
    return {"device": device, "precision": resolve_precision(precision, device)}


@contextmanager
def autocast(device: str, precision: str) -> Iterator[None]:
    """Run the block's forward passes in the precision.

    On a processor the plain attention kernel is taken in bf16: the backward pass of the fused
    one is slower than all the rest of a small model's step.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if precision == "fp32":
        yield
        return
    plain = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    with torch.autocast(device.partition(":")[0], dtype=torch.bfloat16), plain:
        yield


def decode(clip: Clip, images: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Return pixels, shape (n, 3, size, size), resized and cropped as the model wants them.

    Raises:
        DataError: a picture does not decode; the message gives its place in the sequence.
    """
    pictures = [open_picture(data, f"number {index}") for index, data in enumerate(images)]
    pixels = [np.asarray(clip.to_pixels(picture), np.uint8) for picture in pictures]
    return np.stack(pixels).transpose(0, 3, 1, 2)


def normalised(clip: Clip, pixels: npt.NDArray[np.uint8], device: str) -> torch.Tensor:
    """Return pixels in the model's own range, shape (n, 3, size, size)."""
    import torch

    mean = torch.tensor(clip.mean, device=device).view(1, 3, 1, 1)
    std = torch.tensor(clip.std, device=device).view(1, 3, 1, 1)
    return (torch.from_numpy(pixels).to(device).float() / 255 - mean) / std


def encode_text(clip: Clip, tokens: torch.Tensor) -> torch.Tensor:
    """Return unit vectors (n, d) of tokens (n, context), without computing on shared padding.

    In open_clip's causal ``TextTransformer`` what stands after the end token cannot matter, so
    cutting the columns that are padding in every row is exact; other towers get all columns.
    """
    from open_clip.transformer import TextTransformer

    tower: Any = getattr(clip.model, "text", None)
    causal = isinstance(tower, TextTransformer) and tower.attn_mask is not None and tower.cls_emb is None
    if not causal or tower.pool_type != "argmax":
        whole: torch.Tensor = clip.model.encode_text(tokens, normalize=True)
        return whole
    length = int(tokens.argmax(1).max()) + 1  # the end token has the highest id
    mask = tower.attn_mask
    tower.attn_mask = mask[:length, :length]
    try:
        vectors: torch.Tensor = clip.model.encode_text(tokens[:, :length], normalize=True)
        return vectors
    finally:
        tower.attn_mask = mask


class ClipEncoder:
    """A ``DualEncoder`` over an open_clip model."""

    def __init__(self, clip: Clip, device: str, precision: str, name: str) -> None:
        self.name = name
        self._clip, self._device, self._precision = clip, device, precision

    def encode_images(self, images: Sequence[bytes], batch: int) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files."""
        out = []
        for start, stop in _batches(len(images), batch):
            pixels = normalised(self._clip, decode(self._clip, images[start:stop]), self._device)
            with self._inference():
                out.append(_to_numpy(self._clip.model.encode_image(pixels, normalize=True)))
        return np.concatenate(out)

    def encode_texts(self, texts: Sequence[str], batch: int) -> Embeddings:
        """Return unit vectors, shape (n, d); short captions share batches with short ones."""
        order = np.argsort([len(t) for t in texts], kind="stable")
        out = []
        for start, stop in _batches(len(texts), batch):
            tokens = self._clip.tokenize([texts[i] for i in order[start:stop].tolist()])
            with self._inference():
                out.append(_to_numpy(encode_text(self._clip, tokens.to(self._device))))
        vectors = np.concatenate(out)
        return vectors[np.argsort(order, kind="stable")]

    @contextmanager
    def _inference(self) -> Iterator[None]:
        import torch

        with torch.inference_mode(), autocast(self._device, self._precision):
            yield


def _to_numpy(vectors: torch.Tensor) -> Embeddings:
    result: Embeddings = vectors.float().cpu().numpy()
    return result


def _batches(count: int, batch: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, batch):
        yield start, min(start + batch, count)
