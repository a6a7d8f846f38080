"""Which activation weights were trained with: established, or an error.

OpenAI's models were trained with QuickGELU, x · sigmoid(1.702 x), most others with GELU; both have the same
weights by name and shape. With the wrong one a model runs and scores a few points less, without any error.
So what the spec, the config and open_clip's own table of weights say must be something, and must agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from caramel.errors import BackendError

OPTION = re.compile(r"\?(?P<key>\w+)=(?P<value>\w*)\Z")  # what a spec ends in
QUICK = "-quickgelu"  # open_clip's ending of names
OPENAI = "OpenAI's weights and all that were fine-tuned from them, such as NegCLIP; MetaCLIP; DFN"
OTHERS = "LAION-2B's, DataComp's and most others"


def split_quick_gelu_option(target: str) -> tuple[str, bool | None]:
    """Return a target without ``?quick_gelu=…`` at its end, and what that says, None where it is not there.

    Raises:
        BackendError: the target ends in another option or value.
    """
    option = OPTION.search(target)
    if option is None:
        return target, None
    if option["key"] != "quick_gelu" or option["value"] not in ("true", "false"):
        raise BackendError(
            f"Model {target!r}: {option[0]!r} is no option. Write ?quick_gelu=true or ?quick_gelu=false."
        )
    return target[: option.start()], option["value"] == "true"


def resolve_quick_gelu(where: str, says: Mapping[str, bool | None], cure: str) -> bool:
    """Return whether the activation is QuickGELU.

    Args:
        where: the model, for the message.
        says: by source, what it says; None: nothing.
        cure: what to write instead.

    Raises:
        BackendError: no source says anything, or two disagree.
    """
    stated = {source: value for source, value in says.items() if value is not None}
    if len(set(stated.values())) == 1:
        return next(iter(stated.values()))
    if stated:
        statements = ", ".join(
            f"{source} says {get_activation_name(value)}" for source, value in stated.items()
        )
        problem = f"the activation (quick_gelu) is contradicted: {statements}."
    else:
        problem = "nothing says which activation (quick_gelu) the weights were trained with."
    raise BackendError(f"{where}: {problem} {cure} A wrong activation gives wrong figures without any error.")


def get_activation_name(quick: bool) -> str:
    """Return what the activation is called."""
    return "QuickGELU" if quick else "GELU"


def format_spec_choice(quick: str, plain: str) -> str:
    """Return the cure that leaves two specs to choose from."""
    return f"Write {quick!r} for QuickGELU ({OPENAI}), or {plain!r} for GELU ({OTHERS})."


def find_tag_quick_gelu(name: str, tag: str, model_cfg: Mapping[str, Any]) -> bool:
    """Return whether the weights of open_clip's ``NAME:TAG`` have QuickGELU.

    The table states it only where it is so. A config may state it as well, of weights of which the table
    says nothing.

    Raises:
        BackendError: the weights have it and the config of that name has not.
    """
    import open_clip

    weights = bool(open_clip.get_pretrained_cfg(name, tag).get("quick_gelu"))
    config = bool(model_cfg.get("quick_gelu"))
    if weights and not config:
        raise BackendError(
            f"'{name}:{tag}': the weights have QuickGELU, the config of {name!r} has GELU, which would give "
            f"wrong figures without any error. Use '{name}{QUICK}:{tag}'."
        )
    return config


def find_name_quick_gelu(name: str, model_cfg: Mapping[str, Any]) -> bool | None:
    """Return what open_clip's config of a name says of weights that were trained with it; None: nothing.

    Most configs do not state it. Then it is known only of a name all of whose published weights have GELU,
    and which has no twin for QuickGELU: SigLIP, CoCa, EVA and others.
    """
    import open_clip

    if "quick_gelu" in model_cfg:
        return bool(model_cfg["quick_gelu"])
    tags = open_clip.list_pretrained_tags_by_model(name)
    quick = any(open_clip.get_pretrained_cfg(name, tag).get("quick_gelu") for tag in tags)
    return None if quick or not tags or f"{name}{QUICK}" in open_clip.list_models() else False


def find_repo_quick_gelu(repo: str) -> bool | None:
    """Return what open_clip's table says of the weights in a hub repository; None: it is not in it."""
    import open_clip

    values = set()
    for name, tag in open_clip.list_pretrained():
        cfg = open_clip.get_pretrained_cfg(name, tag)
        if cfg.get("hf_hub", "").rpartition("/")[0] == repo:
            values.add(bool(cfg.get("quick_gelu") or open_clip.get_model_config(name).get("quick_gelu")))
    return values.pop() if len(values) == 1 else None
