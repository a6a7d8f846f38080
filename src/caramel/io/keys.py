"""Names of images, texts and pairs of both by their content, 16 bytes long."""

from __future__ import annotations

import hashlib

KEY_BYTES = 16


def compute_image_key(data: bytes, box: tuple[int, int, int, int] | None) -> bytes:
    """Return 16 bytes that name the image by its content; no part of one image has the name of another."""
    if box is None:
        return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()
    # Hashed as another kind of thing, and the box before the bytes, whose end could look like one.
    digest = hashlib.blake2b(f"{box}\n".encode(), digest_size=KEY_BYTES, person=b"part")
    digest.update(data)
    return digest.digest()


def compute_text_key(text: str) -> bytes:
    """Return the 16 bytes that name a text."""
    return hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()


def compute_pair_key(image: bytes, text: str) -> bytes:
    """Return the 16 bytes that name an image, given by its key, with a text."""
    return hashlib.blake2b(image + text.encode(), digest_size=KEY_BYTES).digest()
