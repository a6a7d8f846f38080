"""Score an image and a text together by matching heads: ALBEF, X-VLM, BLIP, BLIP-2 and ViLT.

The score is a logit. ALBEF's, X-VLM's, BLIP's and BLIP-2's heads have two, for match and no match; the score is their
difference, which is log(p / (1 − p)) of P(match) = softmax(…)[1]. ViLT's ranking head has one. The score
orders pairs as P(match) does, but it does not round to 1, and so to a tie, when the head is certain. The
differences between the models are in ``matching_architectures``. Captions are normalised as in BLIP's
training (``text_normalization``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from caramel.interfaces.model import Family, Floats, Identity, Index
from caramel.models.transformers.albef_files import find_albef_file, list_albef_problems
from caramel.models.transformers.matching_architectures import ARCHITECTURES
from caramel.models.transformers.pair_passes import PairPasses
from caramel.models.transformers.text_normalization import select_cleaning
from caramel.models.transformers.transformers_dual import load_with_processors
from caramel.models.transformers.transformers_files import MODEL_TYPES, check_type, list_checkpoint_problems


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
        model_type = model.config.model_type
        self._passes = PairPasses(
            ARCHITECTURES[model_type],
            model,
            tokenizer,
            image_processor,
            device=device,
            precision=precision,
            name=name,
            cleaning=select_cleaning(model_type, tokenizer),
        )

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the scores."""
        return self._passes.build_identity("itm", score="logit")

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
        return self._passes.compute_rows(images, texts, image_of, text_of, batch_size).astype(np.float64)


def load_itm(target: str, *, device: str, precision: str, name: str) -> MatchingHead:
    """Return the matcher of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing or damaged, belongs to another family, or has no matching head.
    """
    import transformers

    if find_albef_file(target):
        from caramel.models.transformers.albef import load_albef

        return load_albef(MatchingHead, target, device=device, precision=precision, name=name)
    type_name = check_type(target, MODEL_TYPES["itm"])
    model = getattr(transformers, ARCHITECTURES[type_name].model)
    return load_with_processors(MatchingHead, model, target, device=device, precision=precision, name=name)


def list_itm_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    problems = list_albef_problems(target)
    return list_checkpoint_problems(target, types=MODEL_TYPES["itm"]) if problems is None else problems


ITM = Family(
    "itm",
    "matcher",
    "FOLDER",
    "matching heads: ALBEF, X-VLM, BLIP, BLIP-2, ViLT",
    load=load_itm,
    missing=list_itm_problems,
)
