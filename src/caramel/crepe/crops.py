"""Decide which crops of an image are suitable: the published filters (Ma et al. 2023, 4.1 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

from caramel.interfaces.scene_graph import Box


@dataclass(frozen=True)
class CropRules:
    """Requirements of a crop; the defaults are the published values.

    Attributes:
        area: least number of pixels.
        share: least share of the image.
        narrow: least ratio of width to height; the largest ratio is its inverse.
        overlap: intersection over union from which on two crops count as the same.
    """

    area: float = 40_000
    share: float = 0.1
    narrow: float = 0.5
    overlap: float = 0.75


SMALL, THIN, FORM = (
    "the crop is too small",
    "the crop is too little of its image",
    "the crop is too long or tall",
)


def find_crop_problem(box: Box, width: int, height: int, rules: CropRules) -> str | None:
    """Return why a crop of an image of this size is not suitable; None if it is."""
    area = box[2] * box[3]
    if box[2] <= 0 or box[3] <= 0 or area < rules.area:
        return SMALL
    if area < rules.share * width * height:
        return THIN
    return None if rules.narrow <= box[2] / box[3] <= 1 / rules.narrow else FORM


def compute_iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two boxes, in [0, 1]."""
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    both = max(0.0, width) * max(0.0, height)
    return both / (a[2] * a[3] + b[2] * b[3] - both)
