"""Score pairs by ALBEF's, BLIP's and BLIP-2's image-text contrastive (ITC) projections: a cosine, without the matching head.

This is how SugarCrepe++ scores them (github.com/Sri-Harsha/scpp, VLMs/test_BLIP.py and test_BLIP2.py, on
LAVIS's feature extractors). The image token is BLIP's class token, or **the first** of BLIP-2's 32 queries.
It is compared with the class token of the text. There is one vector per image and one per text: a dual
encoder. BLIP-2's own ITC (Li et al. 2023, 3.1; LAVIS's ``match_head="itc"``) uses the best of the queries:
``itc_max``, which has no single image vector.

Captions are normalised as in the training of both models (``text_normalization``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from caramel.interfaces.model import Embeddings, Family, Floats, Identity, Index
from caramel.models.batching import run_in_batches
from caramel.models.devices import resolve_precision, use_precision
from caramel.models.transformers.albef_files import find_albef_file, list_albef_problems
from caramel.models.transformers.matching_architectures import ARCHITECTURES, get_text_config
from caramel.models.transformers.text_normalization import BLIP, MOST_WORDS, clean_texts
from caramel.models.transformers.transformers_dual import (
    compute_distinct_rows,
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

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class _Projections:
    """Projections of a model; their vectors are not normalised.

    Attributes:
        image: (model, pixel_values) -> (n, tokens, d): the class token, or one token per query.
        text: (model, input_ids and attention_mask) -> (n, d).
    """

    image: Callable[[Any, Any], torch.Tensor]
    text: Callable[[Any, Inputs], torch.Tensor]


def _project_blip_image(model: Any, pixels: Any) -> Any:
    return model.vision_proj(ARCHITECTURES["blip"].image_tokens(model, pixels)[:, :1])


def _project_blip_text(model: Any, inputs: Inputs) -> Any:
    return model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0])


def _project_blip2_image(model: Any, pixels: Any) -> Any:
    import torch

    image_tokens = ARCHITECTURES["blip-2"].image_tokens(model, pixels)
    hidden = model.qformer(
        query_embeds=model.query_tokens.expand(len(image_tokens), -1, -1),
        encoder_hidden_states=image_tokens,
        encoder_attention_mask=torch.ones(
            image_tokens.shape[:2], dtype=torch.int64, device=image_tokens.device
        ),
    ).last_hidden_state
    return model.vision_projection(hidden)


def _project_blip2_text(model: Any, inputs: Inputs) -> Any:
    hidden = model.qformer(
        query_embeds=model.embeddings(input_ids=inputs["input_ids"]),
        query_length=0,
        attention_mask=inputs["attention_mask"],
    ).last_hidden_state
    return model.text_projection(hidden[:, 0])


def _project_albef_image(model: Any, pixels: Any) -> Any:
    return model.vision_proj(model.visual_encoder(pixels)[:, :1])


def _project_albef_text(model: Any, inputs: Inputs) -> Any:
    return model.text_proj(model.encode_text(inputs["input_ids"])[:, 0])


PROJECTIONS: Mapping[str, _Projections] = {
    **dict.fromkeys(("albef", "xvlm"), _Projections(_project_albef_image, _project_albef_text)),
    "blip": _Projections(_project_blip_image, _project_blip_text),
    "blip-2": _Projections(_project_blip2_image, _project_blip2_text),
}


class ContrastiveProjections:
    """Compute unit vectors by a model of transformers with contrastive projections.

    Args:
        model: model of a type in ``PROJECTIONS``.
        tokenizer: the checkpoint's tokenizer.
        image_processor: the checkpoint's image processor.
        device: cpu, cuda or cuda:N.
        precision: fp32, bf16 or fp16, or ``auto``.
        name: name of the model in tables.
        family: name of the family, as in a spec.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        image_processor: Any,
        device: str,
        precision: str,
        name: str,
        *,
        family: str,
    ) -> None:
        self.name = name
        self._model, self._tokenizer, self._image_processor = model, tokenizer, image_processor
        self._device, self._precision = device, resolve_precision(precision, device)
        self._family, self._parts = family, PROJECTIONS[model.config.model_type]
        self._length = min(tokenizer.model_max_length, get_text_config(model).max_position_embeddings)

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the vectors, and which of them are compared."""
        return build_identity(
            self._family,
            self._model,
            [self._tokenizer, self._image_processor],
            precision=self._precision,
            device=self._device,
            length=self._length,
            words=MOST_WORDS,
        )

    def encode_image_tokens(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors (n, tokens, d) for encoded image files.

        Raises:
            DataError: an image does not decode; the message gives its index in its batch.
        """
        return run_in_batches(
            images,
            lambda files: prepare_images(self._image_processor, files),
            lambda inputs: self._compute_unit_vectors(
                self._parts.image, inputs["pixel_values"].to(self._device)
            ),
            batch_size=batch_size,
            device=self._device,
        )

    def encode_texts(self, texts: Sequence[str], batch_size: int | None) -> Embeddings:
        """Return unit vectors (n, d); texts with equal tokens have bitwise equal vectors."""
        return compute_distinct_rows(
            get_token_ids(self._tokenizer, clean_texts(texts, BLIP), self._length),
            lambda rows: pad_token_ids(rows, self._tokenizer.pad_token_id),
            lambda inputs: self._compute_unit_vectors(
                self._parts.text, {k: v.to(self._device) for k, v in inputs.items()}
            ),
            batch_size=batch_size,
            device=self._device,
            name=self.name,
        )

    def _compute_unit_vectors(self, project: Any, inputs: Any) -> torch.Tensor:
        import torch

        with torch.inference_mode(), use_precision(self._device, self._precision):
            vectors = project(self._model, inputs)
        return torch.nn.functional.normalize(vectors.float(), dim=-1)


