"""Save and load open_clip checkpoints as folders that contain everything needed to use them.

    open_clip_config.json          architecture with its activation, and preprocessing
    open_clip_model.safetensors    weights
    bpe.txt.gz                     vocabulary, where the model has its own
    tokenizer.json, …              tokenizer, where the model has one of transformers
    caramel.json                   name, hash of the weights, versions of the training data

open_clip reads the folder as ``local-dir:FOLDER``. A config that does not state its activation is refused:
QuickGELU weights in a GELU model give silently wrong results.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.io.files import compute_file_hash
from caramel.models.devices import move_to_device, resolve_device
from caramel.models.loading.files import limit_model_size, read_text_as_json, validate_model
from caramel.models.loading.state_dicts import fit_state, get_first_line, read_state
from caramel.models.open_clip.activations import OPENAI, OTHERS, resolve_quick_gelu
from caramel.models.open_clip.config import Clip, assemble_clip, complete_config
from caramel.models.open_clip.encoder import ClipEncoder

if TYPE_CHECKING:
    import torch

CONFIG, WEIGHTS, VOCABULARY, CARD = (
    "open_clip_config.json",
    "open_clip_model.safetensors",
    "bpe.txt.gz",
    "caramel.json",
)
# Errors of open_clip and torch on a config with wrong types or sizes.
REFUSALS = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    AssertionError,
    AttributeError,
    MemoryError,
)
# File names of weights in folders from the hub.
WEIGHT_NAMES = (WEIGHTS, "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")


def save_checkpoint(
    folder: str | Path,
    model: torch.nn.Module,
    *,
    config: Mapping[str, Any],
    vocabulary: bytes | None,
    card: Mapping[str, Any],
    tokenizer: Any = None,
) -> Path:
    """Write a checkpoint folder; see the module's docstring.

    Args:
        folder: folder to write.
        model: open_clip model whose weights are saved.
        config: ``{"model_cfg": …, "preprocess_cfg": …}``; missing keys of the latter are written with their
            defaults.
        vocabulary: bytes of ``bpe.txt.gz``, or None for open_clip's own.
        card: content of ``caramel.json``, except the hash of the weights.
        tokenizer: the model's tokenizer; one of transformers is written into the folder.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Copies, because weights that share memory cannot be written.
    state = {k: v.detach().to("cpu", copy=True).contiguous() for k, v in model.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    _write_json(folder / CONFIG, complete_config(config, model))
    if vocabulary is not None:
        (folder / VOCABULARY).write_bytes(vocabulary)
    if hasattr(tokenizer, "save_pretrained"):
        tokenizer.save_pretrained(folder)
    _write_json(folder / CARD, {**card, "weights_sha256": compute_file_hash(folder / WEIGHTS)})
    return folder


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def build_model(config: Mapping[str, Any], where: str) -> torch.nn.Module:
    """Return an untrained open_clip model of the config's architecture, in fp32.

    Nothing is downloaded except the config of a text tower of transformers.

    Raises:
        BackendError: the config does not state ``quick_gelu``, or open_clip rejects it.
    """
    from open_clip.coca_model import CoCa
    from open_clip.model import CLIP, CustomTextCLIP

    model_cfg = json.loads(json.dumps(dict(config.get("model_cfg", {}))))
    if "quick_gelu" not in model_cfg:
        raise BackendError(
            f"{where}: 'quick_gelu' is missing in model_cfg. Set true for OpenAI weights and their "
            f"fine-tunes, false otherwise; a wrong activation gives silently wrong results."
        )
    vision, text = model_cfg.get("vision_cfg", {}), model_cfg.get("text_cfg", {})
    if vision.get("timm_model_name"):
        vision["timm_model_pretrained"] = False
    if text.get("hf_model_name"):
        text["hf_model_pretrained"] = False
    custom = model_cfg.pop("custom_text", False) or text.get("hf_model_name")
    model_class = (CoCa if "multimodal_cfg" in model_cfg else CustomTextCLIP) if custom else CLIP
    try:
        if text.get("hf_model_name"):
            from transformers import AutoConfig

            # Refuses models with custom code; open_clip would let transformers ask whether to run it.
            AutoConfig.from_pretrained(text["hf_model_name"], trust_remote_code=False)
        model: torch.nn.Module = model_class(**model_cfg)
    except OSError as error:  # from transformers, about the text tower's config
        raise BackendError(
            f"{where}: the config of text tower {text.get('hf_model_name')!r} is not available: "
            f"{get_first_line(error)}. Set HF_HUB_OFFLINE=0 to download it."
        ) from error
    except REFUSALS as error:
        raise BackendError(f"{where}: open_clip rejects the model config: {error!r}") from error
    return model


def read_config(path: Path) -> dict[str, Any]:
    """Return an ``open_clip_config.json``.

    Raises:
        BackendError: it is invalid, or has no ``model_cfg`` with both towers.
    """
    config = read_text_as_json(path)
    model_cfg = config.get("model_cfg") if isinstance(config, dict) else None
    towers = ("vision_cfg", "text_cfg")
    if not isinstance(model_cfg, dict) or not all(isinstance(model_cfg.get(key), dict) for key in towers):
        raise BackendError(f"Config {str(path)!r} has no 'model_cfg' with {' and '.join(towers)}.")
    preprocess, text = config.get("preprocess_cfg") or {}, model_cfg["text_cfg"]
    wrong = [
        f"{key!r} is {value!r}"
        for key, value, right in _iter_checked_values(model_cfg, text, preprocess)
        if not right
    ]
    if wrong:
        raise BackendError(
            f"Config {str(path)!r} is invalid: {'; '.join(wrong)}. Create or download it again."
        )
    if text.get("hf_model_name") and not text.get("hf_tokenizer_name"):
        raise BackendError(
            f"Config {str(path)!r} names the text tower {text['hf_model_name']!r}, but no tokenizer for it: "
            f"set 'hf_tokenizer_name' in text_cfg."
        )
    return {"model_cfg": model_cfg, "preprocess_cfg": preprocess}


def _iter_checked_values(
    model_cfg: Mapping[str, Any], text: Mapping[str, Any], preprocess: Any
) -> Iterator[tuple[str, Any, bool]]:
    """Yield key, value and validity of all values that open_clip does not check before they are used."""
    quick, options = model_cfg.get("quick_gelu"), text.get("tokenizer_kwargs")
    yield "quick_gelu", quick, quick is None or isinstance(quick, bool)
    yield "tokenizer_kwargs", options, options is None or isinstance(options, dict)
    for key in ("hf_model_name", "hf_tokenizer_name"):
        yield key, text.get(key), isinstance(text.get(key) or "", str)
    for key in ("vocab_size", "context_length"):
        size = text.get(key, 1)
        yield key, size, type(size) is int and 1 <= size < 2**31
    yield "preprocess_cfg", preprocess, isinstance(preprocess, dict)
    for key in ("mean", "std") if isinstance(preprocess, dict) else ():
        values = preprocess.get(key, [1, 1, 1])
        three = isinstance(values, list) and len(values) == 3 and all(map(_is_number, values))
        yield key, values, three and (key == "mean" or min(values) > 0)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def read_folder(
    folder: Path, says: Mapping[str, bool | None] | None = None, name: str | None = None
) -> tuple[dict[str, Any], Path]:
    """Return the config of a checkpoint folder, including its activation, and the path of its weights.

    Args:
        folder: the folder.
        says: what further sources state about the activation.
        name: the spec's name of the folder, for messages; None: its path.

    Raises:
        BackendError: a file is missing, the config is invalid, or the activation is not established.
    """
    name = name or str(folder)
    weight_files = [folder / file for file in WEIGHT_NAMES if (folder / file).is_file()]
    if not weight_files or not (folder / CONFIG).is_file():
        lacking = CONFIG if weight_files else WEIGHTS
        raise BackendError(f"No checkpoint at {name!r}: {lacking} is missing. Run `dvc repro` to create it.")
    config = read_config(folder / CONFIG)
    cure = (
        f"Set 'quick_gelu' in model_cfg, or write '{name}?quick_gelu=true' for QuickGELU ({OPENAI}) or "
        f"'{name}?quick_gelu=false' for GELU ({OTHERS})."
    )
    stated = {CONFIG: config["model_cfg"].get("quick_gelu"), **(says or {})}
    quick = resolve_quick_gelu(f"Checkpoint {name!r}", stated, cure)
    return {**config, "model_cfg": {**config["model_cfg"], "quick_gelu": quick}}, weight_files[0]


def load_checkpoint(
    folder: str | Path,
    device: str = "cpu",
    *,
    says: Mapping[str, bool | None] | None = None,
    name: str | None = None,
) -> Clip:
    """Return the model of a checkpoint folder, in evaluation mode; arguments as in ``read_folder``.

    Raises:
        BackendError: a file is missing or damaged, the weights do not match ``caramel.json`` or the config,
            the activation is not established, or the device cannot be used.
        ResourceError: the model does not fit onto the device.
    """
    folder = Path(os.path.realpath(folder))
    config, weights = read_folder(folder, says, name)
    _check_weights(folder / CARD, weights)
    state = read_state(weights)
    with limit_model_size([weights], f"Checkpoint {name or str(folder)!r}"):
        model = build_model(config, str(folder / CONFIG))
    fit_state(model, state, f"Checkpoint {name or str(folder)!r}")
    return assemble_clip(move_to_device(model, device), config, folder / VOCABULARY)


def _check_weights(path: Path, weights: Path) -> None:
    """Raise a BackendError if the weights do not match the hash in the card; there may be no card.

    The card covers only caramel's own file of weights.
    """
    if weights.name != WEIGHTS or not path.exists():
        return
    card = read_text_as_json(path)
    if not isinstance(card, dict):
        raise BackendError(f"{str(path)!r} is damaged: it is not a JSON object. Create or download it again.")
    stated = card.get("weights_sha256")
    if stated is not None and stated != compute_file_hash(weights):
        raise BackendError(
            f"Weights {str(weights)!r} do not match {str(path)!r}: its weights_sha256 is {stated!r}. They "
            f"are damaged or were replaced: create or download the checkpoint again, or remove the card if "
            f"you replaced them."
        )


def load_encoder(folder: str | Path, *, device: str, precision: str, name: str) -> ClipEncoder:
    """Return the dual encoder of a checkpoint folder; errors as in ``load_checkpoint``.

    ``device`` may be ``auto``: it is resolved here, where the model will run.
    """
    device = resolve_device(device)
    return validate_model(ClipEncoder(load_checkpoint(folder, device), device, precision, name), str(folder))
