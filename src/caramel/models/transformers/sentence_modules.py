"""Read and check a folder of sentence-transformers before that package builds anything from it.

    modules.json                       a Transformer, a Pooling, and perhaps Dense and Normalize modules
    sentence_bert_config.json          max_seq_length, do_lower_case
    config_sentence_transformers.json  prompts and default_prompt_name
    1_Pooling/config.json              how the vectors of a text's tokens become one
    2_Dense/                           a linear layer with its activation

Transformers' own folders have none of these files, so their pooling is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.models.loading.state_dicts import read_state
from caramel.models.transformers.transformers_files import find_file, read_config, read_json

if TYPE_CHECKING:
    import torch

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
# Keys of older folders, in the order in which several poolings are concatenated.
_OLDER = {name: f"pooling_mode_{name}" for name in ("mean_sqrt_len_tokens", "lasttoken")} | {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
}
_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")


@dataclass(frozen=True)
class Layout:
    """How texts become vectors.

    Attributes:
        transformer: folder of the model and its tokenizer, or OWNER/REPO.
        pooling: names in ``POOLINGS``; the results of several are concatenated; empty: not stated.
        include_prompt: whether the prefix's tokens are pooled, too.
        then: (Dense or Normalize, folder in the target) of each further module, in order.
        length: largest number of tokens of a text, if the folder states it.
        lower_case: whether texts are lower-cased.
        prefix: prepended to every text.
    """

    transformer: str
    pooling: tuple[str, ...] = ()
    include_prompt: bool = True
    then: tuple[tuple[str, str], ...] = ()
    length: int | None = None
    lower_case: bool = False
    prefix: str = ""


def read_layout(target: str) -> Layout:
    """Return the layout that a folder or OWNER/REPO states; without modules.json it has no pooling.

    Raises:
        BackendError: a file is invalid, or a module is not one of the four.
    """
    path = find_file(target, "modules.json")
    if path is None:
        return Layout(target, prefix=_read_default_prompt(target))
    modules = [(m["type"].rpartition(".")[2], m["path"]) for m in _read_modules(target)]
    module_types = [module_type for module_type, _ in modules]
    if module_types[:2] != ["Transformer", "Pooling"] or not set(module_types[2:]) <= {"Dense", "Normalize"}:
        raise BackendError(
            f"{target!r} consists of {', '.join(module_types)}. text: takes a Transformer and a Pooling, followed "
            f"by Dense and Normalize; models of images and texts are another family, such as dual:."
        )
    pooling = read_config(target, f"{modules[1][1]}/config.json")
    inner = _resolve_subfolder(target, modules[0][1])
    settings = find_file(inner, "sentence_bert_config.json")
    stated = read_config(inner, "sentence_bert_config.json") if settings else {}
    length = stated.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise _build_setting_error(target, "max_seq_length", length, "a whole number above 0")
    return Layout(
        transformer=inner,
        pooling=_read_poolings(pooling, target),
        include_prompt=_read_flag(target, pooling, "include_prompt", True),
        then=tuple(modules[2:]),
        length=length,
        lower_case=_read_flag(target, stated, "do_lower_case", False),
        prefix=_read_default_prompt(target),
    )


def _read_flag(target: str, config: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return a setting that is true, false, or missing (null)."""
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise _build_setting_error(target, key, value, "true or false")
    return default if value is None else value


def _build_setting_error(target: str, key: str, value: Any, must: str) -> BackendError:
    """Return the error about an invalid setting."""
    return BackendError(
        f"{target!r} is damaged: {key!r} is {value!r}, but must be {must}. Download it again."
    )


def _read_modules(target: str) -> list[dict[str, Any]]:
    """Return the list in modules.json; each entry has a type and a folder within the target."""
    modules = read_json(target, "modules.json")
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise BackendError(f"modules.json of {target!r} is damaged: it must be a list of objects.")
    for module in modules:
        module_type, path = module.get("type"), module.get("path")
        if not isinstance(module_type, str):
            raise _build_setting_error(target, "type", module_type, "the name of a module")
        if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise _build_setting_error(target, "path", path, "a folder within it")
    return modules


def _resolve_subfolder(target: str, folder: str) -> str:
    """Return the path of a folder in the target.

    Raises:
        BackendError: the target is a repository, whose folders cannot be addressed.
    """
    if not folder:
        return target
    if not Path(target).is_dir():
        raise BackendError(
            f"The model of {target!r} is in its folder {folder!r}: download the repository, and give its "
            f"folder."
        )
    return str(Path(target) / folder)