class FirstTokenEncoder:
    """A ``DualEncoder``: the cosine of an image's first token with the text."""

    def __init__(self, projections: ContrastiveProjections) -> None:
        self.name, self._projections = projections.name, projections
        self.encode_texts = projections.encode_texts

    @property
    def identity(self) -> Identity:
        """Return what determines the vectors."""
        return self._projections.identity

    def encode_images(self, images: Sequence[bytes], batch_size: int | None) -> Embeddings:
        """Return unit vectors (n, d) for encoded image files; errors as in ``ContrastiveProjections``."""
        return np.ascontiguousarray(self._projections.encode_image_tokens(images, batch_size)[:, 0])


class BestTokenMatcher:
    """A ``Matcher``: the largest cosine of any of an image's tokens with the text."""

    def __init__(self, projections: ContrastiveProjections) -> None:
        self.name, self._projections = projections.name, projections

    @property
    def identity(self) -> Identity:
        """Return what determines the scores."""
        return self._projections.identity

    def match_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Floats:
        """Return the score of each pair (n,), in [-1, 1]; arguments as in ``interfaces.model.Matcher``.

        Each image and each text is encoded once, and all sums are computed in the same order: equal texts
        tie.
        """
        image_tokens = self._projections.encode_image_tokens(images, batch_size).astype(np.float64)
        vectors = self._projections.encode_texts(texts, batch_size)
        pairs = zip(image_of.tolist(), text_of.tolist(), strict=True)
        return np.array([(image_tokens[i] * vectors[t]).sum(axis=1).max() for i, t in pairs], np.float64)


def _load_model(
    form: Callable[[ContrastiveProjections], Any],
    family: str,
    target: str,
    *,
    device: str,
    precision: str,
    name: str,
) -> Any:
    """Return the model of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing or damaged, belongs to another family, or has no projections.
    """
    import transformers

    def create_model(*parts: Any) -> Any:
        return form(ContrastiveProjections(*parts, family=family))

    if family == "itc" and find_albef_file(target):
        from caramel.models.transformers.albef import load_albef

        return load_albef(create_model, target, device=device, precision=precision, name=name)
    model_class = getattr(transformers, ARCHITECTURES[check_type(target, MODEL_TYPES[family])].model)
    return load_with_processors(
        create_model, model_class, target, device=device, precision=precision, name=name
    )


def _list_problems(family: str, target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    problems = list_albef_problems(target) if family == "itc" else None
    return list_checkpoint_problems(target, types=MODEL_TYPES[family]) if problems is None else problems


ITC = Family(
    "itc",
    "dual",
    "FOLDER",
    "contrastive heads: ALBEF, X-VLM, BLIP, BLIP-2",
    load=partial(_load_model, FirstTokenEncoder, "itc"),
    missing=partial(_list_problems, "itc"),
)
ITC_MAX = Family(
    "itc_max",
    "matcher",
    "FOLDER",
    "BLIP-2's contrastive head, best query",
    load=partial(_load_model, BestTokenMatcher, "itc_max"),
    missing=partial(_list_problems, "itc_max"),
)
