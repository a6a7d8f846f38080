"""What makes a model that later stages need: the generator of images, or the base that is fine-tuned.

Either is trained on the pairs, or adopted as it was published; who adopts takes and ignores what training needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import pandas as pd

Curve = list[tuple[int, str, float]]  # (step, metric, value)


class Trainer(Protocol):
    """Makes a text-to-image pipeline, or the base CLIP."""

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
            pretrained: what is adopted: folder or hub name of a pipeline, or spec of an open_clip model.
            scratch: where resumable state lies.
            out: folder of the pipeline and its card (``sources.images.diffusion``), or of the checkpoint
                (``models.open_clip.checkpoints``).
            on_points: called with the new points of the curve, for tracking.
            settings: the other keys of the stage's section in the params, ``device``, ``precision`` and ``workers``, and
                ``size`` of the pictures that are generated. Who trains takes them by name and says what they do.

        Raises:
            BackendError: the architecture, or the model to adopt, is missing or broken.
        """
        ...
