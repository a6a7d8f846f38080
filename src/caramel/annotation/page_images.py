"""Read the images of a task from the shards of the tables that they come from."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from caramel.errors import DataError
from caramel.io.image_store import ImageStore
from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table

_SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"RIFF": "image/webp",
    b"GIF8": "image/gif",
}


class TaskImages:
    """The encoded images of a task by key, which is their SHA-256; each index is read once."""

    def __init__(self, locate: Callable[[str], tuple[Path, str] | None]) -> None:
        """Store how to find an image.

        Args:
            locate: returns the table `images` and the image_id of a key.
        """
        self._locate, self._stores, self._lock = locate, dict[Path, ImageStore](), threading.Lock()

    def read(self, key: str) -> bytes:
        """Return an encoded image, after checking its SHA-256.

        Raises:
            DataError: the key or the image is unknown, or the image is missing, damaged, or another one than that of
                which the item was made.
        """
        location = self._locate(key)
        if location is None:
            raise DataError(f"The task has no image {key!r}.")
        index, image_id = location
        with self._lock:
            if index not in self._stores:
                self._stores[index] = ImageStore(index, read_table(IMAGES, index))
            store = self._stores[index]
        if image_id not in store:
            raise DataError(f"{str(index)!r} has no image {image_id!r}.")
        data = store.read_verified(image_id)
        if hashlib.sha256(data).hexdigest() != key:
            raise DataError(
                f"Image {image_id!r} of {str(index)!r} has changed since the task was made. Annotators would judge other "
                f"images under the same item. Restore it with `dvc checkout`, or make a new task with `caramel annotate make`."
            )
        return data


def detect_media_type(data: bytes) -> str:
    """Return the media type of an encoded image by its first bytes."""
    return next(
        (media_type for start, media_type in _SIGNATURES.items() if data.startswith(start)),
        "application/octet-stream",
    )
