"""open_clip models by spec: names and tags, local files, folders, the hub."""

from __future__ import annotations

from pathlib import Path

from caramel.models.checkpoints import load_encoder
from caramel.models.clip import ClipEncoder


def load_open_clip(target: str, *, device: str, precision: str, name: str) -> ClipEncoder:
    """Return the dual encoder of a target; see ``specs``."""
    return load_encoder(target, device=device, precision=precision, name=name)


def missing_open_clip(target: str) -> list[str]:
    """Return what keeps the model from being loaded, without loading it."""
    return [] if Path(target).is_dir() else [f"no folder {target!r}"]
