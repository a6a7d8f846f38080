"""Contrastive training of a CLIP on pairs, with or without hard negatives: what ``pretrain``
and ``finetune`` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError, shown
from caramel.kinds.method import Method
from caramel.kinds.trainer import Curve
from caramel.models.clip.encoder import decode, encode_text, normalised
from caramel.models.clip.trimming import needed_columns
from caramel.models.devices import autocast, on_device, resolve_device, resolve_precision
from caramel.storage.image_store import OnDemand
from caramel.training.loop import Training, train, weight_decay_groups

if TYPE_CHECKING:
    import torch

    from caramel.models.clip.checkpoints import Clip

Made = TypeVar("Made")
LOGIT_SCALE_MAX = 4.6052  # ln 100, as in CLIP


@dataclass(frozen=True)
class Examples:
    """Training rows in memory, for one method; row i of each array belongs together.

    ``images`` are uint8 (n, 3, size, size), ``texts`` tokens (n, context). Negatives are there as the method names
    them: for each row, or none.
    """

    method: Method
    images: npt.NDArray[np.uint8]
    texts: torch.Tensor
    negative_texts: torch.Tensor | None = None
    negative_images: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.images)


class Batch(NamedTuple):
    """What a step trains on: (n, …), or (2n, …) where there are negatives of that sort."""

    pictures: torch.Tensor  # uint8 (…, 3, size, size)
    texts: torch.Tensor  # tokens (…, context)
    columns: int | None  # of the tokens that are needed; None: not known


def load_examples(clip: Clip, rows: pd.DataFrame, images: Mapping[str, bytes], *, method: Method) -> Examples:
    """Return the rows of a ``training`` table in memory.

    Args:
        clip: model whose tokenizer and preprocessing are used.
        rows: table ``training``, or ``pairs``, which has no negatives.
        images: encoded files by image_id.
        method: how they are trained on, or measured: with which negatives.

    Raises:
        DataError: there are no rows, one of them lacks a negative, or an image is not there.
    """
    if rows.empty:
        raise DataError("There is no row to train on: no pair of the train split was kept.")
    for column in method.negatives:
        _check(rows, rows[column].notna(), f"have no {column}, which this training set must have in each row")

    def pixels(column: str) -> npt.NDArray[np.uint8]:
        known = rows[column].map(images.__contains__).astype(bool)
        _check(rows, known, f"name in {column} an image that is not in the images")
        distinct, places = np.unique(rows[column].to_numpy(str), return_inverse=True)
        return decode(clip, OnDemand(images.__getitem__, distinct.tolist()))[places]

    texts = (
        clip.tokenize(rows["negative_caption"].tolist()) if "negative_caption" in method.negatives else None
    )
    negative_images = pixels("negative_image_id") if "negative_image_id" in method.negatives else None
    return Examples(
        method, pixels("image_id"), clip.tokenize(rows["caption"].tolist()), texts, negative_images
    )


def _check(rows: pd.DataFrame, good: pd.Series[bool], problem: str) -> None:
    """Raise a DataError that names rows which are not good, if there are any."""
    bad = rows.loc[~good, ["image_id", "caption"]]
    if len(bad):
        named = [f"{image!r}: {caption!r}" for image, caption in bad.itertuples(index=False)]
        raise DataError(
            f"{len(bad)} of {len(rows)} rows {problem}:\n{shown(named)}\nRun `dvc repro` to make the set again."
        )


def draw_batch(seed: int, step: int, rows: int, size: int) -> npt.NDArray[np.int64]:
    """Return ``size`` different row numbers (all rows, if there are fewer), from seed and step."""
    return np.random.default_rng([seed, step]).choice(rows, size=min(size, rows), replace=False)


def take(clip: Clip, examples: Examples, rows: npt.NDArray[np.int64], device: str) -> Batch:
    """Return some of the rows on the device; their negatives stand behind them."""
    import torch

    def moved(stack: torch.Tensor) -> torch.Tensor:
        if device.startswith("cuda"):  # from pinned memory nothing waits for the copy
            return stack.pin_memory().to(device, non_blocking=True)
        return stack.to(device)

    pictures, texts = [examples.images[rows]], [examples.texts[rows]]
    if examples.negative_texts is not None:
        texts.append(examples.negative_texts[rows])
    if examples.negative_images is not None:
        pictures.append(examples.negative_images[rows])
    tokens = torch.cat(texts)
    stack = torch.cat([torch.from_numpy(part) for part in pictures])
    return Batch(moved(stack), moved(tokens), needed_columns(clip.model, tokens))


def batch_loss(clip: Clip, method: Method, batch: Batch) -> torch.Tensor:
    """Return the loss of one batch by a method."""
    images = clip.model.encode_image(normalised(clip, batch.pictures), normalize=True)
    vectors = encode_text(clip, batch.texts, batch.columns)
    scale = clip.model.logit_scale.exp()
    return method.loss(images.float(), vectors.float(), scale)


@contextmanager
def ahead(make: Callable[[int], Made], steps: int) -> Iterator[Callable[[int], Made]]:
    """Give ``make`` of a step from 0 to ``steps``; in a thread it makes that of the next one meanwhile.

    A GPU would wait for its batch else.
    """
    coming: dict[int, Future[Made]] = {}
    with ThreadPoolExecutor(1) as thread:

        def made(step: int) -> Made:
            found = coming.pop(step, None) or thread.submit(make, step)
            if step + 1 < steps:
                coming[step + 1] = thread.submit(make, step + 1)
            return found.result()

        yield made


def hits(clip: Clip, examples: Examples, device: str, precision: str, batch: int = 256) -> dict[str, float]:
    """Return validation metrics of the model on the rows, each in [0, 1].

    ``retrieval``: image→text recall@1 within groups of ``batch`` rows. Where the rows have
    negatives: ``accuracy`` (caption choice) and, with negative images, ``group``.
    """
    import torch

    def encode(pictures: npt.NDArray[np.uint8] | None, tokens: torch.Tensor | None) -> torch.Tensor:
        out = []
        for start in range(0, len(examples), batch):
            part = slice(start, start + batch)
            if pictures is not None:
                pixels = normalised(clip, torch.from_numpy(pictures[part]).to(device))
                out.append(clip.model.encode_image(pixels, normalize=True).float())
            elif tokens is not None:
                out.append(encode_text(clip, tokens[part].to(device)).float())
        return torch.cat(out)

    clip.model.eval()
    with torch.inference_mode(), autocast(device, precision):
        i0, c0 = encode(examples.images, None), encode(None, examples.texts)
        found = [
            (i0[s : s + batch] @ c0[s : s + batch].T)
            .argmax(1)
            .eq(torch.arange(len(i0[s : s + batch]), device=device))
            for s in range(0, len(i0), batch)
        ]
        out = {"retrieval": float(torch.cat(found).float().mean())}
        if examples.negative_texts is not None:
            c1 = encode(None, examples.negative_texts)
            right = (i0 * c0).sum(1) > (i0 * c1).sum(1)
            out["accuracy"] = float(right.float().mean())
            if examples.negative_images is not None:
                i1 = encode(examples.negative_images, None)
                both = right & ((i1 * c1).sum(1) > (i1 * c0).sum(1))
                both &= ((i0 * c0).sum(1) > (i1 * c0).sum(1)) & ((i1 * c1).sum(1) > (i0 * c1).sum(1))
                out["group"] = float(both.float().mean())
    clip.model.train()
    return out


def fit(
    clip: Clip,
    examples: Examples,
    validation: Sequence[Examples],
    *,
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
    title: str,
    on_points: Callable[[Curve], None] | None = None,
    select: str = "",
) -> Curve:
    """Train the model in place and return its curve; resumes from ``scratch``.

    AdamW with β = (0.9, 0.98), ε = 1e-6 and weight decay on matrices only (BiVLC E.3).

    Args:
        clip: model to train.
        examples: training rows, with the method that they are trained on by.
        validation: rows whose ``hits`` are measured at each checkpoint; empty sets are left out.
        batch: texts and images of a step together with their negatives: a set with negatives
            draws half as many rows, as in BiVLC.
        on_points: called with the new points of the curve at each checkpoint, for tracking.
        select: metric of ``hits`` by which the weights that the model ends with are chosen; "" for the last ones.
        seed, steps, lr, warmup, weight_decay, checkpoint_every, device, precision, scratch,
        title: as their names say.
    """
    import torch

    device = resolve_device(device)
    precision = resolve_precision(precision, device)
    on_device(clip.model, device).train()
    rows = max(2, batch // 2) if examples.method.negatives else batch
    groups = weight_decay_groups([clip.model], weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), eps=1e-6)

    def drawn(step: int) -> Batch:
        return take(clip, examples, draw_batch(seed, step, len(examples), rows), device)

    def measure() -> dict[str, float]:
        found: dict[str, float] = {}
        for part in validation:
            if len(part):
                found.update(hits(clip, part, device, precision))
        return found

    def clamp(_: int) -> None:
        with torch.no_grad():
            clip.model.logit_scale.clamp_(0, LOGIT_SCALE_MAX)

    with ahead(drawn, steps) as batch_of:

        def loss(step: int) -> torch.Tensor:
            with autocast(device, precision):
                return batch_loss(clip, examples.method, batch_of(step))

        training = Training(
            {"model": clip.model},
            optimizer,
            loss,
            steps,
            warmup,
            checkpoint_every,
            measure,
            on_points,
            clamp,
            select,
        )
        curve = train(training, scratch=scratch, title=title)
    clip.model.eval()
    return curve
