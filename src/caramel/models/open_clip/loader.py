"""Load open_clip models by spec: names and tags, local files, folders, the hub; see ``models.specs``.

A model is resolved before it is loaded: its config, its activation and the path of its weights. Missing parts
are reported without loading anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from caramel.errors import BackendError
from caramel.interfaces.model import Family
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.loading.files import limit_model_size, validate_model
from caramel.models.loading.hub import get_hub_file
from caramel.models.loading.state_dicts import CUT_OFF, fit_state, get_first_line, read_state
from caramel.models.open_clip.activations import find_repo_quick_gelu, split_quick_gelu_option
from caramel.models.open_clip.checkpoints import (
    CONFIG,
    VOCABULARY,
    WEIGHT_NAMES,
    build_model,
    load_checkpoint,
    read_config,
    read_folder,
    save_checkpoint,
)
from caramel.models.open_clip.config import (
    Clip,
    assemble_clip,
    build_tokenizer,
    get_tokenizer_source,
    has_own_vocabulary,
)
from caramel.models.open_clip.encoder import ClipEncoder
from caramel.models.open_clip.names import format_option, resolve_named_model

HUB = "hf-hub:"
TOKENIZERS = ("tokenizer_config.json", "tokenizer.json", "config.json")


def load_open_clip(target: str, *, device: str, precision: str, name: str) -> ClipEncoder:
    """Return the dual encoder of a target.

    Raises:
        BackendError: it is unknown, missing or damaged, its activation is not established, or it cannot be
            downloaded.
        ResourceError: it does not fit onto the device.
    """
    device = resolve_device(device)
    return validate_model(ClipEncoder(open_target(target, device), device, precision, name), target)


def list_open_clip_problems(target: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading or downloading it."""
    try:
        plain, quick = split_quick_gelu_option(target)
        folder = _find_folder(plain, fetch=False)
        if folder is not None:
            config = read_folder(folder, _collect_quick_gelu_claims(plain, folder, quick), plain)[0]
        elif plain.startswith(HUB):
            return []  # downloaded when it is loaded
        else:
            resolved = resolve_named_model(target)
            config = resolved.config
            if resolved.repo is not None:
                get_hub_file(resolved.repo, resolved.files, fetch=False)
        _check_text_tower(config, folder)
        text = config["model_cfg"]["text_cfg"]
        vocabulary = _get_vocabulary_path(folder)
        # Builds the tokenizer, to see whether it contradicts the config; not for one of the hub, which would
        # be downloaded.
        if not text.get("hf_tokenizer_name") or Path(get_tokenizer_source(text, vocabulary)).is_dir():
            build_tokenizer(config, vocabulary)
    except BackendError as error:
        return [str(error)]
    return []


def open_target(target: str, device: str = "cpu") -> Clip:
    """Return the model of a target, in evaluation mode; errors as in ``load_open_clip``."""
    plain, quick = split_quick_gelu_option(target)
    folder = _find_folder(plain, fetch=True)
    if folder is not None:
        return load_checkpoint(
            folder, device, says=_collect_quick_gelu_claims(plain, folder, quick), name=plain
        )
    resolved = resolve_named_model(target)
    if resolved.repo is None:
        state = read_state(Path(resolved.files[0]))
        with limit_model_size([Path(resolved.files[0])], f"Model {target!r}"):
            model = build_model(resolved.config, target)
        fit_state(model, state, f"Model {target!r}")
    else:
        path = get_hub_file(resolved.repo, resolved.files, fetch=True)
        assert path is not None
        model = build_model(resolved.config, target)
        _load_published(model, path, target)
    return assemble_clip(move_to_device(model, device), resolved.config, None)


