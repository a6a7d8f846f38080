"""Settings of trainings in tests, built from flat keywords."""

from __future__ import annotations

from typing import Any

from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import ContrastiveConfig
from caramel.training.loop.contrastive import train_clip
from caramel.utils.typed_settings import build_settings

# What most tests leave as it is.
COMMON: dict[str, Any] = {
    "betas": (0.9, 0.98), "eps": 1e-6, "grad_clip_norm": 1.0, "micro_batch_size": None,
    "grad_checkpointing": False, "patience": None, "ema_decay": None, "trainable": "all", "unlocked_layers": 1, "lora": None,
    "device": "cpu", "precision": "fp32",
}  # fmt: skip


def contrastive(**given: Any) -> ContrastiveConfig:
    """Return the settings of a contrastive training."""
    return build_settings(ContrastiveConfig, {**COMMON, "num_workers": 0, **given})


def train(clip: Any, examples: Any, validation: Any, **given: Any) -> Curve:
    """Return the curve of ``train_clip`` with settings from flat keywords."""
    others = {
        name: given.pop(name) for name in ("on_points", "select", "group", "own_validation") if name in given
    }
    title, scratch = given.pop("title", "test"), given.pop("scratch")
    return train_clip(
        clip, examples, validation, contrastive(**given), scratch=scratch, title=title, **others
    )
