"""What makes the two models that the pipeline needs: the generator of images, and the base that is fine-tuned.

Either is trained on the pairs, or adopted as it was published; who adopts takes and ignores what training needs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pandas as pd

Curve = list[tuple[int, str, float]]  # (step, metric, value)


class GeneratorTrainer(Protocol):
    """Makes a text-to-image pipeline."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        images: pd.DataFrame,
        texts: list[str],
        *,
        pretrained: str | None,
        size: int,
        seed: int,
        steps: int,
        batch: int,
        lr: float,
        warmup: int,
        ema: float,
        patch: int,
        width: int,
        layers: int,
        drop_caption: float,
        checkpoint_every: int,
        device: str,
        precision: str,
        scratch: Path,
        out: Path,
        on_points: Callable[[Curve], None] | None = None,
    ) -> Curve:
        """Write the pipeline and its card (``images.pipelines``) to ``out``; return its learning curve.

        Args:
            pairs, images: tables of those names; train rows are trained on.
            texts: captions to learn the vocabulary from.
            pretrained: folder or hub name of a pipeline that is adopted.
            size: side of the pictures in pixels.
            scratch: where resumable state lies.
            on_points: called with the new points of the curve, for tracking.
            seed, steps, batch, lr, warmup, ema, patch, width, layers, drop_caption, checkpoint_every, device,
                precision: as in ``text_to_image.train_pixart``.

        Raises:
            BackendError: the pipeline to adopt is not there.
        """
        ...


class BaseTrainer(Protocol):
    """Makes the base CLIP."""

    def __call__(
        self,
        pairs: pd.DataFrame,
        images: pd.DataFrame,
        texts: list[str],
        *,
        pretrained: str | None,
        model: str,
        seed: int,
        steps: int,
        batch: int,
        lr: float,
        warmup: int,
        weight_decay: float,
        checkpoint_every: int,
        device: str,
        precision: str,
        scratch: Path,
        out: Path,
        on_points: Callable[[Curve], None] | None = None,
    ) -> Curve:
        """Write the checkpoint's folder (``models.clip.checkpoints``) to ``out``; return its learning curve.

        Args:
            pairs, images: tables of those names; train rows are trained on, val rows measured.
            texts: captions to learn the vocabulary from.
            pretrained: spec of the open_clip model that is adopted.
            model: path of the architecture of the one that is trained (JSON).
            scratch: where resumable state lies.
            on_points: called with the new points of the curve, for tracking.
            seed, steps, batch, lr, warmup, weight_decay, checkpoint_every, device, precision: as in
                ``contrastive.fit``.

        Raises:
            BackendError: the architecture or the model to adopt is missing or broken.
        """
        ...
