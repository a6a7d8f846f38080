"""What a step trains on, read from the image store when it is needed: no set is decoded into memory.

order         epoch e takes the rows as ``default_rng([seed, e]).permutation(rows)`` has them, a batch at a time. What is
              left at its end, fewer rows than a batch, is left out of that epoch; where all rows are fewer than a
              batch, each batch has all of them.
augmentation  what a transform draws for a row it draws from ``default_rng([seed, step, row])``
equal bits    a batch depends on seed and step alone: in how many processes it is made, and from which step on,
              changes nothing
memory        a process holds the rows' numbers and tokens, and a few batches; decoded pictures only of a set that is
              small (``HELD``). Processes are forked, and share what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import CaramelError, ResourceError
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.training.data.decoding import decode_training_image

if TYPE_CHECKING:
    from PIL import Image

Made = TypeVar("Made")
RowIds = npt.NDArray[np.int64]
Stack = npt.NDArray[np.uint8]  # (n, 3, height, width), or one of them
HELD = 256 << 20  # bytes of decoded pictures of a set that is decoded once, and then held
ENCODED = 256  # pictures that are encoded at a time, where each is once
TEXTS = 4096  # that are tokenized at a time: what tokenizers know of each takes kilobytes


def draw_batch_rows(seed: int, step: int, rows: int, size: int) -> RowIds:
    """Return the numbers of the rows of a step, ``size`` different ones or all: see the module on their order."""
    size = min(size, rows)
    epoch, index = divmod(step, rows // size)
    return _shuffle_rows(seed, epoch, rows)[index * size : (index + 1) * size]


@lru_cache(maxsize=2)
def _shuffle_rows(seed: int, epoch: int, rows: int) -> RowIds:
    return np.random.default_rng([seed, epoch]).permutation(rows)


def tokenize_texts(tokenize: Callable[[list[str]], Any], texts: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the tokens of all texts, (n, …) as ``tokenize`` gives them for some."""
    parts = (list(texts[start : start + TEXTS]) for start in range(0, len(texts), TEXTS))
    return np.concatenate([np.asarray(tokenize(part), np.int32) for part in parts])


class ImageDataset:
    """Pictures of rows as a model takes them: ``pixels[rows]`` is uint8 (n, 3, height, width) of n row numbers.

    Those of a set that takes at most ``HELD`` bytes are decoded here, once; of a larger one each is read and decoded
    whenever it is asked for: in threads, or one after the other in a process of a ``Loader``.
    """

    def __init__(
        self,
        images: Mapping[str, bytes],
        names: pd.Series[str],
        to_pixels: Callable[[Image.Image], Image.Image],
        shape: tuple[int, int],
        augment: Callable[[Image.Image, np.random.Generator], Image.Image] | None = None,
    ) -> None:
        """Know what to read, and decode a small set.

        Args:
            images: encoded files by image_id.
            names: image_id of each row.
            to_pixels: brings an RGB picture to ``shape``.
            shape: (height, width) in pixels.
            augment: does the same for training, by drawing; None: training takes ``to_pixels``.

        Raises:
            DataError: a picture does not decode.
        """
        self._images, self._to_pixels, self._shape, self._augment = images, to_pixels, shape, augment
        self._numbers, self._names = pd.factorize(names)
        self._all: npt.NDArray[np.uint8] | None = None
        if augment is None and len(self._names) * 3 * shape[0] * shape[1] <= HELD:
            self._all = self._decode_images(np.arange(len(self._names)))

    @property
    def held(self) -> bool:
        """Whether all pictures are in memory, decoded."""
        return self._all is not None

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: RowIds) -> npt.NDArray[np.uint8]:
        numbers = self._numbers[rows]
        return self._decode_images(numbers) if self._all is None else self._all[numbers]

    def encode_images(self, encode: Callable[[Stack], npt.NDArray[np.float32]]) -> ImageFeatures:
        """Return the rows' pictures as a locked tower has them; each is encoded once.

        Args:
            encode: gives the vectors (n, d) of n pictures.
        """
        images = self._decode_images(np.arange(len(self._names))) if self._all is None else self._all
        parts = [encode(images[start : start + ENCODED]) for start in range(0, len(images), ENCODED)]
        return ImageFeatures(self._numbers, np.concatenate(parts))

    def load_for_step(self, rows: RowIds, seed: int, step: int) -> npt.NDArray[np.uint8]:
        """Return the pictures of rows for a step of training: augmented, where there is something to draw."""
        if self._augment is None:
            return self[rows]
        return self._decode_images(
            self._numbers[rows], [np.random.default_rng([seed, step, row]) for row in rows]
        )

    def _decode_images(
        self, numbers: RowIds, generators: Sequence[np.random.Generator] | None = None
    ) -> npt.NDArray[np.uint8]:
        from torch.utils.data import get_worker_info

        out = np.empty((len(numbers), 3, *self._shape), np.uint8)

        def decode_into(index: int) -> None:
            name = self._names[numbers[index]]
            image = decode_training_image(self._images[name], name)
            if generators is None or self._augment is None:
                image = self._to_pixels(image)
            else:
                image = self._augment(image, generators[index])
            out[index] = np.asarray(image, np.uint8).transpose(2, 0, 1)

        if get_worker_info() is None:
            map_in_threads(decode_into, range(len(numbers)))
        else:
            for index in range(len(numbers)):
                decode_into(index)
        return out


