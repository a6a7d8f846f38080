"""Determine the activation that weights were trained with; raise an error if it is not established.

OpenAI's models were trained with QuickGELU, x · sigmoid(1.702 x), most others with GELU. Both have the same
weights by name and shape. With the wrong one a model runs and silently scores a few points less. At least one
source (the spec, the config, open_clip's own table of weights) must therefore state the activation, and all
that state it must agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from caramel.errors import BackendError

OPTION = re.compile(r"\?(?P<key>\w+)=(?P<value>\w*)\Z")  # ending of a spec
QUICK = "-quickgelu"  # open_clip's ending of names
OPENAI = "OpenAI's weights and all that were fine-tuned from them, such as NegCLIP; MetaCLIP; DFN"
OTHERS = "LAION-2B's, DataComp's and most others"


def split_quick_gelu_option(target: str) -> tuple[str, bool | None]:
    """Return a target without ``?quick_gelu=…`` at its end, and the option's value (None if there is none).

    Raises:
        BackendError: the target ends in another option or value.
    """
    option = OPTION.search(target)
    if option is None:
        return target, None
    if option["key"] != "quick_gelu" or option["value"] not in ("true", "false"):
        raise BackendError(
            f"Model {target!r}: {option[0]!r} is not a valid option. Write ?quick_gelu=true or "
            f"?quick_gelu=false."
        )
    return target[: option.start()], option["value"] == "true"


def resolve_quick_gelu(where: str, says: Mapping[str, bool | None], cure: str) -> bool:
    """Return whether the activation is QuickGELU.

    Args:
        where: the model, for the message.
        says: source -> what it states; None if it states nothing.
        cure: what to write instead.

    Raises:
        BackendError: no source states the activation, or two disagree.
    """
    stated = {source: value for source, value in says.items() if value is not None}
    if len(set(stated.values())) == 1:
        return next(iter(stated.values()))
    if stated:
        statements = ", ".join(
            f"{source} says {get_activation_name(value)}" for source, value in stated.items()
        )
        problem = f"the sources contradict each other on the activation (quick_gelu): {statements}."
    else:
        problem = "nothing states which activation (quick_gelu) the weights were trained with."
    raise BackendError(f"{where}: {problem} {cure} A wrong activation gives silently wrong results.")


def get_activation_name(quick: bool) -> str:
    """Return the name of the activation."""
    return "QuickGELU" if quick else "GELU"


def format_spec_choice(quick: str, plain: str) -> str:
    """Return an advice that offers two specs."""
    return f"Write {quick!r} for QuickGELU ({OPENAI}), or {plain!r} for GELU ({OTHERS})."


def find_tag_quick_gelu(name: str, tag: str, model_cfg: Mapping[str, Any]) -> bool:
    """Return whether the weights of open_clip's ``NAME:TAG`` have QuickGELU.

    The table states the activation only if it is QuickGELU. A config may state it for weights on which the
    table is silent.

    Raises:
        BackendError: the weights have QuickGELU and the config of that name has GELU.
    """
    import open_clip

    weights = bool(open_clip.get_pretrained_cfg(name, tag).get("quick_gelu"))
    config = bool(model_cfg.get("quick_gelu"))
    if weights and not config:
        raise BackendError(
            f"'{name}:{tag}': the weights have QuickGELU, the config of {name!r} has GELU, which would give "
            f"silently wrong results. Use '{name}{QUICK}:{tag}'."
        )
    return config


def find_name_quick_gelu(name: str, model_cfg: Mapping[str, Any]) -> bool | None:
    """Return what open_clip's config of a name implies for weights trained with it; None if it implies nothing.

    Most configs do not state the activation. It is then known only if all published weights of the name have
    GELU and the name has no variant for QuickGELU: SigLIP, CoCa, EVA and others.
    """
    import open_clip

    if "quick_gelu" in model_cfg:
        return bool(model_cfg["quick_gelu"])
    tags = open_clip.list_pretrained_tags_by_model(name)
    quick = any(open_clip.get_pretrained_cfg(name, tag).get("quick_gelu") for tag in tags)
    return None if quick or not tags or f"{name}{QUICK}" in open_clip.list_models() else False


def find_repo_quick_gelu(repo: str) -> bool | None:
    """Return what open_clip's table states about the weights in a hub repository; None if it has no such entry."""
    import open_clip

    values = set()
    for name, tag in open_clip.list_pretrained():
        cfg = open_clip.get_pretrained_cfg(name, tag)
        if cfg.get("hf_hub", "").rpartition("/")[0] == repo:
            values.add(bool(cfg.get("quick_gelu") or open_clip.get_model_config(name).get("quick_gelu")))
    return values.pop() if len(values) == 1 else None
