"""Compute content keys of images, texts and image-text pairs, 16 bytes long."""

from __future__ import annotations

import hashlib

KEY_BYTES = 16


def compute_image_key(data: bytes, box: tuple[int, int, int, int] | None) -> bytes:
    """Return 16 bytes that identify the image by its content. A crop and a whole image never share a key."""
    if box is None:
        return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()
    # Crops have their own hash domain. The box is before the bytes, whose end could look like a box.
    digest = hashlib.blake2b(f"{box}\n".encode(), digest_size=KEY_BYTES, person=b"part")
    digest.update(data)
    return digest.digest()


def compute_text_key(text: str) -> bytes:
    """Return the 16 bytes that identify a text."""
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def compute_pair_key(image: bytes, text: str) -> bytes:
    """Return the 16 bytes that identify a pair of an image, given by its key, and a text."""
    return hashlib.blake2b(image + text.encode(), digest_size=KEY_BYTES).digest()
