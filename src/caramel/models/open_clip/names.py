"""Resolve open_clip's names, ``NAME:TAG`` and ``NAME:FILE``, to config, activation and paths of weights."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from caramel.errors import BackendError, format_items
from caramel.models.loading.state_dicts import ENDINGS
from caramel.models.open_clip import activations
from caramel.models.open_clip.activations import (
    QUICK,
    format_spec_choice,
    resolve_quick_gelu,
    split_quick_gelu_option,
)
from caramel.models.open_clip.checkpoints import CONFIG, read_config


class ResolvedModel(NamedTuple):
    """A model to be built from open_clip's config of a name."""

    config: dict[str, Any]
    repo: str | None  # hub repository of a tag's weights, None for a local file
    files: tuple[str, ...]  # possible names of the file in the repository, or the local file


def resolve_named_model(target: str) -> ResolvedModel:
    """Return the model of ``NAME:TAG`` or ``NAME:FILE``.

    Only the config beside a file is read; nothing is downloaded.

    Raises:
        BackendError: the name or the tag is unknown, the file does not exist, or the activation is not
            established.
    """
    import open_clip

    plain, quick = split_quick_gelu_option(target)
    name, colon, rest = plain.partition(":")
    model_cfg = open_clip.get_model_config(name) if colon and rest else None
    if model_cfg is None:
        raise BackendError(_format_unknown_model(plain, name, bool(colon and rest)))
    if open_clip.get_pretrained_cfg(name, rest):
        return _resolve_tag(name, rest, model_cfg, quick)
    if rest.endswith(ENDINGS) or "/" in rest or Path(rest).exists():
        return _resolve_file(name, rest, model_cfg, quick)
    tags = open_clip.list_pretrained_tags_by_model(name)
    others = open_clip.list_pretrained_models_by_tag(rest)
    raise BackendError(
        f"Unknown tag {rest!r} of open_clip model {name!r}.{_format_suggestion(rest, tags)} Tags of {name!r}: "
        f"{', '.join(tags) or 'none'}."
        + (f" Models with that tag: {', '.join(others)}." if others else "")
        + f" The name of a file of weights ends in one of {', '.join(ENDINGS)}."
    )


def _format_unknown_model(plain: str, name: str, complete: bool) -> str:
    """Return the message about a target with an unknown model."""
    import open_clip

    if not complete:
        return (
            f"Folder {plain!r} does not exist. Expected NAME:TAG, NAME:FILE, a folder with {CONFIG}, or "
            f"hf-hub:OWNER/REPO."
        )
    return (
        f"Unknown open_clip model {name!r} in {plain!r}.{_format_suggestion(name, open_clip.list_models())} "
        f"open_clip.list_models() lists all of them."
    )


def _format_suggestion(word: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, choices, n=3)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _resolve_tag(name: str, tag: str, model_cfg: dict[str, Any], quick: bool | None) -> ResolvedModel:
    """Return open_clip's own weights of a tag, with the preprocessing that they were trained with."""
    import open_clip
    from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

    known = activations.find_tag_quick_gelu(name, tag, model_cfg)
    cure = f"Leave {format_option(quick)!r} out."
    resolve_quick_gelu(f"'{name}:{tag}'", {"open_clip": known, format_option(quick): quick}, cure)
    published = open_clip.get_pretrained_cfg(name, tag)
    repo, _, file = published["hf_hub"].rpartition("/")
    files = (f"{Path(file).stem}.safetensors", file) if file else (HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME)
    config = {"model_cfg": {**model_cfg, "quick_gelu": known}, "preprocess_cfg": published}
    return ResolvedModel(config, repo, files)


def _resolve_file(name: str, file: str, model_cfg: dict[str, Any], quick: bool | None) -> ResolvedModel:
    """Return a local file of weights with the config of a name.

    The preprocessing is taken from the first available source: the config beside the file; the preprocessing
    that all published weights of the name share, such as SigLIP's; open_clip's default for files, which is
    OpenAI's.
    """
    import open_clip

    path = Path(file)
    if path.is_dir():
        raise BackendError(
            f"{file!r} is a folder. Give the folder alone if it contains {CONFIG}, else a file in it."
        )
    if not path.is_file():
        raise BackendError(f"'{name}:{file}': file {file!r} does not exist.")
    beside = path.with_name(CONFIG)
    given = read_config(beside) if beside.is_file() else {"model_cfg": {}, "preprocess_cfg": {}}
    base = name.removesuffix(QUICK)
    twin = base + QUICK if base + QUICK in open_clip.list_models() else None
    says = {
        f"the config of {name!r}": activations.find_name_quick_gelu(name, model_cfg),
        f"{CONFIG} beside it": given["model_cfg"].get("quick_gelu"),
        format_option(quick): quick,
    }
    cure = format_spec_choice(
        f"{twin}:{file}" if twin else f"{name}:{file}?quick_gelu=true", f"{base}:{file}?quick_gelu=false"
    )
    activation = resolve_quick_gelu(f"'{name}:{file}'", says, cure)
    preprocess = given["preprocess_cfg"] or _get_shared_preprocessing(name, file)
    config = {"model_cfg": {**model_cfg, "quick_gelu": activation}, "preprocess_cfg": preprocess}
    return ResolvedModel(config, None, (file,))


def _get_shared_preprocessing(name: str, file: str) -> dict[str, Any]:
    """Return the preprocessing of all published weights of a name; empty if none are published.

    Raises:
        BackendError: the weights differ in it, so the name does not determine it.
    """
    import open_clip

    keys = ("mean", "std", "interpolation", "resize_mode")
    tags: dict[tuple[Any, ...], list[str]] = {}
    for tag in open_clip.list_pretrained_tags_by_model(name):
        published = open_clip.get_pretrained_cfg(name, tag)
        tags.setdefault(tuple(published[key] for key in keys), []).append(tag)
    if len(tags) < 2:
        return dict(zip(keys, next(iter(tags)), strict=True)) if tags else {}
    ways = [
        f"{json.dumps(dict(zip(keys, values, strict=True)))} of {', '.join(of)}"
        for values, of in tags.items()
    ]
    raise BackendError(
        f"'{name}:{file}': published weights of {name!r} were trained with different preprocessing of "
        f"images, and nothing states which one this file needs:\n{format_items(ways)}\nWrite "
        f"{str(Path(file).with_name(CONFIG))!r} with one of these as 'preprocess_cfg', and with the result "
        f"of open_clip.get_model_config({name!r}) as 'model_cfg'."
    )


def format_option(quick: bool | None) -> str:
    """Return the option as it is written in a spec."""
    return f"?quick_gelu={str(quick).lower()}"
