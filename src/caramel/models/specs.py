"""``--model SPEC``: which model, and how it is loaded.

    open_clip:NAME:TAG           open_clip's own name and tag, such as ViT-B-32-quickgelu:openai
    open_clip:NAME:FILE          a local .pt or .safetensors of that architecture
    open_clip:FOLDER             a folder with open_clip_config.json, such as caramel writes
    open_clip:hf-hub:OWNER/REPO  open_clip's format on the Hugging Face hub
    dual:FOLDER|OWNER/REPO       a dual encoder of transformers: CLIP, SigLIP, ALIGN, AltCLIP, FLAVA
    itm:…                        a matching head of transformers: BLIP, BLIP-2, ViLT
    vqascore:… vgptscore:… vgptscore_blind:…   a generative model of transformers: LLaVA, InstructBLIP, Qwen-VL
    text:…                       a text encoder: sentence-transformers or transformers
    chat:MODEL@URL               a chat endpoint of OpenAI's form
    blind:SCORER                 a scorer that sees no image

The family may be left out where the rest says it: NAME:TAG, hf-hub:…, a folder with open_clip_config.json.
``name=SPEC`` gives the model a name for the tables; else it is the spec itself.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caramel.errors import BackendError
from caramel.parallel import file_hash
from caramel.registry import BACKENDS, backend

_NAMED = re.compile(r"(?P<name>[\w.+ -]+)=(?P<rest>.+)", re.DOTALL)


@dataclass(frozen=True)
class ModelSpec:
    """A parsed spec: its family (a key of ``BACKENDS["model"]``), what to load, and its name in tables."""

    family: str
    target: str
    name: str


def parse_spec(text: str) -> ModelSpec:
    """Return the parsed spec.

    Raises:
        BackendError: it is empty, or its family cannot be told; the message lists the families.
    """
    named = _NAMED.fullmatch(text)
    name, rest = (named["name"], named["rest"]) if named else (text, text)
    family, colon, target = rest.partition(":")
    if colon and family in BACKENDS["model"] and target:
        return ModelSpec(family, target, name)
    if family == "hf-hub" or (Path(rest) / "open_clip_config.json").is_file() or _is_tag(family, target):
        return ModelSpec("open_clip", rest, name)
    raise BackendError(
        f"Model {text!r}: its family cannot be told. Write FAMILY:TARGET with one of "
        f"{', '.join(BACKENDS['model'])}; see `caramel eval --help`."
    )


def _is_tag(family: str, target: str) -> bool:
    """Return whether the spec is NAME:TAG of open_clip."""
    if not target:
        return False
    import open_clip

    return family in open_clip.list_models()


@functools.lru_cache(1)
def open_model(text: str, device: str, precision: str) -> Any:
    """Return the model of a spec, one of the forms in ``protocols``, on its device; the last one is kept.

    Args:
        text: the spec.
        device: auto, cpu, cuda or cuda:N.
        precision: fp32, bf16, fp16 or auto.

    Raises:
        BackendError: it is unknown, missing, broken, or not what the spec says.
    """
    from caramel.models.clip import resolve_device

    spec = parse_spec(text)
    load = backend("model", spec.family)
    return load(spec.target, device=resolve_device(device), precision=precision, name=spec.name)


def content_of(text: str) -> str:
    """Return a hash of the spec's file or folder; of a name on a hub or a server, the name."""
    target = parse_spec(text).target
    last = target if Path(target).exists() else target.partition(":")[2]
    return f"{target} {file_hash(last)}" if last and Path(last).exists() else target


def missing_of(text: str) -> list[str]:
    """Return what keeps the model from being loaded, without loading it: nothing if it is there.

    Raises:
        BackendError: the family cannot be told.
    """
    spec = parse_spec(text)
    module = backend("model_check", spec.family)
    found: list[str] = module(spec.target)
    return found
