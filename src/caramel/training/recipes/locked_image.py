"""Train a CLIP in two steps: the image tower on scene labels, then the text tower with it locked.

This is LiT (Zhai et al., CVPR 2022): with an image tower that was trained on labels before and is locked, a
contrastive model learns faster and reaches a better result. LiT's labels are the classes of ImageNet-21k. The
labels here are the scene itself: the cell, colour and size of each object. Contrastive training alone takes
about three times as long to learn the positions of objects (docs/world.md).

A locked tower gives an image the same features in every step, so they are computed once. The last projection
of the image tower is trained with the texts, as a linear head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from caramel.errors import ConfigError
from caramel.interfaces.settings import Compute
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import BaseConfig, OptimizerConfig
from caramel.models.devices import move_to_device, resolve_device, resolve_precision, use_precision
from caramel.models.open_clip.encoder import encode_text, normalise_pixels
from caramel.models.open_clip.last_layer import compute_tower_vectors
from caramel.sources.world.scene_labels import ABSENT, CLASSES, SceneLabels, label_scenes
from caramel.training.data.batch import draw_step_rows
from caramel.training.data.examples import Examples
from caramel.training.data.loader import draw_batch_rows
from caramel.training.loop.contrastive import compute_validation_metrics
from caramel.training.loop.loop import Training, build_param_groups, run_training
from caramel.training.losses import clip_loss, distinct_image_mask
from caramel.training.objective import LOGIT_SCALE_MAX

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip

POSITION_WEIGHT, LOOK_WEIGHT = (
    1.0,
    0.3,
)  # weights of the loss terms: an object's cell, and its colour and size
FEATURE_BATCH = 512  # images whose features are computed at a time


def train_locked_clip(
    clip: Clip,
    examples: Examples,
    validation: Sequence[Examples],
    scenes: pd.Series[str],
    *,
    settings: BaseConfig,
    scratch: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> Curve:
    """Train the model in place and return its curve; resumes from ``scratch``.

    Args:
        clip: model to train; its image tower is a vision transformer of open_clip's own.
        examples: training rows.
        validation: rows for ``compute_validation_metrics`` at each checkpoint.
        scenes: the scene of each training row's image, as JSON.
        settings: the image tower trains on ``scenes`` for ``image_steps`` steps. Then the text tower and both
            projections train on pairs for the loop's steps, with the same optimizer, batch size and
            checkpoints.
        on_points: called with the new points of the curve; the steps of the texts continue those of
            the images.

    Raises:
        ConfigError: the image tower is not such a transformer, or as in ``run_training``.
        DataError: a row has no scene.
    """
    device = resolve_device(settings.compute.device)
    precision = resolve_precision(settings.compute.precision, device)
    settings = replace(settings, compute=Compute(device, precision))
    move_to_device(clip.model, device)
    labels = label_scenes(scenes)
    curve = _train_image_tower(clip, examples, labels, settings, scratch / "image", on_points)

    def forward_points(points: Curve) -> None:
        if on_points is not None:
            on_points(_shift_steps(points, settings.image_steps))

    points = _align_texts(clip, examples, validation, settings, scratch / "text", forward_points)
    return curve + _shift_steps(points, settings.image_steps)


def _shift_steps(points: Curve, steps: int) -> Curve:
    return [(step + steps, name, value) for step, name, value in points]


@contextmanager
def _disable_projection(visual: torch.nn.Module) -> Iterator[None]:
    """Make the tower return its normalised features (n, width), without the projection into the shared space.

    Raises:
        ConfigError: the tower has no separate projection.
    """
    import torch

    projection = getattr(visual, "proj", None)
    if not isinstance(projection, torch.nn.Parameter):
        raise ConfigError(
            "pretrain.image_steps needs an image tower that is a vision transformer of open_clip's own, with "
            "a projection; the image tower of pretrain.model is not. Set pretrain.image_steps: 0 to train both "
            "towers together."
        )
    visual.proj = None  # type: ignore[assignment]
    try:
        yield
    finally:
        visual.proj = projection


def _train_image_tower(
    clip: Clip,
    examples: Examples,
    labels: SceneLabels,
    settings: BaseConfig,
    scratch: Path,
    on_points: Callable[[Curve], None] | None,
) -> Curve:
    """Train the image tower and a linear classifier on the scenes' labels; the classifier is discarded.

    The metrics are ``loss`` and ``cells_right``: of the object categories present in the images of the last
    batch, the share in [0, 1] with a correctly predicted cell.
    """
    import torch

    loop, device, precision = settings.loop, settings.compute.device, settings.compute.precision
    visual, num_categories = clip.model.visual, labels.cells.shape[1]
    with _disable_projection(visual):
        width = visual.ln_post.normalized_shape[0]
        classifier = move_to_device(torch.nn.Linear(width, num_categories * sum(CLASSES)), device)
        targets = [torch.from_numpy(values).to(device) for values in labels]
        last: dict[str, float] = {}

        def compute_loss(rows: torch.Tensor) -> torch.Tensor:
            pixels = normalise_pixels(clip, torch.from_numpy(examples.images[rows.numpy()]).to(device))
            with use_precision(device, precision):
                logits = (
                    classifier(compute_tower_vectors(visual, pixels))
                    .float()
                    .view(len(rows), num_categories, -1)
                )
            cells, *looks = logits.split(CLASSES, dim=-1)
            where = targets[0][rows]
            present_mask = where > 0
            last["cells_right"] = float((cells.argmax(-1) == where)[present_mask].float().mean())
            total_loss = POSITION_WEIGHT * _cross_entropy(cells, where)
            for look, target in zip(looks, targets[1:], strict=True):
                total_loss = total_loss + LOOK_WEIGHT * _cross_entropy(look, target[rows])
            return total_loss

        training = Training(
            {"visual": visual, "classifier": classifier},
            _build_optimizer([visual, classifier], settings.optimizer),
            lambda step: torch.from_numpy(draw_batch_rows(loop.seed, step, len(examples), loop.batch_size)),
            compute_loss,
            settings.image_steps,
            settings.optimizer.warmup_steps,
            loop.checkpoint_every,
            seed=[loop.seed],
            measure=lambda: dict(last),
            on_points=on_points,
            grad_clip_norm=settings.optimizer.grad_clip_norm,
        )
        visual.train()
        curve = run_training(training, scratch=scratch, title="pretrain: images")
    visual.eval()
    return curve


def _cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of logits (..., classes) where the target (...) is not ``ABSENT``."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits.flatten(0, -2), target.flatten(), ignore_index=ABSENT)


def _build_optimizer(modules: Sequence[torch.nn.Module], config: OptimizerConfig) -> torch.optim.AdamW:
    import torch

    groups = build_param_groups(modules, config.weight_decay)
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def _compute_features(clip: Clip, examples: Examples, compute: Compute) -> torch.Tensor:
    """Return the locked tower's features of the images of all rows, (n, width), fp32."""
    import torch

    starts = range(0, len(examples), FEATURE_BATCH)
    stacks = (examples.images[np.arange(s, min(s + FEATURE_BATCH, len(examples)))] for s in starts)
    with (
        _disable_projection(clip.model.visual),
        torch.no_grad(),
        use_precision(compute.device, compute.precision),
    ):
        parts = [
            compute_tower_vectors(
                clip.model.visual, normalise_pixels(clip, torch.from_numpy(stack).to(compute.device))
            ).float()
            for stack in stacks
        ]
    return torch.cat(parts)


