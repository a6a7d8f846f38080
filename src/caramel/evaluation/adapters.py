"""Wrap models in memory as dual encoders: open_clip models, transformers models and pairs of functions.

Such a model may be in the middle of its training. ``use_eval_mode`` restores its state.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from caramel.errors import BackendError, ConfigError
from caramel.interfaces.model import Embeddings
from caramel.io.image_codec import decode_image
from caramel.models.batching import run_in_batches
from caramel.models.devices import resolve_precision
from caramel.models.loading.files import PICTURE
from caramel.models.open_clip.config import Clip
from caramel.models.open_clip.encoder import ClipEncoder, decode_images
from caramel.models.transformers.transformers_dual import TransformersDual
from caramel.models.transformers.transformers_files import MODEL_TYPES
from caramel.runtime.ray.sharded_map import map_in_threads

if TYPE_CHECKING:
    import torch
    from PIL import Image

LAST_STEPS = ("ToTensor", "Normalize")  # last steps of open_clip's preprocessing
TRIALS = 3  # number of times that preprocessing is checked for randomness
OPEN_CLIP = ("encode_image", "encode_text")
TRANSFORMERS = ("get_image_features", "get_text_features")
ACCEPTED = (
    "Give an open_clip model with tokenizer= and preprocess=, a transformers dual encoder with processor=, or a pair "
    "of functions (encode_images, encode_texts)"
)


class LiveModel(Protocol):
    """A ``DualEncoder`` whose embeddings are not cached, so that it needs no ``identity``."""

    name: str

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files."""
        ...

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d)."""
        ...


def wrap_model(
    model: Any, *, tokenizer: Any, preprocess: Any, processor: Any, precision: str, name: str
) -> LiveModel:
    """Return a model in memory as a dual encoder; it stays on its device.

    Args:
        model: one of these: a model with open_clip's interface (``encode_image`` and ``encode_text``, both with
            ``normalize``); a transformers dual encoder; a pair of functions, one from a list of RGB images (Pillow)
            to vectors (n, d) and one from a list of texts to vectors (n, d).
        tokenizer: tokenizer of an open_clip model: list of texts -> tokens (n, context).
        preprocess: evaluation preprocessing of an open_clip model.
        processor: processor of a transformers model, with ``tokenizer`` and ``image_processor``.
        precision: precision of the forward passes: fp32, bf16, fp16 or auto; functions set their own precision.
        name: name of the model in tables.

    Raises:
        BackendError: the model is of another type, or its weights have another precision.
        ConfigError: an argument that the model needs is missing or cannot be used.
    """
    given = {"tokenizer": tokenizer, "preprocess": preprocess, "processor": processor}
    if isinstance(model, tuple) and len(model) == 2 and all(map(callable, model)):
        _check_given(given, (), "a pair of functions")
        return _FunctionEncoder(*model, name)
    if _has_methods(model, OPEN_CLIP):
        _check_given(given, ("tokenizer", "preprocess"), "an open_clip model")
        _check_open_clip(model)
        clip = _build_clip(model, tokenizer, preprocess)
        return ClipEncoder(clip, get_device(model), _select_precision(model, precision), name)
    if _has_methods(model, TRANSFORMERS):
        _check_given(given, ("processor",), "a transformers model")
        _check_transformers(model, processor)
        parts = processor.tokenizer, processor.image_processor
        return TransformersDual(model, *parts, get_device(model), _select_precision(model, precision), name)
    wrapped = " It wraps another model: give its .module." if hasattr(model, "module") else ""
    raise BackendError(f"A {type(model).__name__} cannot be scored.{wrapped} {ACCEPTED}.")


@contextmanager
def use_eval_mode(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode; afterwards restore its modes, the caller's autocast and all random states.

    The mode of each module is set separately, for two reasons: ``eval()`` and ``train()`` of a model may do more,
    such as merging adapters, and a part may have been frozen in another mode than the rest.
    """
    import torch

    modes = {part: part.training for part in model.modules()} if isinstance(model, torch.nn.Module) else {}
    device = torch.device(get_device(model))
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 — preprocessing may use these
    unmixed = torch.autocast(device.type, enabled=False)  # the precision must be the requested one
    with torch.random.fork_rng([device] if device.type == "cuda" else []), unmixed:
        try:
            for part in modes:
                part.training = False
            yield
        finally:
            for part, mode in modes.items():
                part.training = mode
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


def get_device(model: Any) -> str:
    """Return the device of a model's weights; cpu if it exposes no weights."""
    return str(next(_iter_weights(model)).device) if _has_weights(model) else "cpu"


class _FunctionEncoder:
    """A ``LiveModel`` built from two functions."""

    def __init__(self, images: Callable[..., Any], texts: Callable[..., Any], name: str) -> None:
        self.name = name
        self._images, self._texts = images, texts

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors (n, d) for encoded image files."""
        forward = partial(_compute_unit_vectors, self._images, "images")
        return run_in_batches(images, _open_images, forward, batch_size=batch_size, device="cpu")

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors (n, d)."""
        return run_in_batches(
            texts,
            list,
            partial(_compute_unit_vectors, self._texts, "texts"),
            batch_size=batch_size,
            device="cpu",
        )


