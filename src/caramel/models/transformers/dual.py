"""The family ``dual``: models of transformers that embed images and texts into one space, told apart by their type."""

from __future__ import annotations

from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.model import DualEncoder, Family
from caramel.models.loading.files import explained
from caramel.models.transformers.clip_conventions import find_end_token
from caramel.models.transformers.llm_embeddings import TYPES, load_last_token, missing_last_token
from caramel.models.transformers.transformers_dual import load_towers
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    check_type,
    load_tokenizer,
    missing_transformers,
    model_type,
)

ALL = (*MODEL_TYPES["dual"], *TYPES)


def load_dual(target: str, *, device: str, precision: str, name: str) -> DualEncoder:
    """Return the dual encoder of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing, broken or of another family.
    """
    load = load_last_token if check_type(target, ALL) in TYPES else load_towers
    return load(target, device=device, precision=precision, name=name)


def missing_dual(target: str) -> list[str]:
    """Return what keeps the model from being loaded, without loading it."""
    found = missing_transformers(target, types=ALL)
    typed = Path(target).is_dir() and all(
        line.startswith("no weights") for line in found
    )  # config.json is right
    if typed and model_type(target) in TYPES:
        found = missing_last_token(target) or found
    if not found and typed and model_type(target) == "clip":
        found = _contradictions(target)
    return found


def _contradictions(target: str) -> list[str]:
    """Return what config and tokenizer of a folder of CLIP say otherwise of the token at which a text is pooled."""
    from transformers import AutoConfig

    try:
        with explained(target):
            config = AutoConfig.from_pretrained(target, trust_remote_code=False)
            find_end_token(config, load_tokenizer(target), target)
    except BackendError as error:
        return [str(error)]
    return []


DUAL = Family(
    "dual",
    "dual",
    "FOLDER",
    "CLIP, SigLIP, ALIGN, AltCLIP, FLAVA; VLM2Vec",
    load=load_dual,
    missing=missing_dual,
)
