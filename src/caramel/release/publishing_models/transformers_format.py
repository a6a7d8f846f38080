"""Convert an open_clip CLIP to transformers' files if both have the same architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Config keys that are handled here. A model with any other key may not have CLIP's architecture.
_MODEL = {"embed_dim", "quick_gelu", "custom_text", "vision_cfg", "text_cfg"}
_VISION = {"image_size", "layers", "width", "head_width", "patch_size", "mlp_ratio"}
_TEXT = {"context_length", "vocab_size", "width", "heads", "layers", "mlp_ratio", "hf_tokenizer_name"}
# CLIPImageProcessor's behaviour, which open_clip models may not share.
_PREPROCESS = {"interpolation": "bicubic", "resize_mode": "shortest"}
_BLOCK = re.compile(r"transformer\.resblocks\.(\d+)\.(.+)")
_PARTS = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj"}
_PARTS |= {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
_VISUAL = {
    "class_embedding": "vision_model.embeddings.class_embedding",
    "positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "ln_pre.": "vision_model.pre_layrnorm.",
    "ln_post.": "vision_model.post_layernorm.",
}
_TEXTUAL = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.": "text_model.final_layer_norm.",
}


def explain_incompatibility(config: Mapping[str, Any]) -> str:
    """Return why an open_clip model has no counterpart among transformers' CLIPs; "" if it has one."""
    model = config["model_cfg"]
    further = {
        *(set(model) - _MODEL),
        *(set(model["vision_cfg"]) - _VISION),
        *(set(model["text_cfg"]) - _TEXT),
    }
    if further:
        return f"its config has {', '.join(sorted(further))}"
    if not isinstance(model["vision_cfg"].get("layers"), int) or not model["vision_cfg"].get("patch_size"):
        return "its image tower is not a vision transformer"
    given = {name: config["preprocess_cfg"].get(name, value) for name, value in _PREPROCESS.items()}
    other = [f"{name} {value!r}" for name, value in given.items() if value != _PREPROCESS[name]]
    return f"its preprocessing has {' and '.join(other)}" if other else ""


def build_clip_config(config: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Return the arguments of ``CLIPConfig`` for a config that ``explain_incompatibility`` accepts.

    Args:
        config: of open_clip.
        vocabulary: tokens of the text tower.
    """
    model = config["model_cfg"]
    vision, text = model["vision_cfg"], model["text_cfg"]
    activation = "quick_gelu" if model["quick_gelu"] else "gelu"
    shared = {"hidden_act": activation, "projection_dim": model["embed_dim"], "layer_norm_eps": 1e-5}
    return {
        "projection_dim": model["embed_dim"],
        "vision_config": {
            **shared,
            "hidden_size": vision["width"],
            "intermediate_size": int(vision["width"] * vision.get("mlp_ratio", 4.0)),
            "num_hidden_layers": vision["layers"],
            "num_attention_heads": vision["width"] // vision.get("head_width", 64),
            "image_size": vision["image_size"],
            "patch_size": vision["patch_size"],
        },
        "text_config": {
            **shared,
            "hidden_size": text["width"],
            "intermediate_size": int(text["width"] * text.get("mlp_ratio", 4.0)),
            "num_hidden_layers": text["layers"],
            "num_attention_heads": text["heads"],
            "max_position_embeddings": text.get("context_length", 77),
            "vocab_size": vocabulary,
            "bos_token_id": vocabulary - 2,
            "eos_token_id": vocabulary - 1,
            "pad_token_id": vocabulary - 1,
        },
    }


def convert_state_dict(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return open_clip's weights under the names in ``CLIPModel``.

    Raises:
        KeyError: a weight has no counterpart.
    """
    converted: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        tower, plain = (
            ("vision", name[7:]) if name.startswith("visual.") else ("text", name.removeprefix("text."))
        )
        if plain in ("proj", "text_projection", "text_projection.weight"):
            linear = value if plain.endswith(".weight") else value.T.contiguous()
            converted["visual_projection.weight" if tower == "vision" else "text_projection.weight"] = linear
        elif plain == "logit_scale":
            converted[plain] = value
        elif block := _BLOCK.fullmatch(plain):
            converted |= _convert_block(f"{tower}_model.encoder.layers.{block[1]}.", block[2], value)
        elif plain != "attn_mask":
            converted[_rename_weight(plain, _VISUAL if tower == "vision" else _TEXTUAL)] = value
    return converted


def _rename_weight(plain: str, names: Mapping[str, str]) -> str:
    if plain in names:
        return names[plain]
    start, _, rest = plain.rpartition(".")
    return names[f"{start}."] + rest


def _convert_block(start: str, part: str, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the weights of one part of a layer; open_clip has queries, keys and values in one matrix."""
    if part.startswith("attn.in_proj_"):
        ending = part.removeprefix("attn.in_proj_")
        thirds = (third.contiguous() for third in value.chunk(3))
        return {f"{start}self_attn.{k}_proj.{ending}": third for k, third in zip("qkv", thirds, strict=True)}
    module, _, ending = part.rpartition(".")
    return {f"{start}{_PARTS[module]}.{ending}": value}
