"""SugarCrepe++ fine-tuned on 40 % of itself: which rows of each subset train, and a model trained on them.

Dumpala et al. 2024, E.3, draw 40 % of each subset and train on all of them together; each other row is tested. Their split is
over rows, so that a picture that several rows show may stand on both sides; here it is over image files, across subsets.
They state neither their objective nor its settings: the one here is ``methods.two_captions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.image_files import read_encoded_image
from caramel.errors import DataError
from caramel.interfaces.benchmark import Comparisons, ImageFile
from caramel.interfaces.training_settings import ContrastiveConfig
from caramel.registry import METHODS
from caramel.schemas.io import build_frame
from caramel.schemas.training import TRAINING
from caramel.training.data.examples import load_examples
from caramel.training.loop.contrastive import train_clip
from caramel.utils.hashing import compute_stable_keys

if TYPE_CHECKING:
    from caramel.models.open_clip.config import Clip

SHARE = 0.4  # of the rows of each subset that train
METHOD = "two_captions"


def select_training_rows(
    image_ids: Sequence[object], subsets: Sequence[str], *, seed: int
) -> npt.NDArray[np.bool_]:
    """Return which rows train, (n,): all rows of an image or none, and of each subset about the share.

    Images are put in order by the subsets in which they have rows, those of the same subsets in an order drawn from their
    names; of that order evenly many are taken, from a place on that is drawn, too. So of the images with rows in the
    same subsets the share is taken, up to one image.

    Args:
        image_ids: of each row, equal where rows show one image, (n,).
        subsets: of each row, (n,).
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
    """Return table ``training`` of the chosen rows of a task: P1 and P2 of each, and its hard negative."""
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
    epochs: int,
    rows: int,
    settings: ContrastiveConfig,
    scratch: Path,
) -> None:
    """Train a model in place on the chosen rows; it ends with the weights of the last step, and nothing is measured meanwhile.

    Args:
        clip: model to train.
        task: of SugarCrepe++.
        chosen: (n,) of its rows.
        epochs: passes through them.
        rows: of a step, each with two captions and a negative.
        settings: how the model is trained; ``steps``, ``checkpoint_every`` and ``batch_size`` of its loop follow from the passes
            and rows.
        scratch: folder where an interrupted training goes on.

    Raises:
        DataError: there are fewer rows than in a step, or an image is missing or broken.
    """
    table = build_training_table(task, chosen)
    if len(table) < rows:
        raise DataError(
            f"{len(table)} rows are to be trained on, fewer than a step's {rows}. Take fewer rows in a step."
        )
    method = METHODS[METHOD]
    captions = rows * (1 + method.negatives + method.paraphrases)
    examples = load_examples(clip, table, _ImageFiles(task.images), method=method)
    every = epochs * (len(table) // rows)
    loop = replace(settings.loop, steps=every, checkpoint_every=every, batch_size=captions)
    train_clip(
        clip,
        examples,
        [],
        replace(settings, loop=loop),
        scratch=scratch,
        title=f"{settings.scope.trainable}-{loop.seed}",
    )


class _ImageFiles(Mapping[str, bytes]):
    """Encoded files of a benchmark's images by their names, each read when it is asked for."""

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
