"""Find rows with similar images by the features of the model to be trained, for NegCLIP's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from caramel.errors import DataError
from caramel.models.devices import use_precision
from caramel.models.open_clip.encoder import normalise_pixels
from caramel.training.data.examples import Examples
from caramel.training.data.loader import RowIds

if TYPE_CHECKING:
    from caramel.models.open_clip.config import Clip

AT_ONCE = 1024  # images that are encoded, or compared with all others, per call


def find_nearest_rows(clip: Clip, examples: Examples, number: int, device: str, precision: str) -> RowIds:
    """Return row numbers (n, number): for each row, those of the nearest other images by cosine, in order.

    An image is represented by its first row. If there are fewer than ``number`` other images, there are as
    many columns as other images.

    Raises:
        DataError: all rows show one image.
    """
    import torch

    distinct, first = np.unique(examples.image_ids, return_index=True)
    number = min(number, len(distinct) - 1)
    if not number:
        raise DataError("All training rows show one image, so no row has a neighbour with another image.")
    clip.model.eval()
    parts = range(0, len(first), AT_ONCE)
    with torch.inference_mode(), use_precision(device, precision):
        vectors = torch.cat(
            [
                clip.model.encode_image(
                    normalise_pixels(
                        clip, torch.from_numpy(examples.images[first[s : s + AT_ONCE]]).to(device)
                    ),
                    normalize=True,
                ).float()
                for s in parts
            ]
        )
    nearest = []
    for start in parts:
        cosines = vectors[start : start + AT_ONCE] @ vectors.T
        diagonal = torch.arange(len(cosines), device=device)
        cosines[diagonal, diagonal + start] = -torch.inf
        nearest.append(cosines.topk(number).indices.cpu().numpy())
    near: RowIds = first[np.concatenate(nearest)]
    return near[np.searchsorted(distinct, examples.image_ids)]
