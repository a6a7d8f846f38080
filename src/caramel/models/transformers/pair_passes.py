"""Run a model of transformers that looks at an image and a text together over many pairs of them.

Each image is encoded once for all its texts. The texts of a batch have the same length, and texts with equal tokens
share one pass: their results with an image are bitwise equal. The steps of each model are its ``Architecture``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.interfaces.model import Identity, Index
from caramel.models.batching import run_in_batches, run_in_batches_by_length
from caramel.models.devices import resolve_precision, use_precision
from caramel.models.transformers.matching_architectures import Architecture, encode_token, get_text_config
from caramel.models.transformers.text_normalization import clean_texts
from caramel.models.transformers.transformers_dual import get_token_ids, pad_token_ids, prepare_images
from caramel.models.transformers.transformers_files import build_identity

if TYPE_CHECKING:
    import torch

IMAGES_AT_ONCE = 128  # images whose tokens are in memory: up to 4 MB each
Row = tuple[int, ...]  # tokens of a text
ImageTokens = npt.NDArray[np.float32]  # the model's tokens of an image, (tokens, d)


class _Pair(NamedTuple):
    image: int
    text: Row


class PairPasses:
    """The passes of a model over pairs of an image and a text.

    Args:
        parts: steps of the model.
        model: the model, of the class that ``parts`` names.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.
        cleaning: normalisation of texts, see ``text_normalization``.

    Attributes:
        first: token that a text starts with in place of its own first one; None: its own.

    Raises:
        BackendError: the text encoder of a BLIP has no token [ENC].
    """

    def __init__(
        self,
        parts: Architecture,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        *,
        device: str,
        precision: str,
        name: str,
        cleaning: str | None,
    ) -> None:
        self.name, self.model, self.tokenizer = name, model, tokenizer
        self._parts, self._image_processor, self._cleaning = parts, image_processor, cleaning
        self._device, self._precision = device, resolve_precision(precision, device)
        self._length = min(tokenizer.model_max_length, get_text_config(model).max_position_embeddings)
        is_blip = model.config.model_type == "blip"
        self.first = encode_token(model, tokenizer, name) if is_blip else None

    def build_identity(self, family: str, **further: Any) -> Identity:
        """Return what determines the results of a family; ``further`` is what else its scores depend on."""
        return build_identity(
            family,
            self.model,
            [self.tokenizer, self._image_processor],
            precision=self._precision,
            device=self._device,
            length=self._length,
            first=self.first,
            cleaning=self._cleaning,
            **further,
        )

    def compute_rows(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> npt.NDArray[np.float32]:
        """Return the result of each pair (n, …); arguments as in ``interfaces.model.Matcher``.

        Raises:
            DataError: an image does not decode.
        """
        rows = get_token_ids(self.tokenizer, clean_texts(texts, self._cleaning), self._length)
        if self.first is not None:
            rows = [(self.first, *row[1:]) for row in rows]
        all_pairs = [_Pair(i, rows[t]) for i, t in zip(image_of.tolist(), text_of.tolist(), strict=True)]
        texts_of: dict[int, set[Row]] = {}
        for pair in all_pairs:
            texts_of.setdefault(pair.image, set()).add(pair.text)
        used = sorted(texts_of)
        results: dict[_Pair, npt.NDArray[np.float32]] = {}
        for start in range(0, len(used), IMAGES_AT_ONCE):
            block = used[start : start + IMAGES_AT_ONCE]
            pairs = [_Pair(i, text) for i in block for text in texts_of[i]]
            results |= self._run_pairs({i: images[i] for i in block}, pairs, batch_size)
        return np.array([results[pair] for pair in all_pairs], np.float32)

    def _run_pairs(
        self, images: Mapping[int, bytes], pairs: Sequence[_Pair], batch_size: int | None
    ) -> dict[_Pair, npt.NDArray[np.float32]]:
        """Return the results of pairs of these images; texts in a batch have the same length."""
        image_tokens = dict(zip(images, self._encode_images(list(images.values()), batch_size), strict=True))
        pairs = sorted(pairs, key=lambda pair: (len(pair.text), pair))
        results = run_in_batches_by_length(
            pairs,
            [len(pair.text) for pair in pairs],
            lambda some: self._build_inputs(some, image_tokens),
            self._compute_batch,
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )
        return dict(zip(pairs, results, strict=True))

    def _encode_images(self, files: Sequence[bytes], batch_size: int | None) -> Sequence[ImageTokens]:
        """Return the model's tokens of each image, before it sees a text."""
        import torch

        def compute_tokens(inputs: Mapping[str, Any]) -> torch.Tensor:
            with torch.inference_mode(), use_precision(self._device, self._precision):
                return self._parts.image_tokens(self.model, inputs["pixel_values"].to(self._device))

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
        """Return the inputs of the model for the pairs; tokens are padded to the largest image's."""
        import torch

        rows = [torch.from_numpy(image_tokens[pair.image]) for pair in pairs]
        mask = [torch.ones(len(row), dtype=torch.int64) for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "places": pad(rows, batch_first=True),
            "places_mask": pad(mask, batch_first=True),
            **pad_token_ids([pair.text for pair in pairs], self.tokenizer.pad_token_id),
        }

    def _compute_batch(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        """Return the results (n, …); the last step computes in fp32, so that close results remain different."""
        import torch

        with torch.inference_mode():
            with use_precision(self._device, self._precision):
                hidden = self._parts.hidden(self.model, {k: v.to(self._device) for k, v in inputs.items()})
            return self._parts.score(self.model, hidden.float())
