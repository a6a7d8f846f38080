"""Select 40 % of SugarCrepe++ as training rows, and fine-tune a model on them.

Dumpala et al. 2024, E.3, draw 40 % of each subset, train on all of them together and test on the other rows.
They split rows, so an image that several rows show may be on both sides. The split here is over image files,
across subsets. They name the objective of sentence-transformers (``methods.sentence_transformers``), and state
none of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.image_files import read_encoded_image
from caramel.errors import DataError
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.interfaces.settings import Compute
from caramel.interfaces.trainer import Curve
from caramel.interfaces.training_settings import (
    ContrastiveConfig,
    LoopConfig,
    LoraConfig,
    OptimizerConfig,
    TrainableConfig,
)
from caramel.registry import METHODS
from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING
from caramel.training.data.batch import count_texts_per_row
from caramel.training.data.examples import load_examples
from caramel.training.loop.contrastive import train_clip
from caramel.utils.hashing import compute_stable_keys
from caramel.utils.typed_settings import build_settings

if TYPE_CHECKING:
    from caramel.models.open_clip.config import Clip

SHARE = 0.4  # share of each subset that is trained on


@dataclass(frozen=True)
class TuningConfig:
    """How models are tuned.

    Attributes:
        method: name of the training method, in ``METHODS``.
        epochs: passes through the training rows, > 0.
        rows: rows of a step, each with two captions and a negative, > 1.
        lora_lr: learning rate of LoRA, > 0; that of ``training`` is for all weights.
        training: further settings; its scope's LoRA has ``targets`` of which each model needs to match one.
    """

    method: str
    epochs: int
    rows: int
    lora_lr: float
    training: ContrastiveConfig


def build_tuning_config(
    *,
    method: str,
    epochs: int,
    rows: int,
    batch_size: int,
    lora: Mapping[str, Any],
    lora_lr: float,
    num_workers: int,
    compute: Compute,
    **optimizer: Any,
) -> TuningConfig:
    """Return the settings of the section of the params.

    Args:
        method, epochs, rows, lora_lr: as in ``TuningConfig``.
        batch_size: items per forward pass of the test, which is not part of a training.
        lora: fields of ``LoraConfig``.
        num_workers: as in ``LoopConfig``.
        compute: device and precision of training.
        optimizer: lr, warmup_steps, weight_decay and grad_clip_norm, as in ``OptimizerConfig``.
    """
    loop = LoopConfig(
        seed=0, steps=1, batch_size=1, checkpoint_every=1, num_workers=num_workers, micro_batch_size=None,
        grad_checkpointing=False, patience=None, ema_decay=None,
    )  # fmt: skip
    scope = TrainableConfig("all", unlocked_layers=1, lora=build_settings(LoraConfig, lora))
    adamw = OptimizerConfig(**optimizer, betas=(0.9, 0.98), eps=1e-6)
    training = ContrastiveConfig(loop, adamw, scope, compute)
    return TuningConfig(method, epochs, rows, lora_lr, training)


def select_training_rows(
    image_ids: Sequence[object], subsets: Sequence[str], *, seed: int
) -> npt.NDArray[np.bool_]:
    """Return a mask (n,) of the training rows: about ``SHARE`` of each subset, all rows of an image or none.

    Images are sorted by the subsets in which they have rows; images with the same subsets are in an order
    drawn from their names. Images are then taken at even intervals, from an offset that is drawn too. So the
    share is exact, up to one image, for the images with the same subsets.

    Args:
        image_ids: image of each row, equal for rows that show one image, (n,).
        subsets: subset of each row, (n,).
        seed: seed of the draws.
    """
    of = pd.DataFrame({"image": [*image_ids], "subset": [*subsets]})
    image_subsets = of.groupby("image")["subset"].agg(lambda names: " ".join(sorted(names))).reset_index()
    image_subsets = image_subsets.assign(
        key=compute_stable_keys(image_subsets["image"].map(str), seed)
    ).sort_values(["subset", "key"])
    start = float(compute_stable_keys(["start"], seed)[0]) / 2**64
    passed = np.floor(np.arange(len(image_subsets) + 1) * SHARE + start)
    return of["image"].isin(image_subsets.loc[np.diff(passed) > 0, "image"]).to_numpy(bool)


def build_training_table(task: Comparisons, chosen: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """Return the table ``training`` of a task's chosen rows, each with P1, P2 and its hard negative."""
    rows = task.rows[chosen]
    records = [
        {
            "pair_id": row["instance_id"],
            "image_id": str(task.images[row["image"]]),
            "caption": row["caption"],
            "caption2": row["caption2"],
            "negative_captions": [row["negative_caption"]],
            "negative_image_ids": [None],
            "subtypes": row["subsets"][-1:],
            "split": "train",
        }
        for row in rows.to_dict("records")
    ]
    return build_frame(TRAINING, records)


def train_model(
    clip: Clip,
    task: Comparisons,
    chosen: npt.NDArray[np.bool_],
    *,
    method: str,
    epochs: int,
    rows: int,
    settings: ContrastiveConfig,
    scratch: Path,
    on_points: Callable[[Curve], None] | None = None,
) -> None:
    """Train a model in place on the chosen rows, without validation; it keeps the last step's weights.

    Args:
        clip: model to train.
        task: SugarCrepe++.
        chosen: mask of its training rows, (n,).
        method: name of the training method, in ``METHODS``.
        epochs: passes through the training rows.
        rows: rows per step, each with two captions and a negative.
        settings: how the model is trained; ``steps``, ``checkpoint_every`` and ``batch_size`` of its loop are
            replaced by values computed from ``epochs`` and ``rows``.
        scratch: folder of the resumable state.
        on_points: as in ``train_clip``.

    Raises:
        DataError: there are fewer training rows than a step takes, or an image is missing or broken.
    """
    table = build_training_table(task, chosen)
    if len(table) < rows:
        raise DataError(
            f"The split has {len(table)} training rows, fewer than the {rows} rows of a step. "
            f"Set fewer rows per step."
        )
    known = METHODS[method]
    captions = rows * count_texts_per_row(known, bool(known.neighbours))
    examples = load_examples(clip, table, _ImageFiles(task.images), method=known)
    every = epochs * (len(table) // rows)
    loop = replace(settings.loop, steps=every, checkpoint_every=every, batch_size=captions)
    train_clip(
        clip,
        examples,
        [],
        replace(settings, loop=loop),
        scratch=scratch,
        title=f"{settings.scope.trainable}-{loop.seed}",
        on_points=on_points,
    )


class _ImageFiles(Mapping[str, bytes]):
    """Encoded files of a benchmark's images by their names; each is read on access."""

    def __init__(self, images: Sequence[ImageFile]) -> None:
        self._images = {str(image): image for image in images}

    def __getitem__(self, name: str) -> bytes:
        return read_encoded_image(self._images[name])

    def __contains__(self, name: object) -> bool:
        return name in self._images

    def __iter__(self) -> Iterator[str]:
        return iter(self._images)

    def __len__(self) -> int:
        return len(self._images)
