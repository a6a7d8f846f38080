"""Load dual encoders of transformers: CLIP, SigLIP, SigLIP 2, ALIGN, AltCLIP and FLAVA.

Images are processed by the checkpoint's own image processor. Texts are normalised by ``text_normalization``,
which no checkpoint states, and then tokenized by its tokenizer. CLIP is pooled and cropped as in
``clip_conventions``. SigLIP's text towers attend to padding and read the last position, so texts are padded
to the length of the training. CLIP's are causal and read the end token, and the others use the attention
mask. There padding has no effect, and a batch is padded only to its longest text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from caramel.interfaces.model import Embeddings, Identity
from caramel.io.image_codec import decode_image
from caramel.models.batching import run_in_batches, run_in_batches_by_length
from caramel.models.devices import resolve_device, resolve_precision, use_precision
from caramel.models.loading.files import translate_load_errors, validate_model
from caramel.models.transformers.clip_conventions import crop_as_clip, find_end_token, pool_at_end
from caramel.models.transformers.text_normalization import clean_texts, select_cleaning
from caramel.models.transformers.transformers_files import (
    build_identity,
    load_image_processor,
    load_pretrained,
    load_tokenizer,
)
from caramel.runtime.ray.sharded_map import map_in_threads

if TYPE_CHECKING:
    import torch

SEES_PADDING = ("siglip", "siglip2")
# Tokens of a text in training, where the text tower has more positions.
TRAINED_LENGTH = {"align": 64, "altclip": 77, "flava": 77}
Inputs = Mapping[str, Any]
Loaded = TypeVar("Loaded")


class TransformersDual:
    """A ``DualEncoder`` over a model of transformers.

    Args:
        model: with ``get_image_features`` and ``get_text_features``.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.

    Raises:
        BackendError: config and tokenizer of a CLIP do not determine at which token a text is pooled.
    """

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, device: str, precision: str, name: str
    ) -> None:
        self.name = name
        self._model, self._tokenizer, self._image_processor = model, tokenizer, image_processor
        self._device, self._precision = device, resolve_precision(precision, device)
        self._model_type = model.config.model_type
        is_clip = self._model_type == "clip"
        self._end = find_end_token(model.config, tokenizer, name) if is_clip else None
        self._prepare = crop_as_clip(image_processor) if is_clip else image_processor
        self._length = min(
            TRAINED_LENGTH.get(self._model_type, tokenizer.model_max_length),
            tokenizer.model_max_length,
            model.config.text_config.max_position_embeddings,
        )
        self._cleaning = select_cleaning(self._model_type, tokenizer)

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the embeddings."""
        return build_identity(
            "dual",
            self._model,
            [self._tokenizer, self._image_processor],
            precision=self._precision,
            device=self._device,
            length=self._length,
            cleaning=self._cleaning,
            end=self._end,
        )

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d), for encoded image files.

        Raises:
            DataError: an image does not decode; the message gives its index in its batch.
        """
        return run_in_batches(
            images,
            lambda files: prepare_images(self._prepare, files),
            self._embed_images,
            batch_size=batch_size,
            device=self._device,
            fill=True,
        )

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors, shape (n, d); captions share batches with captions of the same length.

        Texts with equal tokens have bitwise equal vectors, so that they tie.
        """
        sees = self._model_type in SEES_PADDING
        width, left = (self._length, self._tokenizer.padding_side == "left") if sees else (None, False)
        return compute_distinct_rows(
            get_token_ids(self._tokenizer, clean_texts(texts, self._cleaning), self._length),
            lambda rows: pad_token_ids(rows, self._tokenizer.pad_token_id, width=width, left=left),
            self._embed_texts,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )

    def _embed_images(self, inputs: Inputs) -> torch.Tensor:
        return self._compute_unit_vectors(
            lambda moved: self._model.get_image_features(**moved).pooler_output, inputs
        )

    def _embed_texts(self, inputs: Inputs) -> torch.Tensor:
        if self._model_type in SEES_PADDING:
            inputs = {"input_ids": inputs["input_ids"]}
        return self._compute_unit_vectors(self._compute_text_features, inputs)

    def _compute_text_features(self, inputs: Inputs) -> torch.Tensor:
        if self._end is not None:
            return pool_at_end(self._model, inputs, self._end)
        features: torch.Tensor = self._model.get_text_features(**inputs).pooler_output
        return features

    def _compute_unit_vectors(
        self, features: Callable[[Inputs], torch.Tensor], inputs: Inputs
    ) -> torch.Tensor:
        """Return unit vectors (n, d)."""
        import torch

        # Not inference_mode: a model in training may keep a tensor of this pass and later compute gradients
        # through it.
        with torch.no_grad(), use_precision(self._device, self._precision):
            vectors = features({k: v.to(self._device) for k, v in inputs.items()})
        if self._model_type == "flava":
            vectors = vectors[:, 0]  # it projects every position; its contrastive loss uses the first
        return torch.nn.functional.normalize(vectors.float(), dim=-1)