def adopt_pretrained(
    *unused: object, pretrained: str | None, out: Path, **settings: object
) -> list[tuple[int, str, float]]:
    """Write a checkpoint folder from any open_clip model; the target is one of ``load_open_clip``.

    Arguments of backends that train are accepted and ignored; the returned learning curve is empty.

    Raises:
        BackendError: no target is given; otherwise as in ``load_open_clip``.
    """
    if not pretrained:
        raise BackendError(
            "pretrain.backend 'pretrained' needs pretrain.pretrained, such as 'ViT-B-32-quickgelu:openai'."
        )
    clip = open_target(pretrained)
    folder = _find_folder(split_quick_gelu_option(pretrained)[0], fetch=True)
    vocabulary = _get_vocabulary_path(folder)
    vocabulary_bytes = vocabulary.read_bytes() if vocabulary is not None and vocabulary.exists() else None
    card = {"from": "folder" if Path(pretrained).is_dir() else pretrained}
    save_checkpoint(
        out, clip.model, config=clip.config, vocabulary=vocabulary_bytes, card=card, tokenizer=clip.tokenize
    )
    return []


def _find_folder(plain: str, *, fetch: bool) -> Path | None:
    """Return the folder of a checkpoint: a local one, or the cached snapshot of a hub repository.

    None for a repository that is not cached and may not be downloaded now, and for names of open_clip.
    """
    if not plain.startswith(HUB):
        return Path(plain) if Path(plain).is_dir() else None
    repo = plain.removeprefix(HUB)
    if repo.count("/") != 1 or not all(repo.split("/")):
        raise BackendError(f"{plain!r}: expected {HUB}OWNER/REPO.")
    config, weights = (get_hub_file(repo, files, fetch=fetch) for files in ((CONFIG,), WEIGHT_NAMES))
    if config is None or weights is None:
        return None
    if has_own_vocabulary(read_config(config)["model_cfg"]["text_cfg"]):
        get_hub_file(repo, (VOCABULARY,), fetch=fetch)
    return config.parent


def _get_vocabulary_path(folder: Path | None) -> Path | None:
    """Return the path of the vocabulary in a checkpoint folder, if it has one; None without a folder."""
    return folder / VOCABULARY if folder is not None else None


def _collect_quick_gelu_claims(plain: str, folder: Path, quick: bool | None) -> dict[str, bool | None]:
    """Return what sources other than its own config state about the activation of a checkpoint folder."""
    says: dict[str, bool | None] = {}
    if plain.startswith(HUB):
        stated = read_config(folder / CONFIG)["model_cfg"].get("quick_gelu")
        known = find_repo_quick_gelu(plain.removeprefix(HUB))
        # The table states only QuickGELU; if it has no entry, the repository may state the activation.
        says["open_clip's table of weights"] = known if known or stated is None else None
    return {**says, format_option(quick): quick}


def _check_text_tower(config: dict[str, Any], folder: Path | None) -> None:
    """Raise a BackendError if the tokenizer or the config of a text tower of transformers is missing."""
    text = config["model_cfg"]["text_cfg"]
    vocabulary = _get_vocabulary_path(folder)
    if text.get("hf_tokenizer_name") and not (vocabulary is not None and vocabulary.exists()):
        source = get_tokenizer_source(text, vocabulary)
        if not Path(source).is_dir():
            get_hub_file(source, TOKENIZERS, fetch=False)
    tower = text.get("hf_model_name")
    if tower and not Path(tower).is_dir():
        get_hub_file(tower, ("config.json",), fetch=False)


def _load_published(model: Any, path: Path, target: str) -> None:
    """Load weights of a tag as open_clip does, including their older formats."""
    import pickle

    from open_clip.factory import load_checkpoint as load_weights
    from safetensors import SafetensorError

    try:
        load_weights(model, os.fspath(path), strict=True, weights_only=True)
    except (*CUT_OFF, SafetensorError, pickle.UnpicklingError, AttributeError) as error:
        raise BackendError(
            f"Model {target!r}: open_clip cannot load {str(path)!r}: {get_first_line(error)}. Remove the "
            f"file to download it again."
        ) from error


OPEN_CLIP = Family(
    "open_clip",
    "dual",
    "NAME:TAG",
    "also NAME:FILE, FOLDER, hf-hub:OWNER/REPO",
    load=load_open_clip,
    missing=list_open_clip_problems,
)
