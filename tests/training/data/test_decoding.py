"""Pictures for training are those of evaluation, bit for bit, whatever decodes them.

If these fail after an update, simplejpeg and Pillow no longer carry libjpeg-turbo of one mind: then JPEGs are to be decoded
by Pillow again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from caramel.errors import DataError
from caramel.io.image_codec import LIMIT, ORIENTATION, decode_image
from caramel.training.data.decoding import decode_training_image


def photograph(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Return a picture of smooth colours with some noise."""
    rng = np.random.default_rng([width, height])
    coarse = Image.fromarray(rng.integers(0, 256, (7, 5, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    noisy = np.clip(smooth + rng.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(noisy).convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG", **how: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **how)
    return stream.getvalue()


def turned(by: int) -> dict[str, Any]:
    """Return options of a JPEG that says that the camera was held in one of eight ways."""
    exif = Image.Exif()
    exif[ORIENTATION] = by
    return {"exif": exif}


def said(read: Callable[[bytes, str], Image.Image], data: bytes) -> Any:
    """Return the pixels that are read, or what is said instead."""
    try:
        return np.asarray(read(data, "x")).tobytes()
    except DataError as error:
        return str(error)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each JPEG that simplejpeg decodes in its full size."""
    found: list[int] = []
    decode = simplejpeg.decode_jpeg

    def counted(data: bytes, *args: Any, **scaled: Any) -> Any:
        if not scaled:
            found.append(len(data))
        return decode(data, *args, **scaled)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", counted)
    return found


@pytest.mark.parametrize("quality", [30, 75, 95])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpegs_of_colours_are_decoded_by_simplejpeg_to_equal_pixels(
    quality, subsampling, progressive, decoded
) -> None:
    for size in [(256, 256), (640, 480), (37, 91), (8, 8), (1, 1), (17, 1)]:
        data = encoded(
            photograph(*size),
            quality=quality,
            subsampling=subsampling,
            progressive=progressive,
            optimize=True,
        )
        assert said(decode_training_image, data) == np.asarray(decode_image(data, "x")).tobytes()
    assert len(decoded) == 6


@pytest.mark.parametrize("how", [{"keep_rgb": True}, {"icc_profile": b"none"}, turned(1), {"comment": b"x"}])
def test_so_are_those_with_other_headers(how, decoded) -> None:
    data = encoded(photograph(50, 40), **how)
    assert said(decode_training_image, data) == said(decode_image, data)
    assert len(decoded) == 1


@pytest.mark.parametrize(
    "data",
    [
        encoded(photograph(50, 40, "L")),
        encoded(photograph(50, 40, "CMYK")),
        *(encoded(photograph(50, 40), **turned(by)) for by in (2, 3, 6, 8)),
        *(encoded(photograph(50, 40), kind) for kind in ("PNG", "WEBP", "GIF", "BMP", "TIFF")),
    ],
)
def test_all_others_are_opened_by_pillow(data, decoded) -> None:
    assert said(decode_training_image, data) == said(decode_image, data)
    assert not decoded


def test_of_damaged_jpegs_the_same_is_read_or_said() -> None:
    whole = encoded(photograph(64, 48), quality=80)
    rng = np.random.default_rng(0)
    damaged = [whole[:length] for length in rng.integers(0, len(whole), 60)]
    for place, value in zip(rng.integers(2, len(whole), 300), rng.integers(1, 256, 300), strict=True):
        data = bytearray(whole)
        data[place] ^= int(value)
        damaged.append(bytes(data))
    answers = [(said(decode_training_image, data), said(decode_image, data)) for data in damaged]
    assert all(here == there for here, there in answers)
    assert {type(here) for here, _ in answers} == {bytes, str}


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch, decoded) -> None:
    monkeypatch.setenv(LIMIT, "1000")
    with pytest.raises(DataError, match="'x' is too large"):
        decode_training_image(encoded(photograph(50, 40)), "x")
    assert not decoded
