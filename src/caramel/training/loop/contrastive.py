"""Train a CLIP contrastively on pairs, with or without hard negatives, for ``pretrain`` and ``finetune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import ConfigError
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import ContrastiveConfig, LoopConfig
from caramel.models.devices import move_to_device, resolve_device, resolve_precision, use_precision
from caramel.models.lora import get_merged_state, merge_lora
from caramel.models.open_clip.encoder import encode_image, encode_text
from caramel.training.data.batch import Batch, assemble_batch, draw_step_rows
from caramel.training.data.examples import Examples, encode_examples
from caramel.training.data.hard_batch_mining import find_nearest_rows
from caramel.training.data.loader import ImageDataset, ImageFeatures, Loader, RowIds, Stack
from caramel.training.data.tokens import Tokens
from caramel.training.distributed import ALONE, DistContext
from caramel.training.loop.batch_accuracy import METRIC, compute_batch_accuracy
from caramel.training.loop.loop import Training, build_param_groups, run_training
from caramel.training.objective import Objective
from caramel.training.trainable import set_trainable_params, set_training_mode
from caramel.training.weight_averaging import copy_frozen_model, ema_decay_at, update_ema_

if TYPE_CHECKING:
    import torch

    from caramel.models.open_clip.config import Clip

Made = TypeVar("Made")
BATCH_SIZE = 256  # rows per forward pass of validation; an image is ranked among as many captions


@contextmanager
def prefetch(make: Callable[[int], Made], steps: int) -> Iterator[Callable[[int], Made]]:
    """Yield a function that returns ``make(step)`` for a step in [0, steps), and makes the next in a thread.

    Otherwise a GPU would wait for its batch. The first batch is made in the calling thread. So the processes
    that it starts do not belong to a thread that ends; a process forked by a pool's thread does not end
    cleanly.
    """
    coming: dict[int, Future[Made]] = {}
    with ThreadPoolExecutor(1) as thread:

        def take_batch(step: int) -> Made:
            future = coming.pop(step, None)
            batch = make(step) if future is None else future.result()
            if step + 1 < steps:
                coming[step + 1] = thread.submit(make, step + 1)
            return batch

        yield take_batch


def compute_validation_metrics(
    clip: Clip, examples: Examples, device: str, precision: str
) -> dict[str, float]:
    """Return validation metrics of the model on the rows, each in [0, 1].

    - ``retrieval``: image→text recall@1 within groups of ``BATCH_SIZE`` rows; any caption of an image is right.
    - ``accuracy``: caption choice between caption and first negative, if the rows have negatives.
    - ``group``: both captions and both images correct, if the negatives also have images.

    Similarities are in fp32: in bf16 close ones would be equal. The model is in evaluation mode afterwards.
    """
    import torch

    def encode_images(images: ImageDataset | ImageFeatures, rows: RowIds) -> torch.Tensor:
        stacks = (torch.from_numpy(images[rows[part]]).to(device) for part in parts)
        with use_precision(device, precision):
            return torch.cat([encode_image(clip, stack).float() for stack in stacks])

    def encode_texts(texts: Tokens, rows: RowIds) -> torch.Tensor:
        stacks = (torch.from_numpy(texts[rows[part]]).long().to(device) for part in parts)
        with use_precision(device, precision):
            return torch.cat([encode_text(clip, stack).float() for stack in stacks])

    parts = [slice(start, start + BATCH_SIZE) for start in range(0, len(examples), BATCH_SIZE)]
    all_rows = np.arange(len(examples))
    clip.model.eval()
    with torch.inference_mode():
        i0, c0 = encode_images(examples.images, all_rows), encode_texts(examples.texts, all_rows)
        ids = torch.from_numpy(examples.image_ids).to(device)
        matches = [
            image_ids[(images @ texts.T).argmax(1)] == image_ids
            for images, texts, image_ids in zip(
                *(torch.split(t, BATCH_SIZE) for t in (i0, c0, ids)), strict=True
            )
        ]
        out = {"retrieval": float(torch.cat(matches).float().mean())}
        if examples.negatives is not None:
            first = examples.negatives.positions[:, 0]
            c1 = encode_texts(examples.negatives.texts, first)
            right = (i0 * c0).sum(1) > (i0 * c1).sum(1)
            out["accuracy"] = float(right.float().mean())
            if examples.negatives.images is not None:
                i1 = encode_images(examples.negatives.images, first)
                both = right & ((i1 * c1).sum(1) > (i1 * c0).sum(1))
                both &= ((i0 * c0).sum(1) > (i1 * c0).sum(1)) & ((i1 * c1).sum(1) > (i0 * c1).sum(1))
                out["group"] = float(both.float().mean())
    return out


def measure_validation(
    clip: Clip,
    validation: Sequence[Examples],
    own_validation: Sequence[Examples],
    loop: LoopConfig,
    device: str,
    precision: str,
) -> dict[str, float]:
    """Return the metrics of both kinds of validation rows; see ``train_clip``."""
    metrics: dict[str, float] = {}
    for part in filter(len, validation):
        metrics.update(compute_validation_metrics(clip, part, device, precision))
    for part in filter(len, own_validation):
        metrics[METRIC] = compute_batch_accuracy(
            clip, part, loop.batch_size, device, precision, loop.micro_batch_size
        )
    return metrics


def encode_locked(clip: Clip, sets: Sequence[Examples], device: str, precision: str) -> list[Examples]:
    """Return the sets with image vectors in place of images if this gives the same results, else unchanged.

    Each image is then encoded only once. The conditions are:

    - the image tower is locked,
    - the decoded images of all sets are in memory,
    - the method does not join images or use patches.
    """
    import torch

    def encode_pixels(pixels: Stack) -> npt.NDArray[np.float32]:
        with torch.no_grad(), use_precision(device, precision):
            features = encode_image(clip, torch.from_numpy(pixels).to(device))
        vectors: npt.NDArray[np.float32] = features.float().cpu().numpy()
        return vectors

    method = sets[0].method
    learns = any(parameter.requires_grad for parameter in clip.model.visual.parameters())
    if learns or method.parts or method.patches or method.joins or not all(part.held for part in sets):
        return list(sets)
    return [encode_examples(part, encode_pixels) for part in sets]


def _require_rowwise(model: torch.nn.Module, group: DistContext, rows: int | None, batch_size: int) -> None:
    """Raise a ConfigError if a layer mixes rows and no forward pass has the whole batch.

    A pass has only a part of the batch if processes share it, or if it is encoded in parts.
    """
    import torch

    layers = [n for n, m in model.named_modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if group.size > 1:
        setting, pass_over, cure = f"nproc = {group.size}", "each process has only its share", "1"
    elif rows is not None and rows < batch_size:
        setting, pass_over, cure = f"micro_batch_size = {rows}", "each pass has only a part", "null"
    else:
        return
    if layers:
        raise ConfigError(
            f"finetune.{setting}: the model normalises over the rows of a batch (layer {layers[0]!r} and "
            f"{len(layers) - 1} more), but {pass_over} of them. Set {cure}, or use a base without batch norm."
        )


def train_clip(
    clip: Clip,
    examples: Examples,
    validation: Sequence[Examples],
    settings: ContrastiveConfig,
    *,
    own_validation: Sequence[Examples] = (),
    scratch: Path,
    title: str,
    on_points: Callable[[Curve], None] | None = None,
    select: str = "",
    group: DistContext = ALONE,
) -> Curve:
    """Train the model in place and return its curve; resumes from ``scratch``.

    The optimiser is AdamW with weight decay on matrices only (BiVLC E.3). The checkpoints also hold the
    method's teacher and state.

    Args:
        clip: model to train.
        examples: training rows with their method.
        validation: sets of rows for ``compute_validation_metrics`` at each checkpoint; empty sets are
            skipped.
        own_validation: sets of val rows of the training's own method, for ``compute_batch_accuracy``.
        settings: how the model is trained. Low-rank updates are merged into the weights at the end.
        scratch: folder of the resumable state.
        title: title of the progress bar and in messages.
        on_points: called with the new points of the curve at each checkpoint, for tracking.
        select: validation metric by which the final weights are selected; "" for the last ones.
        group: this process and the others that train with it; they share each batch. All of them validate.
            Only the first one writes to ``scratch`` and calls ``on_points``.

    Raises:
        ConfigError: the model has batch norm, and its batches are shared by processes or encoded in parts; or
            as in ``run_training``.
    """
    import torch

    loop, optimizer = settings.loop, settings.optimizer
    device = group.select_device(resolve_device(settings.compute.device))
    precision = resolve_precision(settings.compute.precision, device)
    move_to_device(clip.model, device)
    method = examples.method
    if method.neighbours:
        near = find_nearest_rows(clip, examples, method.neighbours, device, precision)
        examples = replace(examples, neighbours=near)
    objective = Objective(
        clip, method, device=device, precision=precision, rows=loop.micro_batch_size, group=group
    )
    average = None if loop.ema_decay is None else copy_frozen_model(clip.model)
    measured_clip = clip if average is None else replace(clip, model=average)
    _require_rowwise(clip.model, group, loop.micro_batch_size, loop.batch_size)
    set_trainable_params(clip.model, settings.scope, seed=loop.seed)
    if loop.grad_checkpointing:
        clip.model.set_grad_checkpointing()
    set_training_mode(clip.model)
    examples, *validation = encode_locked(clip, [examples, *validation], device, precision)
    groups = build_param_groups([clip.model], optimizer.weight_decay)
    # The fused version takes a quarter of the time, also on a CPU, since it passes over the weights once.
    adamw = torch.optim.AdamW(groups, lr=optimizer.lr, betas=optimizer.betas, eps=optimizer.eps, fused=True)

    def load_batch(step: int) -> Batch:
        rows = draw_step_rows(examples, loop.batch_size, loop.seed, step)
        return assemble_batch(clip, examples, rows, loop.seed, step, group.get_local_rows(len(rows)))

    def compute_metrics() -> dict[str, float]:
        metrics = measure_validation(measured_clip, validation, own_validation, loop, device, precision)
        set_training_mode(clip.model)
        return metrics

    def update_after_step(step: int) -> None:
        objective.update_after_step()
        if average is not None and loop.ema_decay is not None:
            update_ema_(average, get_merged_state(clip.model), ema_decay_at(loop.ema_decay, step))

    def list_row_names(step: int) -> list[str]:
        return [
            str(name) for name in examples.names[draw_step_rows(examples, loop.batch_size, loop.seed, step)]
        ]

    with (
        Loader(load_batch, loop.steps, 0 if examples.held else loop.num_workers) as load,
        prefetch(lambda step: load(step).to(device), loop.steps) as batch_of,
    ):
        training = Training(
            {"model": clip.model, **objective.modules, **({} if average is None else {"average": average})},
            adamw,
            batch_of,
            objective.compute_loss,
            loop.steps,
            optimizer.warmup_steps,
            loop.checkpoint_every,
            seed=[loop.seed, group.rank],
            measure=compute_metrics,
            on_points=None if group.rank else on_points,
            after_step=update_after_step,
            select=select,
            rows=list_row_names,
            patience=loop.patience,
            grad_clip_norm=optimizer.grad_clip_norm,
            writes=not group.rank,
        )
        curve = run_training(training, scratch=scratch, title=title)
    merge_lora(clip.model)
    if average is not None:
        clip.model.load_state_dict(average.state_dict())
    clip.model.requires_grad_(True).eval()
    return curve
