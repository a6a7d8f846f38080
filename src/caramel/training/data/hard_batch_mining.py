"""Rows whose images look alike, as the model to be trained sees them: what NegCLIP puts beside each other."""

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

AT_ONCE = 1024  # images that are encoded, or compared with all others, at a time


def find_nearest_rows(clip: Clip, examples: Examples, number: int, device: str, precision: str) -> RowIds:
    """Return for each row those of the nearest other images by cosine, nearest first: (n, number) row numbers.

    Of several rows that show one image the first stands for it; with fewer other images there are as many columns.

    Raises:
        DataError: there is no other image.
    """
    import torch

    distinct, first = np.unique(examples.image_ids, return_index=True)
    number = min(number, len(distinct) - 1)
    if not number:
        raise DataError("All rows to train on show one image: there is no other that would be a neighbour.")
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
