"""Name the images of a task so that the name tells nothing about them."""

from __future__ import annotations

import hashlib
from pathlib import Path


class ImageKeys:
    """The images that items show, by opaque key.

    A key is a hash of the index and the image_id, because `negative-12.png` in a page would tell the answer.
    """

    def __init__(self) -> None:
        self.images: dict[str, tuple[Path, str]] = {}  # key -> (table `images`, image_id)

    def add(self, index: Path, image_id: str) -> str:
        """Return the key of an image of a table `images`."""
        digest = hashlib.sha256(f"{index}\0{image_id}".encode()).hexdigest()[:20]
        self.images[digest] = (index, image_id)
        return digest
