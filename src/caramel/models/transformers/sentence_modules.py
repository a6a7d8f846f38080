"""What a folder of sentence-transformers says, checked before that package makes anything of it.

    modules.json                       a Transformer, a Pooling, and perhaps Dense and Normalize modules
    sentence_bert_config.json          max_seq_length, do_lower_case
    config_sentence_transformers.json  prompts and default_prompt_name
    1_Pooling/config.json              how the vectors of a text's tokens become one
    2_Dense/                           a linear layer with its activation

The package's modules compute; its loader is not used. That imports the classes that files name by dotted paths, takes
``"false"`` for true, fills missing weights with random numbers, and reads a tokenizer of any other folder.
Transformers' own folders have none of these: their pooling is not known.
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
# Of these, the keys of older folders after "pooling_mode_"; several are joined in this order.
_OLD = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
# A folder names classes by dotted paths, by which they are known, and never imported; each version has its own.
_ACTIVATION = re.compile(rf"torch\.nn\.(modules\.(activation|linear)\.)?(?P<name>{'|'.join(ACTIVATIONS)})")
_OWN = re.compile(r"\Asentence_transformers\.(\w+\.)*")


@dataclass(frozen=True)
class Layout:
    """How texts become vectors.

    Attributes:
        transformer: folder of the model and its tokenizer, or OWNER/REPO.
        pooling: of ``POOLINGS``; several are joined; none: nothing says it.
        include_prompt: the prefix's tokens are pooled, too.
        then: (Dense or Normalize, folder in the target) of each further module, in their order.
        length: tokens of a text at most, as far as the folder says.
        lower_case: texts are lower-cased.
        prefix: stands before every text.
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
        BackendError: a file is broken, or it has a module that is not one of the four.
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
    """Return a setting that is true, false, or not stated (null)."""
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise _build_setting_error(target, key, value, "true or false")
    return default if value is None else value


def _build_setting_error(target: str, key: str, value: Any, must: str) -> BackendError:
    """Return the error about a setting that is none."""
    return BackendError(f"{target!r} is broken: {key!r} is {value!r}, and must be {must}. Fetch it again.")


def _read_modules(target: str) -> list[dict[str, Any]]:
    """Return the list in modules.json, each of which has a type and a folder within the target."""
    modules = read_json(target, "modules.json")
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise BackendError(f"modules.json of {target!r} is broken: it must be a list of objects.")
    for module in modules:
        module_type, path = module.get("type"), module.get("path")
        if not isinstance(module_type, str):
            raise _build_setting_error(target, "type", module_type, "the name of a module")
        if path != "" and not (isinstance(path, str) and is_inside_folder(path)):
            raise _build_setting_error(target, "path", path, "a folder within it")
    return modules


def _resolve_subfolder(target: str, folder: str) -> str:
    """Return the folder in the target.

    Raises:
        BackendError: the target is a repository, whose folders cannot be named.
    """
    if not folder:
        return target
    if not Path(target).is_dir():
        raise BackendError(
            f"{target!r} keeps its model in its folder {folder!r}: download the repository, and give its folder."
        )
    return str(Path(target) / folder)


def _read_poolings(config: dict[str, Any], target: str) -> tuple[str, ...]:
    """Return the poolings of a config.json of the present or the older form."""
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
    """Return the layout with a pooling: the default where neither files nor settings say it.

    Raises:
        BackendError: there is no default either.
    """
    if layout.pooling or default:
        return replace(layout, pooling=layout.pooling or default)
    raise BackendError(
        f"{target!r} has no modules.json, and nothing says how the vectors of a text's tokens become one. Write "
        f"'{target}?pooling=mean' (most encoders), '?pooling=cls' (such as SimCSE) or '?pooling=lasttoken' (decoders), as the "
        f"model's card says. A wrong pooling gives wrong figures without any error."
    )


def _read_default_prompt(target: str) -> str:
    """Return the prompt that is put before texts where no other is asked for."""
    name = "config_sentence_transformers.json"
    config = read_config(target, name) if find_file(target, name) else {}
    default, prompts = config.get("default_prompt_name"), config.get("prompts") or {}
    if default is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(default, str) or default not in prompts:
        raise BackendError(f"{name} of {target!r}: 'default_prompt_name' {default!r} is none of 'prompts'.")
    if not isinstance(prompts[default] or "", str):
        raise _build_setting_error(target, default, prompts[default], "the text of a prompt")
    return prompts[default] or ""


def build_modules(target: str, layout: Layout) -> torch.nn.Sequential:
    """Return the modules after the Transformer, as sentence-transformers runs them, on the processor.

    They take features, a dict with ``token_embeddings`` (n, tokens, d), ``attention_mask`` (n, tokens) and
    ``prompt_length``, and return it with ``sentence_embedding`` (n, width).

    Raises:
        BackendError: a Dense module is broken, or of a kind that is not known.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    # Of a width it is only told for those who ask it: that of its input is what counts.
    pooling = Pooling(0, layout.pooling, include_prompt=layout.include_prompt)
    then = (_load_dense(target, path) if name == "Dense" else Normalize() for name, path in layout.then)
    return torch.nn.Sequential(pooling, *then).eval()


def _load_dense(target: str, folder: str) -> torch.nn.Module:
    """Return a linear layer with its activation, as large as its file of weights; nothing that it names is imported."""
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
