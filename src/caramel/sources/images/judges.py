"""Judge how well an image fits a caption: an exact reading of the embedded world, or an image–text model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError
from caramel.interfaces.judge import MatchScores
from caramel.io.image_store import LazySequence
from caramel.io.keys import compute_image_key

AT_ONCE = 1024  # images that are read in one step
BATCH_SIZE = 256  # images or texts per forward pass
Key = TypeVar("Key", bound=Hashable)


class ReadingJudge:
    """The exact reading of the embedded world: fit is 1 or 0."""

    name = "world"

    def __init__(self, allow_unmentioned_objects: bool) -> None:
        self._further_objects = allow_unmentioned_objects

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return 1 where the image is valid and the caption exactly true of it, else 0.

        An image with an unreadable cell or a repeated noun is invalid. Each distinct image is read once.

        Raises:
            DataError: a caption is not a caption of the embedded world.
        """
        from caramel.io.image_codec import decode_center_crop
        from caramel.sources.world.drawing import CANVAS
        from caramel.sources.world.exact_reader import ImageReading, read_images
        from caramel.sources.world.grammar import parse_caption
        from caramel.sources.world.scenes import is_true_of_objects

        first, numbers = _find_distinct_images(images)
        read_once: list[ImageReading] = []
        for start in range(0, len(first), AT_ONCE):
            part = first[start : start + AT_ONCE]
            stack = np.stack([decode_center_crop(images[index], f"number {index}", CANVAS) for index in part])
            read_once += read_images(stack)
        shown_by = [read_once[number] for number in numbers]
        out = np.zeros(len(captions))
        for index, (caption, image_reading) in enumerate(zip(captions, shown_by, strict=True)):
            reading = parse_caption(caption)
            if reading is None:
                raise DataError(
                    f"The exact reading supports only captions of the embedded world, not {caption!r}. "
                    f"Set filter_images.judge to 'clip' in params.yaml."
                )
            objects = image_reading.scene.things
            of_the_world = not image_reading.unreadable and len({t.noun for t in objects}) == len(objects)
            exactly = reading.alone or not self._further_objects
            out[index] = of_the_world and is_true_of_objects(reading.whole, objects, exactly=exactly)
        return out

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return where the positive caption is true; an exact reading needs no margin."""
        return positive >= 0.5


class ClipJudge:
    """An image–text model: fit is the cosine of image and caption, scaled to [0, 1]."""

    name = "clip"

    def __init__(self, checkpoint: str, device: str) -> None:
        from caramel.models.open_clip.checkpoints import load_encoder

        self._encoder = load_encoder(checkpoint, device=device, precision="fp32", name="judge")

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return (1 + cosine) / 2; each distinct image and caption is encoded once."""
        first, numbers = _find_distinct_images(images)
        distinct = LazySequence(images.__getitem__, first)
        image_features = self._encoder.encode_images(distinct, BATCH_SIZE)[numbers]
        distinct_captions = dict.fromkeys(captions)
        text_features = self._encoder.encode_texts(list(distinct_captions), BATCH_SIZE)[
            _compute_indices(captions, distinct_captions)
        ]
        cosine: MatchScores = (image_features.astype(np.float64) * text_features.astype(np.float64)).sum(1)
        return (1 + cosine) / 2

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return where the negative caption's fit does not exceed the positive's by more than ``margin``."""
        return negative - positive <= margin


class NoJudge:
    """No judgement: every image fits and none is ambiguous, so the first candidate is taken (TROHN-Img)."""

    name = "none"

    def score_match(self, images: Sequence[bytes], captions: Sequence[str]) -> MatchScores:
        """Return 1 for each caption."""
        return np.ones(len(captions))

    def is_ambiguous(
        self, negative: MatchScores, positive: MatchScores, margin: float
    ) -> npt.NDArray[np.bool_]:
        """Return that no image is ambiguous."""
        return np.zeros(len(negative), dtype=np.bool_)


def _find_distinct_images(images: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """Return the index of the first image of each distinct content, and the number of each image's content."""
    keys = [compute_image_key(data, None) for data in images]
    first: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return list(first.values()), _compute_indices(keys, first)


def _compute_indices(items: Sequence[Key], distinct: Iterable[Key]) -> list[int]:
    """Return the position of each item among the distinct items."""
    number_of = {item: number for number, item in enumerate(distinct)}
    return [number_of[item] for item in items]


def reading_judge(*, allow_unmentioned_objects: bool, **unused: object) -> ReadingJudge:
    """Return the exact reading; it needs no checkpoint."""
    return ReadingJudge(allow_unmentioned_objects)


def build_no_judge(**unused: object) -> NoJudge:
    """Return the judge that accepts every image."""
    return NoJudge()


def clip_judge(*, checkpoint: str, device: str, **unused: object) -> ClipJudge:
    """Return the judge of a checkpoint folder; it cannot tell whether a caption names all objects."""
    return ClipJudge(checkpoint, device)