class ImageFeatures:
    """Vectors of rows' pictures in place of ``Pixels``: ``vectors[rows]`` is float32 (n, d) of n row numbers."""

    held = True

    def __init__(self, numbers: RowIds, vectors: npt.NDArray[np.float32]) -> None:
        """Keep the vectors (m, d) of m pictures, and of each row the number of its picture."""
        self._numbers, self._vectors = numbers, vectors

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: RowIds) -> npt.NDArray[np.float32]:
        return self._vectors[self._numbers[rows]]

    def load_for_step(self, rows: RowIds, seed: int, step: int) -> npt.NDArray[np.float32]:
        """Return the vectors of rows, at every step the same."""
        return self[rows]


class Loader(Generic[Made]):
    """Gives what is made for each step, asked for in their order from any first one on.

    It is made here, or by so many processes for the steps to come. They are ended when the ``with`` block is left.
    """

    def __init__(self, make: Callable[[int], Made], steps: int, num_workers: int) -> None:
        """Start nothing yet.

        Args:
            make: gives tensors, or tuples of them, for a step from 0 to ``steps``; called in this process, or in forked
                ones.
            num_workers: number of processes; 0: this one.
        """
        self._steps, self._make, self._workers = steps, _StepDataset(make), num_workers
        self._coming: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self._coming = None

    def __call__(self, step: int) -> Made:
        """Return what is made for a step.

        Raises:
            CaramelError: as ``make`` raises it.
            ResourceError: a process of the loader died.
        """
        from torch import Generator
        from torch.utils.data import DataLoader

        if self._coming is None:
            self._coming = iter(
                DataLoader(
                    self._make,  # type: ignore[arg-type] # which asks for no base class
                    batch_size=None,
                    sampler=range(step, self._steps),
                    num_workers=self._workers,
                    multiprocessing_context="fork" if self._workers else None,
                    generator=Generator(),  # or it would draw from that of the model's own draws
                )
            )
        try:
            number, batch = next(self._coming)
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker"):
                raise
            raise ResourceError(
                f"A process that reads and decodes pictures died: {error} Lower run.num_workers ({self._workers}), or the batch size."
            ) from error
        assert number == step, "steps are asked for in their order"
        if isinstance(batch, CaramelError):
            raise batch
        result: Made = batch
        return result


class _StepDataset(Generic[Made]):
    """The data set of a ``DataLoader``: its items are steps.

    An error is an item, too: that of another process would come back with its traceback as its message.
    """

    def __init__(self, make: Callable[[int], Made]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> tuple[int, Made | CaramelError]:
        try:
            return step, self._make(step)
        except CaramelError as error:
            return step, error