def _read_poolings(config: dict[str, Any], target: str) -> tuple[str, ...]:
    """Return the poolings in a config.json of the current or the older form."""
    stated = config.get("pooling_mode")
    if stated is None:
        stated = [name for name in POOLINGS if _read_flag(target, config, _OLDER[name], False)] or ["mean"]
    names = [stated] if isinstance(stated, str) else stated
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _build_setting_error(target, "pooling_mode", stated, "a name or a list of names")
    return check_poolings(tuple(names), target)


def check_poolings(names: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Return the names if all are in ``POOLINGS``.

    Raises:
        BackendError: one is not.
    """
    unknown = [name for name in names if name not in POOLINGS]
    if unknown:
        raise BackendError(f"{target!r}: unknown pooling {unknown[0]!r}. Choices: {', '.join(POOLINGS)}.")
    return names


def require_pooling(target: str, layout: Layout, default: tuple[str, ...]) -> Layout:
    """Return the layout with a pooling: the default, if neither files nor settings state one.

    Raises:
        BackendError: there is no default either.
    """
    if layout.pooling or default:
        return replace(layout, pooling=layout.pooling or default)
    raise BackendError(
        f"{target!r} has no modules.json, and nothing states how the vectors of a text's tokens are pooled. "
        f"Write '{target}?pooling=mean' (most encoders), '?pooling=cls' (such as SimCSE) or "
        f"'?pooling=lasttoken' (decoders), as the model's card says. A wrong pooling gives silently wrong "
        f"results."
    )


def _read_default_prompt(target: str) -> str:
    """Return the default prompt that is prepended to texts."""
    name = "config_sentence_transformers.json"
    config = read_config(target, name) if find_file(target, name) else {}
    default = config.get("default_prompt_name")
    prompts = config.get("prompts") or {}
    if default is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(default, str) or default not in prompts:
        raise BackendError(f"{name} of {target!r}: 'default_prompt_name' {default!r} is not in 'prompts'.")
    if not isinstance(prompts[default] or "", str):
        raise _build_setting_error(target, default, prompts[default], "the text of a prompt")
    return prompts[default] or ""


def build_modules(target: str, layout: Layout) -> torch.nn.Sequential:
    """Return the modules after the Transformer, as sentence-transformers runs them, on the CPU.

    Their input is a dict of features: ``token_embeddings`` (n, tokens, d), ``attention_mask`` (n, tokens) and
    ``prompt_length``. They return it with ``sentence_embedding`` (n, width).

    Raises:
        BackendError: a Dense module is damaged, or of an unknown type.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    # The width 0 is only reported to callers; the input's width is used.
    pooling = Pooling(0, layout.pooling, include_prompt=layout.include_prompt)
    then = [
        _load_dense(target, folder) if module_type == "Dense" else Normalize()
        for module_type, folder in layout.then
    ]
    return torch.nn.Sequential(pooling, *then).eval()


def _load_dense(target: str, folder: str) -> torch.nn.Module:
    """Return a linear layer with its activation; its file is read here, after its size was checked."""
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    where = f"{target!r}, module {folder!r}"
    config = read_config(target, f"{folder}/config.json")
    weights = find_file(target, f"{folder}/model.safetensors") or find_file(
        target, f"{folder}/pytorch_model.bin"
    )
    activation = str(config.get("activation_function", "")).rpartition(".")[2]
    plain = config.get("module_input_name", "sentence_embedding") == "sentence_embedding"
    if weights is None or activation not in _ACTIVATIONS or not plain or config.get("use_residual"):
        raise BackendError(
            f"{where}: a Dense module must have weights, an activation of {', '.join(_ACTIVATIONS)} "
            f"(this one: {activation!r}) and one input, the pooled vector, without a residual."
        )
    state = {key.removeprefix("linear."): value for key, value in read_state(weights).items()}
    ins, outs = config.get("in_features"), config.get("out_features")
    shapes = {"weight": (outs, ins)} | ({"bias": (outs,)} if _read_flag(target, config, "bias", True) else {})
    weight_shapes = {key: tuple(value.shape) for key, value in state.items()}
    if weight_shapes != shapes:
        raise BackendError(
            f"{where}: its weights, {weight_shapes}, do not match its config, {shapes}. Download it again."
        )
    layer: torch.nn.Module = Dense(
        *reversed(weight_shapes["weight"]),
        bias="bias" in weight_shapes,
        activation_function=getattr(torch.nn, activation)(),
        init_weight=state["weight"].float(),
        init_bias=state["bias"].float() if "bias" in state else None,
    )
    return layer
