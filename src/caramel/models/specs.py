"""Parse model specs (``--model SPEC``) and load their models.

A spec is ``FAMILY:TARGET``. The families are the names in ``FAMILIES``, and each defines its targets. Targets
of ``open_clip``:

    NAME:TAG           open_clip's own name and tag, such as ViT-B-32-quickgelu:openai
    NAME:FILE          a local .pt, .pth, .bin, .ckpt or .safetensors of that architecture
    FOLDER             a folder with open_clip_config.json, such as caramel writes
    hf-hub:OWNER/REPO  open_clip's format on the Hugging Face hub

This family may be omitted where the target implies it: NAME:TAG, hf-hub:…, a folder with
open_clip_config.json. ``name=SPEC`` gives the model a name for the tables; otherwise the spec is its name.

A file of weights does not state the activation that it was trained with, and the wrong one gives silently
wrong results. open_clip's NAME:FILE is therefore loaded only if the activation is established by one of:

- NAME, such as ``ViT-B-32-quickgelu`` (OpenAI's weights and all that were fine-tuned from them, such as
  NegCLIP);
- an open_clip_config.json beside the file;
- an ending of the spec:

    ViT-B-32-quickgelu:negclip.pt             QuickGELU
    ViT-B-32:mine.pt?quick_gelu=false         GELU, as LAION-2B's and DataComp's weights have it

A folder or a hub repository whose config does not state it takes the same ending. The config beside a file
also defines its preprocessing. Without one, the preprocessing that all published weights of NAME share is
used, or OpenAI's if there are none. If they differ (ViT-L-14, ViT-H-14), the config is required.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from caramel.errors import BackendError
from caramel.interfaces.model import Family, Model
from caramel.io.files import compute_file_hash
from caramel.models.chat.settings import split_wording
from caramel.models.open_clip.activations import OPTION
from caramel.registry import FAMILIES
from caramel.runtime.last_result import keep_last, stamp_files
from caramel.runtime.ray.file_transfer import LocalFile

CONFIG = "open_clip_config.json"
_NAMED = re.compile(r"(?P<name>[\w.+ -]+)=(?P<rest>.+)", re.DOTALL)


@dataclass(frozen=True)
class ModelSpec:
    """A parsed spec: its family (a name in ``FAMILIES``), its target, and its name in tables."""

    family: str
    target: str
    name: str


def parse_spec(text: str) -> ModelSpec:
    """Return the parsed spec.

    Raises:
        BackendError: it is empty, or its family cannot be determined; the message lists the families.
    """
    named = None if _is_folder(text) else _NAMED.fullmatch(text)
    name, rest = (named["name"].strip(), named["rest"]) if named else (text, text)
    family, colon, target = rest.partition(":")
    if colon and family in FAMILIES and target:
        return ModelSpec(family, target, name)
    if family == "hf-hub" or _is_folder(rest) or _is_named(family, target):
        return ModelSpec("open_clip", rest, name)
    raise BackendError(
        f"Model {text!r}: its family cannot be determined.{_format_suggestion(family)} Write FAMILY:TARGET "
        f"with one of {', '.join(FAMILIES)}; see `caramel eval --help`."
    )


def _is_folder(rest: str) -> bool:
    """Return whether the spec is an open_clip folder."""
    plain = OPTION.sub("", rest)
    return bool(plain) and Path(plain, CONFIG).is_file()


def _is_named(family: str, target: str) -> bool:
    """Return whether the spec is NAME:TAG or NAME:FILE of open_clip."""
    if not target:
        return False
    import open_clip

    return family in open_clip.list_models()


def _format_suggestion(family: str) -> str:
    """Return a hint at families and open_clip names with a similar spelling."""
    import open_clip

    near = difflib.get_close_matches(family, [*FAMILIES, *open_clip.list_models()], n=3)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _stamp_local_part(text: str, device: str, precision: str) -> str:
    """Return a value that changes when the spec's files are written; for a name on a hub or a server, the name."""
    target = parse_spec(text).target
    part = _find_local_part(target)
    return target if part is None else " ".join(map(stamp_files, _list_weight_files(Path(part))))


@keep_last(_stamp_local_part)
def open_model(text: str, device: str, precision: str) -> Model:
    """Return the model of a spec on its device; the last model stays loaded as long as its files do not change.

    Args:
        text: the spec.
        device: auto, cpu, cuda or cuda:N.
        precision: fp32, bf16, fp16 or auto.

    Raises:
        BackendError: the model is unknown, missing, invalid, or does not match the spec.
    """
    from caramel.models.devices import resolve_device

    spec = parse_spec(text)
    load = FAMILIES[spec.family].load
    return load(spec.target, device=resolve_device(device), precision=precision, name=spec.name)


def get_family(text: str) -> Family:
    """Return the family of a spec, without loading the model.

    Raises:
        BackendError: the family cannot be determined.
    """
    return FAMILIES[parse_spec(text).family]


def get_score_type(text: str) -> str:
    """Return a spec's scoring rule as in ``published.csv``: that of its family, or of its published wording.

    Raises:
        BackendError: the family cannot be determined.
    """
    score, wording = get_family(text).score, split_wording(parse_spec(text).target)[1]
    return f"{score}_{wording}" if wording else score


def format_families_help() -> list[str]:
    """Return a line of help for each family: the form of its spec, and its models; of a plugin's, the package."""
    families = [FAMILIES[name] for name in FAMILIES.targets]
    specs = [f"{family.name}:{family.target}" for family in families]
    width = max(map(len, specs))
    lines = [f"{spec:{width}}  {family.help}" for spec, family in zip(specs, families, strict=True)]
    return lines + [
        f"{plugin.name + ':…':{width}}  models of {plugin}" for plugin in FAMILIES.plugins.values()
    ]


def hash_content(text: str) -> str:
    """Return a hash of the spec's file or folder; for a name on a hub or a server, the name.

    The hash of a file includes the config beside it.
    """
    target = parse_spec(text).target
    part = _find_local_part(target)
    if part is None:
        return target
    return " ".join([target, *map(compute_file_hash, _list_weight_files(Path(part)))])


def _list_weight_files(path: Path) -> list[Path]:
    """Return a file or folder of weights, and the config beside a file if there is one."""
    beside = path.with_name(CONFIG)
    return [path, beside] if path.is_file() and beside.is_file() else [path]


def _find_local_part(target: str) -> str | None:
    """Return the part of a target that names a file or folder: all of it, or the part after its first colon.

    The option at the end is not included.
    """
    plain = target if Path(target).exists() else re.split("[?#]", target, maxsplit=1)[0]
    return next((part for part in (plain, plain.partition(":")[2]) if part and Path(part).exists()), None)


def mark_local_path(text: str) -> str | LocalFile:
    """Return the spec in the form for any machine: a file or folder of this machine is marked as such."""
    target = parse_spec(text).target
    part = _find_local_part(target)
    if part is None:
        return text
    start = len(text) - len(target) + target.index(part)
    around = tuple(map(str, _list_weight_files(Path(part))[1:]))
    return LocalFile(part, text[:start], text[start + len(part) :], around)


def missing_of(text: str) -> list[str]:
    """Return the reasons why the model cannot be loaded, without loading it; empty if it can.

    Raises:
        BackendError: the family cannot be determined.
    """
    spec = parse_spec(text)
    return FAMILIES[spec.family].missing(spec.target)