def _open_images(files: Sequence[bytes]) -> list[Image.Image]:
    """Return encoded image files as RGB images (Pillow)."""
    return map_in_threads(lambda data: decode_image(data, "of the benchmark"), files)


def _compute_unit_vectors(function: Callable[..., Any], what: str, items: list[Any]) -> torch.Tensor:
    """Return the vectors (n, d) that a function returns for n items, scaled to length 1."""
    import torch

    with torch.no_grad():
        output = function(items)
    try:
        vectors = torch.as_tensor(output)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BackendError(
            f"The function of {what} returned a {type(output).__name__}. It must return vectors: a tensor or array."
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(items) or not vectors.is_floating_point():
        raise BackendError(
            f"The function of {what} returned {vectors.dtype} of shape {tuple(vectors.shape)} for {len(items)} {what}. "
            f"It must return one row of floating-point numbers for each: ({len(items)}, d)."
        )
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def _build_clip(model: Any, tokenizer: Any, preprocess: Any) -> Clip:
    """Return an open_clip model with its tokenizer and preprocessing, split into the parts that the encoder needs."""
    steps = list(getattr(preprocess, "transforms", ()))
    step_names = [
        next((k.__name__ for k in type(step).__mro__ if k.__name__ in LAST_STEPS), "") for step in steps[-2:]
    ]
    if step_names != list(LAST_STEPS):
        raise ConfigError(
            f"preprocess={type(preprocess).__name__} does not end in {' and '.join(LAST_STEPS)}, as open_clip's "
            f"preprocessing does. For other preprocessing, score a pair of functions: (encode_images, encode_texts)."
        )

    def apply_steps(image: Image.Image) -> Image.Image:
        for step in steps[:-2]:
            image = step(image)
        return image

    padding = getattr(getattr(tokenizer, "tokenizer", None), "pad_token_id", None) or 0
    mean, std = tuple(steps[-1].mean), tuple(steps[-1].std)
    clip = Clip(model, tokenizer, apply_steps, mean, std, {}, None, padding)
    if any((decode_images(clip, [PICTURE]) != decode_images(clip, [PICTURE])).any() for _ in range(TRIALS)):
        raise ConfigError(
            "preprocess= changes the same image at random, so it is the training preprocessing. Give the evaluation "
            "preprocessing, the last value that open_clip.create_model_and_transforms returns."
        )
    return clip


def _check_given(given: dict[str, Any], wanted: Sequence[str], what: str) -> None:
    """Raise a ConfigError unless exactly the wanted arguments are given."""
    missing = [part for part in wanted if given[part] is None]
    surplus = [part for part, value in given.items() if value is not None and part not in wanted]
    if missing or surplus:
        lines = [f"{part}= is missing" for part in missing] + [f"{part}= is not used" for part in surplus]
        raise ConfigError(f"For {what}, {', '.join(lines)}. {ACCEPTED}.")


def _check_open_clip(model: Any) -> None:
    """Raise a BackendError if the model cannot return unit vectors."""
    lacking = [n for n in OPEN_CLIP if "normalize" not in inspect.signature(getattr(model, n)).parameters]
    if lacking:
        raise BackendError(
            f"{lacking[0]} of a {type(model).__name__} takes no normalize=, which open_clip's method takes. "
            f"Score a pair of functions: (encode_images, encode_texts)."
        )


def _check_transformers(model: Any, processor: Any) -> None:
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in MODEL_TYPES["dual"]:
        raise BackendError(
            f"A model of type {model_type!r} is not a known dual encoder. Known: {', '.join(MODEL_TYPES['dual'])}. "
            f"Score a pair of functions: (encode_images, encode_texts)."
        )
    lacking = [part for part in ("tokenizer", "image_processor") if getattr(processor, part, None) is None]
    if lacking:
        raise ConfigError(
            f"processor={type(processor).__name__} has no {' and no '.join(lacking)}. Give what "
            f"AutoProcessor.from_pretrained returns."
        )


def _select_precision(model: Any, precision: str) -> str:
    """Return the precision of the forward passes; weights that are not float32 need their own precision."""
    resolved = resolve_precision(precision, get_device(model))
    stored = (
        str(next(_iter_weights(model)).dtype).removeprefix("torch.") if _has_weights(model) else "float32"
    )
    if stored != "float32" and resolved == "fp32":
        short = {"bfloat16": "bf16", "float16": "fp16"}.get(stored)
        cure = f"Give precision={short!r}." if short else "Convert them to float32."
        raise BackendError(f"The weights of the model are {stored}, but precision={precision!r}. {cure}")
    return resolved


def _iter_weights(model: Any) -> Iterator[torch.Tensor]:
    """Yield the floating-point weights that a model exposes."""
    parameters = getattr(model, "parameters", None)
    yield from (w for w in parameters() if w.is_floating_point()) if callable(parameters) else ()


def _has_weights(model: Any) -> bool:
    return next(_iter_weights(model), None) is not None


def _has_methods(model: Any, names: Sequence[str]) -> bool:
    return all(callable(getattr(model, name, None)) for name in names)
