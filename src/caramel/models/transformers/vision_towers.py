"""Shapes of the vision towers that checkpoints of CLIP-FlanT5 name but do not describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caramel.errors import BackendError

CLIP_FLANT5 = "clip_t5"  # model_type of its checkpoints
TOWERS: Mapping[str, Mapping[str, Any]] = {
    "openai/clip-vit-large-patch14-336": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
        "projection_dim": 768,
    }
}


def check_tower(target: str, config: Mapping[str, Any]) -> None:
    """Raise a BackendError if the shape of a checkpoint's vision tower is not known."""
    if not config.get("vision_config") and (name := config.get("mm_vision_tower")) not in TOWERS:
        raise BackendError(
            f"config.json of {target!r}: 'mm_vision_tower' is {name!r}, whose shape is not known. "
            f"Known: {', '.join(TOWERS)}. Add its 'vision_config'."
        )
