"""Judges of a picture against a caption: an exact reading on the world, and an image–text model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError
from caramel.interfaces.judge import Fit
from caramel.io.image_store import OnDemand
from caramel.io.keys import content_key

AT_ONCE = 1024  # pictures that are read together
Key = TypeVar("Key", bound=Hashable)


class ReadingJudge:
    """The exact reading of the embedded world: fit is 1 or 0."""

    name = "world"

    def __init__(self, further_objects: bool) -> None:
        self._further_objects = further_objects

    def fit(self, pictures: Sequence[bytes], captions: Sequence[str]) -> Fit:
        """Return 1 where the picture is one of the world and the caption exactly true of it, else 0.

        A picture of the world has no cell that cannot be read, and no noun twice. Each distinct one is read once.
        """
        from caramel.io.image_codec import pixels
        from caramel.sources.world.drawing import CANVAS
        from caramel.sources.world.exact_reader import PictureReading, read_pictures
        from caramel.sources.world.grammar import read
        from caramel.sources.world.scenes import holds

        first, numbers = _distinct(pictures)
        read_once: list[PictureReading] = []
        for start in range(0, len(first), AT_ONCE):
            part = first[start : start + AT_ONCE]
            stack = np.stack([pixels(pictures[index], f"number {index}", CANVAS) for index in part])
            read_once += read_pictures(stack)
        shown_by = [read_once[number] for number in numbers]
        out = np.zeros(len(captions))
        for index, (caption, shown) in enumerate(zip(captions, shown_by, strict=True)):
            said = read(caption)
            if said is None:
                raise DataError(
                    f"The exact reading knows only captions of the embedded world, not {caption!r}. "
                    f"Set filter_images.judge to 'clip' in params.yaml."
                )
            things = shown.scene.things
            of_the_world = not shown.unreadable and len({t.noun for t in things}) == len(things)
            exactly = said.alone or not self._further_objects
            out[index] = of_the_world and holds(said.whole, things, exactly=exactly)
        return out

    def ambiguous(self, negative: Fit, positive: Fit, margin: float) -> npt.NDArray[np.bool_]:
        """Return where the positive caption is true; an exact reading needs no margin."""
        return positive >= 0.5


class ClipJudge:
    """An image–text model: fit is the cosine of picture and caption, brought to [0, 1]."""

    name = "clip"

    def __init__(self, checkpoint: str, device: str, batch: int) -> None:
        from caramel.models.open_clip.checkpoints import load_encoder

        self._encoder = load_encoder(checkpoint, device=device, precision="fp32", name="judge")
        self._batch = batch

    def fit(self, pictures: Sequence[bytes], captions: Sequence[str]) -> Fit:
        """Return (1 + cosine) / 2; each distinct picture and caption is encoded once."""
        first, numbers = _distinct(pictures)
        distinct = OnDemand(pictures.__getitem__, first)
        images = self._encoder.encode_images(distinct, self._batch)[numbers]
        told = dict.fromkeys(captions)
        texts = self._encoder.encode_texts(list(told), self._batch)[_numbers(captions, told)]
        cosine: Fit = (images.astype(np.float64) * texts.astype(np.float64)).sum(1)
        return (1 + cosine) / 2

    def ambiguous(self, negative: Fit, positive: Fit, margin: float) -> npt.NDArray[np.bool_]:
        """Return where the negative caption does not beat the positive by more than ``margin``."""
        return negative - positive <= margin


def _distinct(images: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """Return the index of the first image of each content, and the number of each image's content among these."""
    keys = [content_key(data, None) for data in images]
    first: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        first.setdefault(key, index)
    return list(first.values()), _numbers(keys, first)


def _numbers(items: Sequence[Key], distinct: Iterable[Key]) -> list[int]:
    """Return the number of each item among the distinct ones."""
    number_of = {item: number for number, item in enumerate(distinct)}
    return [number_of[item] for item in items]


def reading_judge(*, further_objects: bool, **unused: object) -> ReadingJudge:
    """Return the exact reading; it needs no checkpoint."""
    return ReadingJudge(further_objects)


def clip_judge(*, checkpoint: str, device: str, batch: int = 256, **unused: object) -> ClipJudge:
    """Return the judge over a checkpoint folder; it cannot tell whether a caption names all there is."""
    return ClipJudge(checkpoint, device, batch)
