"""Text-to-image pipelines as folders: any diffusers pipeline, ours or a hub's, by one path.

    pipeline/         what ``save_pretrained`` writes, where the pipeline is ours
    generator.json    where the pipeline is (this folder or a hub name), and its call options

The call options are those of the pipeline's class that are not settings of an experiment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError

CARD = "generator.json"
OWN = "pipeline"


@dataclass(frozen=True)
class CallOptions:
    """Keyword arguments that every call of the pipeline gets."""

    values: dict[str, Any]


def save_pipeline(pipeline: Any, options: CallOptions, out: Path) -> Path:
    """Write the pipeline with ``save_pretrained``, and its card."""
    pipeline.save_pretrained(out / OWN, safe_serialization=True)
    card = {"source": OWN, "options": options.values}
    (out / CARD).write_text(json.dumps(card, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return out


def adopt_pipeline(*unused: Any, pretrained: str | None, out: Path, **settings: Any) -> list[Any]:
    """Write the card of a pipeline that is not ours: a diffusers folder or a hub name.

    Takes and ignores what a backend that trains needs; returns an empty learning curve.

    Raises:
        BackendError: no name is given.
    """
    if not pretrained:
        raise BackendError(
            "train_generator.backend 'pretrained' needs train_generator.pretrained: a diffusers folder or a hub name."
        )
    source = str(Path(pretrained).resolve()) if Path(pretrained).is_dir() else pretrained
    out.mkdir(parents=True, exist_ok=True)
    card = {"source": source, "options": {}}
    (out / CARD).write_text(json.dumps(card, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return []


def load_pipeline(folder: str | Path, device: str) -> tuple[Any, dict[str, Any]]:
    """Return (pipeline, call options) of a generator folder.

    Raises:
        BackendError: the folder is no generator, or diffusers cannot load its pipeline.
    """
    import torch
    from diffusers import AutoPipelineForText2Image

    folder = Path(folder)
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BackendError(f"No generator at {str(folder)!r}. Run `dvc repro train_generator`.") from None
    source = str(folder / OWN) if card["source"] == OWN else card["source"]
    dtype = torch.float16 if device.startswith("cuda") and card["source"] != OWN else torch.float32
    try:
        pipeline = AutoPipelineForText2Image.from_pretrained(source, torch_dtype=dtype)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The text-to-image pipeline {source!r} cannot be loaded: {error}. A hub name needs the "
            f"network and HF_HUB_OFFLINE=0."
        ) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device), card["options"]


def draw_pictures(
    pipeline: Any,
    options: dict[str, Any],
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    guidance: float,
    steps: int,
    size: int,
) -> npt.NDArray[np.uint8]:
    """Return one picture per prompt, shape (n, size, size, 3); each starts from noise of its own seed."""
    import torch

    generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
    with torch.inference_mode():
        drawn = pipeline(
            list(prompts),
            generator=generators,
            guidance_scale=guidance,
            num_inference_steps=steps,
            height=size,
            width=size,
            output_type="np",
            **options,
        ).images
    pictures: npt.NDArray[np.uint8] = np.rint(np.asarray(drawn) * 255).astype(np.uint8)
    return pictures
