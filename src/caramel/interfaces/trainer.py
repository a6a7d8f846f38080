"""Interface of trainers, which produce the image generator or the base for fine-tuning.

Either is trained on the pairs, or adopted as it was published; an adopting backend ignores the settings of the training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import pandas as pd

Curve = list[tuple[int, str, float]]  # (step, metric, value)
Config_contra = TypeVar("Config_contra", contravariant=True)  # BaseConfig or GeneratorConfig


class Trainer(Protocol[Config_contra]):
    """Makes a text-to-image pipeline, or the base CLIP."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        images: Mapping[str, bytes],
        texts: Iterable[str],
        *,
        pretrained: str | None,
        settings: Config_contra,
        scratch: Path,
        out: Path,
        on_points: Callable[[Curve], None] | None = None,
    ) -> Curve:
        """Write the model to ``out`` and return its learning curve.

        Args:
            pairs: table ``pairs``; train rows are trained on.
            images: encoded files by image_id.
            texts: captions to learn the vocabulary from.
            pretrained: what is adopted: folder or hub name of a pipeline, or spec of an open_clip model.
            settings: how the model is trained.
            scratch: where resumable state lies.
            out: folder of the pipeline and its card (``sources.images.diffusion``), or of the checkpoint
                (``models.open_clip.checkpoints``).
            on_points: called with the new points of the curve, for tracking.

        Raises:
            BackendError: the architecture, or the published model, is missing or broken.
        """
        ...