def prepare_images(image_processor: Any, files: Sequence[bytes]) -> dict[str, torch.Tensor]:
    """Return a model's inputs for encoded image files: ``pixel_values`` (n, …), and perhaps more.

    Raises:
        DataError: an image does not decode; the message gives its index.
    """
    import torch

    def prepare_image(numbered: tuple[int, bytes]) -> Inputs:
        picture = decode_image(numbered[1], f"number {numbered[0]}")
        ready: Inputs = image_processor(picture, return_tensors="pt")
        return ready

    rows = map_in_threads(prepare_image, list(enumerate(files)))
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def get_token_ids(tokenizer: Any, texts: Sequence[str], length: int | None) -> list[tuple[int, ...]]:
    """Return the tokens of each text with special tokens, without padding; at most ``length``, if given.

    Raises:
        BackendError: the tokenizer has no token for a word, and no token for unknown words.
    """
    cut = {"truncation": True, "max_length": length} if length else {}
    with translate_load_errors(str(tokenizer.name_or_path)):
        encoding = tokenizer(list(texts), return_attention_mask=False, **cut)
    return [tuple(row) for row in encoding["input_ids"]]


def pad_token_ids(
    rows: Sequence[tuple[int, ...]], pad: int | None, *, width: int | None = None, left: bool = False
) -> dict[str, torch.Tensor]:
    """Return ``input_ids`` and ``attention_mask``, both (n, width).

    Args:
        rows: tokens of each text.
        pad: padding token; None: any, because it is masked.
        width: None: the length of the longest.
        left: whether to pad before the text instead of after it.
    """
    import torch

    width = width or max(map(len, rows))
    ids = torch.full((len(rows), width), pad or 0, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        start = width - len(row) if left else 0
        ids[index, start : start + len(row)] = torch.tensor(row)
        mask[index, start : start + len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def compute_distinct_rows(
    rows: Sequence[tuple[int, ...]],
    prepare: Any,
    forward: Any,
    *,
    batch_size: int | None,
    device: str,
    name: str,
) -> Embeddings:
    """Return the result of ``forward`` for each row of tokens, computed once for equal rows.

    Rows in a batch have the same length. Arguments as in ``run_in_batches``.
    """
    distinct = sorted(set(rows), key=lambda row: (len(row), row))
    index_of = {row: i for i, row in enumerate(distinct)}
    vectors = run_in_batches_by_length(
        distinct, [*map(len, distinct)], prepare, forward, batch_size=batch_size, device=device, name=name
    )
    return vectors[np.array([index_of[row] for row in rows], np.int64)]


def load_towers(target: str, *, device: str, precision: str, name: str) -> TransformersDual:
    """Return the dual encoder of a folder or of OWNER/REPO, whose type is one of ``MODEL_TYPES["dual"]``.

    Raises:
        BackendError: it is missing or damaged.
    """
    from transformers import AutoModel

    return load_with_processors(
        TransformersDual, AutoModel, target, device=device, precision=precision, name=name
    )


def load_with_processors(
    form: Callable[[Any, Any, Any, str, str, str], Loaded],
    model_class: Any,
    target: str,
    *,
    device: str,
    precision: str,
    name: str,
) -> Loaded:
    """Return a model built from a checkpoint's weights, tokenizer and image processor, after one test.

    Args:
        form: builds it from these, device, precision and name.
        model_class: class of transformers, as in ``load_pretrained``.
        target, device, precision, name: as in ``Loader``, with its errors.
    """
    device = resolve_device(device)
    with translate_load_errors(target):
        weights = load_pretrained(model_class, target, device=device)
        parts = load_tokenizer(target), load_image_processor(target)
        return validate_model(form(weights, *parts, device, precision, name), target)
