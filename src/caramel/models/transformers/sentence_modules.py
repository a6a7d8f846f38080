"""Read and check a folder of sentence-transformers before that package builds anything from it.

    modules.json                       a Transformer, a Pooling, and perhaps Dense and Normalize modules
    sentence_bert_config.json          max_seq_length, do_lower_case
    config_sentence_transformers.json  prompts and default_prompt_name
    1_Pooling/config.json              how the vectors of a text's tokens become one
    2_Dense/                           a linear layer with its activation

The package's modules compute; its loader is not used. The loader imports the classes that files name by
dotted paths, takes ``"false"`` for true, fills missing weights with random numbers, and reads a tokenizer
from any other folder.

Transformers' own folders have none of these files, so their pooling is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from posixpath import join
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.io.validators import is_inside_folder
from caramel.models.loading.files import limit_model_size, translate_load_errors
from caramel.models.loading.state_dicts import read_state
from caramel.models.transformers.transformers_files import find_file, read_config, read_json

if TYPE_CHECKING:
    import torch

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
# Keys of older folders after "pooling_mode_", in the order in which several poolings are concatenated.
_OLD = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
# Dotted paths of classes in a folder are recognised by these patterns and never imported; they differ by version.
_ACTIVATION = re.compile(rf"torch\.nn\.(modules\.(activation|linear)\.)?(?P<name>{'|'.join(ACTIVATIONS)})")
_OWN = re.compile(r"\Asentence_transformers\.(\w+\.)*")


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
        suffix: appended to every text.
    """

    transformer: str
    pooling: tuple[str, ...] = ()
    include_prompt: bool = True
    then: tuple[tuple[str, str], ...] = ()
    length: int | None = None
    lower_case: bool = False
    prefix: str = ""
    suffix: str = ""


def read_layout(target: str) -> Layout:
    """Return the layout that a folder or OWNER/REPO states; without modules.json it has no pooling.

    Raises:
        BackendError: a file is invalid, or a module is not one of the four.
    """
    if find_file(target, "modules.json") is None:
        return Layout(target, prefix=_read_default_prompt(target))
    modules = [(_OWN.sub("", m["type"]), m["path"]) for m in _read_modules(target)]
    module_types = [module_type for module_type, _ in modules]
    if module_types[:2] != ["Transformer", "Pooling"] or not set(module_types[2:]) <= {"Dense", "Normalize"}:
        raise BackendError(
            f"{target!r} consists of {', '.join(module_types)}. text: takes a Transformer and a Pooling, followed "
            f"by Dense and Normalize; models of images and texts are another family, such as dual:."
        )
    pooling = read_config(target, join(modules[1][1], "config.json"))
    inner = _resolve_subfolder(target, modules[0][1])
    settings = find_file(inner, "sentence_bert_config.json")
    stated = read_config(inner, settings.name) if settings else {}
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
        if path != "" and not (isinstance(path, str) and is_inside_folder(path)):
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
        flags = [_read_flag(target, config, f"pooling_mode_{key}", False) for key in _OLD]
        stated = list(compress(POOLINGS, flags)) or ["mean"]
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
    default, prompts = config.get("default_prompt_name"), config.get("prompts") or {}
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
    then = (_load_dense(target, path) if name == "Dense" else Normalize() for name, path in layout.then)
    return torch.nn.Sequential(pooling, *then).eval()


def _load_dense(target: str, folder: str) -> torch.nn.Module:
    """Return a linear layer with its activation, limited to the size of its weights; no class it names is
    imported.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    where = f"{target!r}, module {folder!r}"
    config = read_config(target, join(folder, "config.json"))
    files = (find_file(target, join(folder, name)) for name in ("model.safetensors", "pytorch_model.bin"))
    weights = next(filter(None, files), None)
    activation = _ACTIVATION.fullmatch(str(config.get("activation_function")))
    names = [config.get(key) or "sentence_embedding" for key in ("module_input_name", "module_output_name")]
    plain = names == ["sentence_embedding"] * 2 and not config.get("use_residual")
    if weights is None or activation is None or not plain:
        raise BackendError(
            f"{where}: a Dense module must have weights, an activation of torch.nn's {', '.join(ACTIVATIONS)} (this one: "
            f"{config.get('activation_function')!r}) and one input, the pooled vector, without a residual."
        )
    sizes = config.get("in_features"), config.get("out_features"), _read_flag(target, config, "bias", True)
    with limit_model_size([weights], where), translate_load_errors(where):
        layer: torch.nn.Module = Dense(*sizes, activation_function=getattr(torch.nn, activation["name"])())
        layer.load_state_dict(read_state(weights))
    return layer