def _align_texts(
    clip: Clip,
    examples: Examples,
    validation: Sequence[Examples],
    settings: BaseConfig,
    scratch: Path,
    on_points: Callable[[Curve], None],
) -> Curve:
    """Train the text tower, both projections and the temperature with InfoNCE on the locked features."""
    import torch
    from torch.nn.functional import normalize

    model, loop = clip.model, settings.loop
    device, precision = settings.compute.device, settings.compute.precision
    features = _compute_features(clip, examples, settings.compute)
    model.visual.requires_grad_(False)
    model.visual.proj.requires_grad_(True)
    tokens = torch.from_numpy(examples.texts[np.arange(len(examples))])
    image_ids = torch.from_numpy(examples.image_ids)

    def compute_loss(rows: torch.Tensor) -> torch.Tensor:
        with use_precision(device, precision):
            images = normalize(features[rows] @ model.visual.proj, dim=-1).float()
            texts = encode_text(clip, tokens[rows].long().to(device)).float()
        return clip_loss(
            images, texts, model.logit_scale.exp(), distinct_image_mask(image_ids[rows].to(device))
        )

    def clamp_temperature(step: int) -> None:
        with torch.no_grad():
            model.logit_scale.clamp_(0, LOGIT_SCALE_MAX)

    def compute_metrics() -> dict[str, float]:
        measured: dict[str, float] = {}
        for part in validation:
            measured |= compute_validation_metrics(clip, part, device, precision)
        model.train()
        return measured

    training = Training(
        {"model": model},
        _build_optimizer([model], settings.optimizer),
        lambda step: torch.from_numpy(draw_step_rows(examples, loop.batch_size, loop.seed, step)),
        compute_loss,
        loop.steps,
        settings.optimizer.warmup_steps,
        loop.checkpoint_every,
        seed=[loop.seed],
        measure=compute_metrics,
        on_points=on_points,
        after_step=clamp_temperature,
        grad_clip_norm=settings.optimizer.grad_clip_norm,
    )
    model.train()
    curve = run_training(training, scratch=scratch, title="pretrain: texts")
    model.requires_grad_(True).eval()
    return curve
