"""Matching heads of transformers: BLIP, BLIP-2 and ViLT score an image and a text together.

The score is a logit: of BLIP and BLIP-2, whose head tells match from no match, the difference of the two,
which is log(p / (1 − p)) of P(match) = softmax(…)[1]; of ViLT's ranking head, its one logit. It orders pairs as
P(match) does, but does not round to 1, and so to a tie, where the head is certain. What differs between the
three is in ``matching_architectures``; captions are brought to what BLIP was trained on (``text_cleaning``).
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

IMAGES_AT_ONCE = 128  # whose places are kept in memory: up to 4 MB each
Row = tuple[int, ...]  # tokens of a text
ImageTokens = npt.NDArray[np.float32]  # what a model made of an image, (places, d)


class _Pair(NamedTuple):
    image: int
    text: Row


class MatchingHead:
    """A ``Matcher`` over a model of transformers with a matching head.

    Args:
        model: of a class in ``ARCHITECTURES``.
        tokenizer: the checkpoint's.
        image_processor: the checkpoint's.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: what tables call the model.

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
        """What determines the scores."""
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

        Each image is looked at once. Texts that are equal to the tokenizer have equal scores with an
        image, bit for bit.

        Raises:
            DataError: a picture does not decode.
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
        """Return the scores of pairs of these images; batches hold texts of one length."""
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
        """Return what the model makes of each image before it sees a text."""
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
        """Return what the head's model takes for the pairs; places are padded to the largest image's."""
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
        """Return the scores (n,); the head itself computes in fp32, so that they stay apart."""
        import torch

        with torch.inference_mode():
            with use_precision(self._device, self._precision):
                hidden = self._parts.hidden(self._model, {k: v.to(self._device) for k, v in inputs.items()})
            return self._parts.score(self._model, hidden.float())


def load_itm(target: str, *, device: str, precision: str, name: str) -> MatchingHead:
    """Return the matcher of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing, broken, of another family, or has no matching head.
    """
    import transformers

    type_name = check_type(target, MODEL_TYPES["itm"])
    model = getattr(transformers, ARCHITECTURES[type_name].model)
    return load_with_processors(MatchingHead, model, target, device=device, precision=precision, name=name)


def list_itm_problems(target: str) -> list[str]:
    """Return what keeps the model from being loaded, without loading it."""
    return list_checkpoint_problems(target, types=MODEL_TYPES["itm"])


ITM = Family(
    "itm",
    "matcher",
    "FOLDER",
    "matching heads: BLIP, BLIP-2, ViLT",
    load=load_itm,
    missing=list_itm_problems,
)
