"""open_clip checkpoints as folders that carry all that is needed to use them.

    open_clip_config.json          architecture with its activation, and preprocessing
    open_clip_model.safetensors    weights
    bpe.txt.gz                     vocabulary, where the model has its own
    caramel.json                   name, hash of the weights, versions of the training data

open_clip reads the folder as ``local-dir:FOLDER``. A config that does not state its activation
is refused: QuickGELU weights in a GELU model give wrong figures without any error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caramel.errors import BackendError
from caramel.models.clip import ClipEncoder, resolve_device
from caramel.parallel import file_hash

if TYPE_CHECKING:
    import torch
    from PIL import Image

CONFIG, WEIGHTS, VOCABULARY, CARD = (
    "open_clip_config.json",
    "open_clip_model.safetensors",
    "bpe.txt.gz",
    "caramel.json",
)


@dataclass(frozen=True)
class Clip:
    """A model in memory with its tokenizer and preprocessing."""

    model: Any  # an open_clip model: encode_image, encode_text, logit_scale
    tokenize: Callable[[list[str]], torch.Tensor]  # (n, context length)
    to_pixels: Callable[[Image.Image], Image.Image]  # resize and crop
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    config: Mapping[str, Any]
    vocabulary: str | None  # hash of ``bpe.txt.gz``, None for open_clip's own


def save_checkpoint(
    folder: str | Path,
    model: torch.nn.Module,
    *,
    config: Mapping[str, Any],
    vocabulary: bytes | None,
    card: Mapping[str, Any],
) -> Path:
    """Write a checkpoint folder; see the module's docstring.

    Args:
        folder: where to write.
        model: open_clip model whose weights are saved.
        config: ``{"model_cfg": …, "preprocess_cfg": …}``.
        vocabulary: bytes of ``bpe.txt.gz``, or None for open_clip's own.
        card: what ``caramel.json`` says beside the hash of the weights.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    _write_json(folder / CONFIG, config)
    if vocabulary is not None:
        (folder / VOCABULARY).write_bytes(vocabulary)
    _write_json(folder / CARD, {**card, "weights_sha256": file_hash(folder / WEIGHTS)})
    return folder


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def build_model(config: Mapping[str, Any], where: str) -> torch.nn.Module:
    """Return an untrained open_clip model of the config's architecture, in fp32.

    Raises:
        BackendError: the config does not state ``quick_gelu``, or open_clip refuses it.
    """
    from open_clip.model import CLIP, CustomTextCLIP

    model_cfg = dict(config.get("model_cfg", {}))
    if "quick_gelu" not in model_cfg:
        raise BackendError(
            f"{where}: 'quick_gelu' is not stated in model_cfg. Say true for OpenAI weights and their "
            f"fine-tunes, false otherwise; a wrong activation gives wrong figures silently."
        )
    kind = CustomTextCLIP if model_cfg.pop("custom_text", False) else CLIP
    try:
        model: torch.nn.Module = kind(**model_cfg)
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise BackendError(f"{where}: open_clip refuses the model config: {error}") from error
    return model


