"""Interface of trainers, which produce the image generator or the base for fine-tuning.

A model is either trained on the pairs, or used as published. The second kind ignores the training settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import pandas as pd

Curve = list[tuple[int, str, float]]  # (step, metric, value)


class Trainer(Protocol):
    """Produces a text-to-image pipeline or the base CLIP."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        images: Mapping[str, bytes],
        texts: Iterable[str],
        *,
        pretrained: str | None,
        scratch: Path,
        out: Path,
        on_points: Callable[[Curve], None] | None = None,
        **settings: object,
    ) -> Curve:
        """Write the model to ``out`` and return its learning curve.

        Args:
            pairs: table ``pairs``; train rows are trained on.
            images: encoded files by image_id.
            texts: captions to learn the vocabulary from.
            pretrained: model to use as published: folder or hub name of a pipeline, or spec of an open_clip
                model.
            scratch: folder of resumable state.
            out: folder of the pipeline and its card (``sources.images.diffusion``), or of the checkpoint
                (``models.open_clip.checkpoints``).
            on_points: called with new points of the curve, for tracking.
            settings: the other keys of the stage's section in the params, ``device``, ``precision`` and
                ``workers``, and ``size`` of the generated images. A trainer takes them by name and documents
                them.

        Raises:
            BackendError: the architecture, or the published model, is missing or broken.
        """
        ...
