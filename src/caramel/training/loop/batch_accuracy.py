"""The papers' criterion for the best weights: how often the contrastive task itself is solved on val."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from caramel.models.devices import use_precision
from caramel.training.data.batch import assemble_batch, count_rows_per_step
from caramel.training.data.examples import Examples
from caramel.training.loop.forward import encode_batch
from caramel.training.loop.grad_cache import join_features

if TYPE_CHECKING:
    from caramel.interfaces.method import Features
    from caramel.models.open_clip.config import Clip

METRIC = "contrastive"
NO_IMAGE = -1  # image of a negative caption that has none
UNJOINED = 1  # number of a step that joins no rows


def compute_batch_accuracy(
    clip: Clip,
    examples: Examples,
    captions: int,
    device: str,
    precision: str,
    micro_batch_size: int | None = None,
) -> float:
    """Return the mean over batches of ½ (image→text + text→image accuracy), in [0, 1].

    This is BiVLC's criterion (github.com/IMirandaM/BiVLC, src/CLIP_fine_tuning). A batch has as many rows as a step,
    in the table's order, and the last batch counts like the others. Images and captions of a batch are those of the
    method: its negative captions and its negative images are further candidates, and further pairs if it uses both.
    Similarities are in fp32: in bf16 close ones would be equal. Other than in the authors' code, any caption of an image is right, since captions of one image are no negatives of each other.

    Args:
        clip: the model; it is in evaluation mode afterwards.
        examples: val rows of the method, at least one.
        captions: texts of a training step.
        device, precision: of the forward passes.
        micro_batch_size: number of rows that are encoded at a time; None: those of a batch.
    """
    import torch

    size = count_rows_per_step(examples.method, captions, neighbours=False)
    clip.model.eval()
    accuracies = []
    with torch.inference_mode():
        for start in range(0, len(examples), size):
            rows = np.arange(start, min(start + size, len(examples)))
            batch = assemble_batch(clip, examples, rows, 0, UNJOINED)
            with use_precision(device, precision):
                parts = [
                    encode_batch(clip, examples.method, part.to(device))
                    for part in batch.split_rows(micro_batch_size)
                ]
            accuracies.append(_compute_accuracy(join_features(parts)))
    return float(np.mean(accuracies))


def _compute_accuracy(features: Features) -> float:
    """Return ½ (image→text + text→image accuracy) of one batch."""
    import torch

    images, image_ids = features.image_features, features.image_ids
    texts, text_ids = features.text_features, features.image_ids
    captioned = len(images)  # images with a caption
    mask, owners = features.negative_mask, None
    if features.negative_images is not None:
        assert mask is not None
        assert features.negative_image_ids is not None
        owners = features.negative_image_ids[mask]
        images = torch.cat([images, features.negative_images[mask]])
        image_ids = torch.cat([image_ids, owners])
    if features.negative_texts is not None:
        assert mask is not None
        negatives = features.negative_texts[mask]
        texts = torch.cat([texts, negatives])
        text_ids = torch.cat(
            [text_ids, text_ids.new_full((len(negatives),), NO_IMAGE) if owners is None else owners]
        )
        captioned = len(images)
    similarity = images @ texts.T
    image_right = (text_ids[similarity.argmax(1)] == image_ids)[:captioned]
    is_owned = text_ids != NO_IMAGE
    text_right = (image_ids[similarity.argmax(0)] == text_ids)[is_owned]
    return float(image_right.float().mean() + text_right.float().mean()) / 2
