"""Score an image and a text together by matching heads of transformers: BLIP, BLIP-2 and ViLT.

The score is a logit. BLIP's and BLIP-2's heads have two, for match and no match; the score is their
difference, which is log(p / (1 − p)) of P(match) = softmax(…)[1]. ViLT's ranking head has one. The score
orders pairs as P(match) does, but it does not round to 1, and so to a tie, when the head is certain. The
differences between the three models are in ``matching_architectures``. Captions are normalised as in BLIP's
training (``text_normalization``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.interfaces.model import Family, Floats, Identity, Index
from caramel.models.batching import run_in_batches, run_in_batches_by_length
from caramel.models.devices import resolve_precision, use_precision
from caramel.models.transformers.matching_architectures import ARCHITECTURES, encode_token, get_text_config
from caramel.models.transformers.text_normalization import clean_texts, select_cleaning
from caramel.models.transformers.transformers_dual import (
    get_token_ids,
    load_with_processors,
    pad_token_ids,
    prepare_images,
)
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    build_identity,
    check_type,
    list_checkpoint_problems,
)

if TYPE_CHECKING:
    import torch

IMAGES_AT_ONCE = 128  # images whose tokens are in memory: up to 4 MB each
Row = tuple[int, ...]  # tokens of a text
ImageTokens = npt.NDArray[np.float32]  # the model's tokens of an image, (tokens, d)


class _Pair(NamedTuple):
    image: int
    text: Row


class MatchingHead:
    """A ``Matcher`` over a model of transformers with a matching head.

    Args:
        model: model of a class in ``ARCHITECTURES``.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.

    Raises:
        BackendError: the text encoder has no token [ENC].
    """

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, device: str, precision: str, name: str
    ) -> None:
        self.name = name
        self._model, self._tokenizer, self._image_processor = model, tokenizer, image_processor
        self._device, self._precision = device, resolve_precision(precision, device)
        self._model_type = model.config.model_type
        self._parts = ARCHITECTURES[self._model_type]
        self._length = min(tokenizer.model_max_length, get_text_config(model).max_position_embeddings)
        self._cleaning = select_cleaning(self._model_type, tokenizer)
        self._first = encode_token(model, tokenizer, name) if self._model_type == "blip" else None

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the scores."""
        return build_identity(
            "itm",
            self._model,
            [self._tokenizer, self._image_processor],
            precision=self._precision,
            device=self._device,
            length=self._length,
            first=self._first,
            cleaning=self._cleaning,
            score="logit",
        )

    def match_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the score of each pair (n,), any real number; arguments as in ``interfaces.model.Matcher``.

        Each image is encoded once. Texts with equal tokens have bitwise equal scores with an image.

        Raises:
            DataError: an image does not decode.
        """
        rows = get_token_ids(self._tokenizer, clean_texts(texts, self._cleaning), self._length)
        if self._first is not None:
            rows = [(self._first, *row[1:]) for row in rows]
        all_pairs = [_Pair(i, rows[t]) for i, t in zip(image_of.tolist(), text_of.tolist(), strict=True)]
        texts_of: dict[int, set[Row]] = {}
        for pair in all_pairs:
            texts_of.setdefault(pair.image, set()).add(pair.text)
        used = sorted(texts_of)
        scores: dict[_Pair, float] = {}
        for start in range(0, len(used), IMAGES_AT_ONCE):
            block = used[start : start + IMAGES_AT_ONCE]
            pairs = [_Pair(i, text) for i in block for text in texts_of[i]]
            scores |= self._score_pairs({i: images[i] for i in block}, pairs, batch_size)
        return np.array([scores[pair] for pair in all_pairs], np.float64)

    def _score_pairs(
        self, images: Mapping[int, bytes], pairs: Sequence[_Pair], batch_size: int | None
    ) -> dict[_Pair, float]:
        """Return the scores of pairs of these images; texts in a batch have the same length."""
        image_tokens = dict(zip(images, self._encode_images(list(images.values()), batch_size), strict=True))
        pairs = sorted(pairs, key=lambda pair: (len(pair.text), pair))
        scores = run_in_batches_by_length(
            pairs,
            [len(pair.text) for pair in pairs],
            lambda some: self._build_inputs(some, image_tokens),
            self._compute_scores,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )
        return dict(zip(pairs, scores.tolist(), strict=True))

    def _encode_images(self, files: Sequence[bytes], batch_size: int | None) -> Sequence[ImageTokens]:
        """Return the model's tokens of each image, before it sees a text."""
        import torch

        def compute_tokens(inputs: Mapping[str, Any]) -> torch.Tensor:
            with torch.inference_mode(), use_precision(self._device, self._precision):
                return self._parts.image_tokens(self._model, inputs["pixel_values"].to(self._device))

        def encode_batches(some: Sequence[bytes], batch_size: int | None) -> Sequence[ImageTokens]:
            prepare = lambda files: prepare_images(self._image_processor, files)  # noqa: E731
            return list(
                run_in_batches(some, prepare, compute_tokens, batch_size=batch_size, device=self._device)
            )

        return (
            encode_batches(files, batch_size)
            if self._parts.can_batch_images
            else [encode_batches([file], 1)[0] for file in files]
        )

    def _build_inputs(
        self, pairs: Sequence[_Pair], image_tokens: Mapping[int, ImageTokens]
    ) -> dict[str, torch.Tensor]:
        """Return the inputs of the head's model for the pairs; tokens are padded to the largest image's."""
        import torch

        rows = [torch.from_numpy(image_tokens[pair.image]) for pair in pairs]
        mask = [torch.ones(len(row), dtype=torch.int64) for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "places": pad(rows, batch_first=True),
            "places_mask": pad(mask, batch_first=True),
            **pad_token_ids([pair.text for pair in pairs], self._tokenizer.pad_token_id),
        }

    def _compute_scores(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Return the scores (n,); the head itself computes in fp32, so that close scores remain different."""
        import torch

        with torch.inference_mode():
            with use_precision(self._device, self._precision):
                hidden = self._parts.hidden(self._model, {k: v.to(self._device) for k, v in inputs.items()})
            return self._parts.score(self._model, hidden.float())


def load_itm(target: str, *, device: str, precision: str, name: str) -> MatchingHead:
    """Return the matcher of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing or damaged, belongs to another family, or has no matching head.
    """
    import transformers

    type_name = check_type(target, MODEL_TYPES["itm"])
    model = getattr(transformers, ARCHITECTURES[type_name].model)
    return load_with_processors(MatchingHead, model, target, device=device, precision=precision, name=name)


def list_itm_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    return list_checkpoint_problems(target, types=MODEL_TYPES["itm"])


ITM = Family(
    "itm",
    "matcher",
    "FOLDER",
    "matching heads: BLIP, BLIP-2, ViLT",
    load=load_itm,
    missing=list_itm_problems,
)
