"""Load each step's data from the image store when it is needed; only small sets are decoded into memory.

order         Epoch e takes the rows in the order ``default_rng([seed, e]).permutation(rows)``, one batch at a
              time. Rows at its end that do not fill a batch are left out of that epoch. If there are fewer
              rows than a batch has, each batch has all of them.
augmentation  The transform of a row draws from ``default_rng([seed, step, row])``.
equal bits    A batch depends on seed and step only, not on the number of processes or on the first step.
memory        A process holds the rows' numbers and tokens, and a few batches. It holds decoded images only if
              the set is small (``HELD``). Processes are forked and share the parent's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import CaramelError, ResourceError
from caramel.models.open_clip.pixel_cache import load_pixels
from caramel.runtime.ray.sharded_map import map_in_threads
from caramel.training.data.decoding import decode_training_image

if TYPE_CHECKING:
    from PIL import Image

Made = TypeVar("Made")
RowIds = npt.NDArray[np.int64]
Stack = npt.NDArray[np.uint8]  # (n, 3, height, width), or one of them
HELD = 256 << 20  # bytes: a set of at most so many decoded bytes is decoded once and kept in memory
ENCODED = 256  # images per call where each image is encoded once


def draw_batch_rows(seed: int, step: int, rows: int, size: int) -> RowIds:
    """Return a step's row numbers: ``size`` different ones, or all if there are fewer.

    The module's docstring says in which order.
    """
    size = min(size, rows)
    epoch, index = divmod(step, rows // size)
    return _shuffle_rows(seed, epoch, rows)[index * size : (index + 1) * size]


@lru_cache(maxsize=2)
def _shuffle_rows(seed: int, epoch: int, rows: int) -> RowIds:
    return np.random.default_rng([seed, epoch]).permutation(rows)


class ImageDataset:
    """Images of rows as model input: ``dataset[rows]`` is uint8 (n, 3, height, width) for n row numbers.

    A set that takes at most ``HELD`` bytes is decoded once, here. In a larger set, an image is read and
    decoded on each access: in threads, or sequentially in a process of a ``Loader``.
    """

    def __init__(
        self,
        images: Mapping[str, bytes],
        names: pd.Series[str],
        to_pixels: Callable[[Image.Image], Image.Image],
        shape: tuple[int, int],
        augment: Callable[[Image.Image, np.random.Generator], Image.Image] | None = None,
    ) -> None:
        """Remember what to read, and decode a small set.

        Args:
            images: encoded files by image_id.
            names: image_id of each row.
            to_pixels: transforms an RGB image to ``shape``.
            shape: (height, width) in pixels.
            augment: does the same in training, with random changes; None: training uses ``to_pixels``.

        Raises:
            DataError: an image does not decode.
        """
        self._images, self._to_pixels, self._shape, self._augment = images, to_pixels, shape, augment
        self._numbers, self._names = pd.factorize(names)
        self._all: npt.NDArray[np.uint8] | None = None
        if augment is None and len(self._names) * 3 * shape[0] * shape[1] <= HELD:
            self._all = self._decode_images(np.arange(len(self._names)))

    @property
    def held(self) -> bool:
        """Whether all decoded images are in memory."""
        return self._all is not None

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: RowIds) -> npt.NDArray[np.uint8]:
        numbers = self._numbers[rows]
        return self._decode_images(numbers) if self._all is None else self._all[numbers]

    def encode_images(self, encode: Callable[[Stack], npt.NDArray[np.float32]]) -> ImageFeatures:
        """Return the features of the rows' images from a locked tower; each image is encoded once.

        Args:
            encode: returns the vectors (n, d) of n images.
        """
        images = self._decode_images(np.arange(len(self._names))) if self._all is None else self._all
        parts = [encode(images[start : start + ENCODED]) for start in range(0, len(images), ENCODED)]
        return ImageFeatures(self._numbers, np.concatenate(parts))

    def load_for_step(self, rows: RowIds, seed: int, step: int) -> npt.NDArray[np.uint8]:
        """Return the images of rows for a training step, augmented if the set has an ``augment``."""
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
            data = self._images[name]
            if generators is None or self._augment is None:
                pixels = load_pixels(data, name, decode_training_image, self._to_pixels)
            else:
                augmented = self._augment(decode_training_image(data, name), generators[index])
                pixels = np.asarray(augmented, np.uint8)
            out[index] = pixels.transpose(2, 0, 1)

        if get_worker_info() is None:
            map_in_threads(decode_into, range(len(numbers)))
        else:
            for index in range(len(numbers)):
                decode_into(index)
        return out


class ImageFeatures:
    """Vectors of rows' images, used like an ``ImageDataset``: ``features[rows]`` is float32 (n, d)."""

    held = True

    def __init__(self, numbers: RowIds, vectors: npt.NDArray[np.float32]) -> None:
        """Keep the vectors (m, d) of m images, and the number of each row's image."""
        self._numbers, self._vectors = numbers, vectors

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: RowIds) -> npt.NDArray[np.float32]:
        return self._vectors[self._numbers[rows]]

    def load_for_step(self, rows: RowIds, seed: int, step: int) -> npt.NDArray[np.float32]:
        """Return the vectors of rows, the same at every step."""
        return self[rows]


class Loader(Generic[Made]):
    """Returns the data of each step; steps are requested in order, starting from any step.

    The data is made in this process, or in advance in ``num_workers`` processes. They end with the ``with``
    block.
    """

    def __init__(self, make: Callable[[int], Made], steps: int, num_workers: int) -> None:
        """Prepare the loader; its processes start with the first call.

        Args:
            make: returns tensors, or tuples of them, for a step in [0, steps); called in this process, or in
                forked ones.
            steps: number of steps.
            num_workers: number of forked processes; 0: this process makes the data.
        """
        self._steps, self._make, self._workers = steps, _StepDataset(make), num_workers
        self._coming: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self._coming = None

    def __call__(self, step: int) -> Made:
        """Return the data of a step.

        Raises:
            CaramelError: ``make`` raised it.
            ResourceError: a process of the loader died.
        """
        from torch import Generator
        from torch.utils.data import DataLoader

        if self._coming is None:
            self._coming = iter(
                DataLoader(
                    self._make,  # type: ignore[arg-type] # DataLoader needs no base class
                    batch_size=None,
                    sampler=range(step, self._steps),
                    num_workers=self._workers,
                    multiprocessing_context="fork" if self._workers else None,
                    generator=Generator(),  # the default one is for the model's draws
                )
            )
        try:
            number, batch = next(self._coming)
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker"):
                raise
            raise ResourceError(
                f"A process that reads and decodes images died: {error} "
                f"Lower run.num_workers ({self._workers}), or the batch size."
            ) from error
        assert number == step, "steps must be requested in order"
        if isinstance(batch, CaramelError):
            raise batch
        result: Made = batch
        return result


class _StepDataset(Generic[Made]):
    """The data set of a ``DataLoader``; its items are the data of the steps.

    An error is returned as an item: an error raised in another process would have its traceback as its
    message.
    """

    def __init__(self, make: Callable[[int], Made]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> tuple[int, Made | CaramelError]:
        try:
            return step, self._make(step)
        except CaramelError as error:
            return step, error