def load_checkpoint(folder: str | Path, device: str = "cpu") -> Clip:
    """Return the model of a checkpoint folder, in evaluation mode.

    Raises:
        BackendError: a file is missing or broken, or the weights do not fit the config.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder).resolve()
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise BackendError(f"No checkpoint at {folder}: {name} is missing. Run `dvc repro` to make it.")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        state = load_file(folder / WEIGHTS)
    except (json.JSONDecodeError, UnicodeDecodeError, SafetensorError) as error:
        raise BackendError(f"Checkpoint {folder} is broken: {error}. Make or fetch it again.") from error
    model = build_model(config, str(folder / CONFIG))
    missing, unexpected = model.load_state_dict(state, strict=False)
    if missing or unexpected:
        raise BackendError(
            f"Checkpoint {folder}: weights and config disagree. Missing: {missing[:5]}, "
            f"unexpected: {unexpected[:5]}."
        )
    with torch.no_grad():
        model.to(device).eval()
    return assemble(model, config, folder / VOCABULARY)


def assemble(model: torch.nn.Module, config: Mapping[str, Any], vocabulary: Path) -> Clip:
    """Return the model with the tokenizer and the preprocessing that its config names."""
    import open_clip
    from open_clip.tokenizer import SimpleTokenizer
    from open_clip.transform import PreprocessCfg, image_transform_v2

    text = config["model_cfg"].get("text_cfg", {})
    if not vocabulary.exists() and "hf_tokenizer_name" in text:
        tokenize = open_clip.tokenizer.HFTokenizer(
            text["hf_tokenizer_name"],
            context_length=text.get("context_length", 77),
            **text.get("tokenizer_kwargs", {}),
        )
    else:
        own = {"bpe_path": str(vocabulary)} if vocabulary.exists() else {}
        tokenize = SimpleTokenizer(context_length=text.get("context_length", 77), **own)
    preprocess = PreprocessCfg(
        **{"size": config["model_cfg"]["vision_cfg"]["image_size"], **config.get("preprocess_cfg", {})}
    )
    transform = image_transform_v2(preprocess, is_train=False)

    def to_pixels(image: Image.Image) -> Image.Image:
        # All but the last two steps, to tensor and normalise, which are done in batches.
        for step in transform.transforms[:-2]:
            image = step(image)
        return image

    own_vocabulary = file_hash(vocabulary) if vocabulary.exists() else None
    return Clip(
        model, tokenize, to_pixels, tuple(preprocess.mean), tuple(preprocess.std), config, own_vocabulary
    )


def load_encoder(folder: str | Path, *, device: str, precision: str, name: str) -> ClipEncoder:
    """Return the dual encoder of a checkpoint folder; errors as in ``load_checkpoint``.

    ``device`` may be ``auto``: it is resolved here, where the model will run.
    """
    device = resolve_device(device)
    return ClipEncoder(load_checkpoint(folder, device), device, precision, name)


def adopt_pretrained(*unused: Any, pretrained: str | None, out: Path, **settings: Any) -> list[Any]:
    """Write a checkpoint folder from an open_clip ``NAME:TAG`` or a checkpoint folder.

    Takes and ignores what a backend that trains needs; returns an empty learning curve.

    Raises:
        BackendError: the name or tag is unknown, cannot be fetched, or its activation disagrees
            with the model config.
    """
    import open_clip

    if not pretrained:
        raise BackendError(
            "pretrain.backend 'pretrained' needs pretrain.pretrained, such as 'ViT-B-32-quickgelu:openai'."
        )
    if Path(pretrained).is_dir():
        clip = load_checkpoint(pretrained)
        vocabulary = Path(pretrained) / VOCABULARY
        own = vocabulary.read_bytes() if vocabulary.exists() else None
        save_checkpoint(out, clip.model, config=clip.config, vocabulary=own, card={"from": "folder"})
        return []
    name, _, tag = pretrained.partition(":")
    if name not in open_clip.list_models() or tag not in open_clip.list_pretrained_tags_by_model(name):
        raise BackendError(
            f"Unknown open_clip model {pretrained!r}: expected NAME:TAG. Tags of {name!r}: "
            f"{open_clip.list_pretrained_tags_by_model(name) or 'none, see open_clip.list_models()'}."
        )
    tagged = open_clip.get_pretrained_cfg(name, tag)
    model_cfg = {"quick_gelu": False, **open_clip.get_model_config(name)}
    if bool(tagged.get("quick_gelu", False)) != model_cfg["quick_gelu"]:
        right = name.removesuffix("-quickgelu") if model_cfg["quick_gelu"] else f"{name}-quickgelu"
        raise BackendError(
            f"{pretrained!r}: the weights' activation is not the config's. Use '{right}:{tag}'."
        )
    try:
        model, _, _ = open_clip.create_model_and_transforms(name, pretrained=tag)
    except (RuntimeError, OSError) as error:
        raise BackendError(
            f"{pretrained!r} could not be fetched: {error}. Set HF_HUB_OFFLINE=0 and check the network."
        ) from error
    keys = ("mean", "std", "interpolation", "resize_mode")
    preprocess = {k: tagged[k] for k in keys if k in tagged}
    config = {"model_cfg": model_cfg, "preprocess_cfg": preprocess}
    save_checkpoint(out, model, config=config, vocabulary=None, card={"from": pretrained})
    return []
