"""Load models of the family ``dual``: models of transformers that embed images and texts."""

from __future__ import annotations

from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.model import DualEncoder, Family
from caramel.models.loading.files import translate_load_errors
from caramel.models.transformers.clip_conventions import find_end_token
from caramel.models.transformers.llm_embeddings import TYPES, list_last_token_problems, load_last_token
from caramel.models.transformers.transformers_dual import load_towers
from caramel.models.transformers.transformers_files import (
    MODEL_TYPES,
    check_type,
    list_checkpoint_problems,
    load_tokenizer,
    read_model_type,
)

ALL = (*MODEL_TYPES["dual"], *TYPES)


def load_dual(target: str, *, device: str, precision: str, name: str) -> DualEncoder:
    """Return the dual encoder of a folder or of OWNER/REPO.

    Raises:
        BackendError: it is missing or damaged, or belongs to another family.
    """
    load = load_last_token if check_type(target, ALL) in TYPES else load_towers
    return load(target, device=device, precision=precision, name=name)


def list_dual_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it."""
    problems = list_checkpoint_problems(target, types=ALL)
    typed = Path(target).is_dir() and all(
        line.startswith("no weights") for line in problems
    )  # config.json is valid
    if typed and read_model_type(target) in TYPES:
        problems = list_last_token_problems(target) or problems
    if not problems and typed and read_model_type(target) == "clip":
        problems = _find_contradictions(target)
    return problems


def _find_contradictions(target: str) -> list[str]:
    """Return contradictions between a CLIP folder's config and tokenizer about the token for pooling."""
    from transformers import AutoConfig

    try:
        with translate_load_errors(target):
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
    missing=list_dual_problems,
)
