"""Embed an image and a caption together by ViLT: the joint state is the vector of [CLS] after the last layer.

This is how SugarCrepe++ scores the pre-trained ViLT, which has no trained head for retrieval
(github.com/Sri-Harsha/scpp, VLMs/test_ViLT.py): the captions of one image are compared by the cosine of their states
(``evaluation.scores.joint_columns``). A checkpoint with any head is loaded without it. The authors cut all three
captions at 25 words where the first is longer; here a text is cut at the tokenizer's or the model's length alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from caramel.interfaces.model import Embeddings, Family, Identity, Index
from caramel.models.transformers.matching_architectures import JOINT_STATES
from caramel.models.transformers.pair_passes import PairPasses
from caramel.models.transformers.transformers_dual import load_with_processors
from caramel.models.transformers.transformers_files import MODEL_TYPES, check_type, list_checkpoint_problems


class JointStates:
    """A ``JointEncoder`` over a model of a class in ``JOINT_STATES``; arguments as in ``matching.MatchingHead``."""

    def __init__(
        self, model: Any, tokenizer: Any, image_processor: Any, device: str, precision: str, name: str
    ) -> None:
        self.name = name
        self._passes = PairPasses(
            JOINT_STATES[model.config.model_type],
            model,
            tokenizer,
            image_processor,
            device=device,
            precision=precision,
            name=name,
            cleaning=None,
        )

    @cached_property
    def identity(self) -> Identity:
        """Return what determines the vectors."""
        return self._passes.build_identity("joint_states", state="cls")

    def encode_pairs(
        self,
        images: Sequence[bytes],
        texts: Sequence[str],
        image_of: Index,
        text_of: Index,
        batch_size: int | None,
    ) -> Embeddings:
        """Return the unit vector of each pair (n, d); arguments as in ``interfaces.model.JointEncoder``.

        Texts with equal tokens have bitwise equal vectors with an image.

        Raises:
            DataError: an image does not decode.
        """
        return self._passes.compute_rows(images, texts, image_of, text_of, batch_size)


def load_joint_states(target: str, *, device: str, precision: str, name: str) -> JointStates:
    """Return the encoder of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing or damaged, or belongs to another family.
    """
    import transformers

    model = getattr(transformers, JOINT_STATES[check_type(target, MODEL_TYPES["joint_states"])].model)
    return load_with_processors(JointStates, model, target, device=device, precision=precision, name=name)


def list_joint_states_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    return list_checkpoint_problems(target, types=MODEL_TYPES["joint_states"])


JOINT = Family(
    "joint_states",
    "joint",
    "FOLDER",
    "states of an image with a caption: ViLT",
    load=load_joint_states,
    missing=list_joint_states_problems,
)
