"""Name the images of a task by their content: the name tells nothing about them, and nobody can be shown another image."""

from __future__ import annotations

import hashlib
from pathlib import Path

from caramel.schemas.images import IMAGES
from caramel.schemas.io import read_table


class ImageKeys:
    """The images that items show, by opaque key.

    A key is the SHA-256 of the image: `negative-12.png` in a page would tell the answer.
    """

    def __init__(self) -> None:
        self.images: dict[str, tuple[Path, str]] = {}  # key -> (table `images`, image_id)
        self._sha256: dict[Path, dict[str, str]] = {}

    def add(self, index: Path, image_id: str) -> str:
        """Return the key of an image of a table `images`; an unknown image has a key under which none is found.

        Raises:
            DataError: the table is missing or broken.
        """
        if index not in self._sha256:
            rows = read_table(IMAGES, index, ["image_id", "sha256"])
            self._sha256[index] = dict(zip(rows["image_id"], rows["sha256"], strict=True))
        unknown = hashlib.sha256(f"{index}\0{image_id}".encode()).hexdigest()
        key = self._sha256[index].get(image_id, unknown)
        self.images[key] = (index, image_id)
        return key
