from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from caramel.errors import DataError
from caramel.io.image_codec import decode_image
from caramel.models.open_clip.pixel_cache import LARGEST, LARGEST_FILE, ResizeAndCrop, load_pixels


def encode_png(colour: int) -> bytes:
    part = io.BytesIO()
    Image.new("RGB", (8, 8), (colour, 0, 0)).save(part, "PNG")
    return part.getvalue()


def resize_to(side: int, settings: str = "{}") -> ResizeAndCrop:
    return ResizeAndCrop(settings, side**2, [lambda image: image.resize((side, side))])


class Decoder:
    calls = 0

    def decode(self, data: bytes, name: str) -> Image.Image:
        self.calls += 1
        return decode_image(data, name)


def test_models_with_equal_preprocessing_decode_an_image_once() -> None:
    decoder = Decoder()
    decode = decoder.decode
    first = load_pixels(encode_png(1), "a", decode, resize_to(4))
    second = load_pixels(encode_png(1), "b", decode, resize_to(4))
    assert decoder.calls == 1
    assert second is first
    assert (first == np.asarray(decode_image(encode_png(1), "a").resize((4, 4)))).all()
    assert not first.flags.writeable


@pytest.mark.parametrize(
    ("data", "to_pixels"),
    [
        (encode_png(3), resize_to(4)),  # another image
        (encode_png(2), resize_to(4, "{1}")),  # another preprocessing
        (encode_png(2), lambda image: image),  # may draw at random
    ],
)
def test_other_pixels_are_not_taken_from_the_cache(data: bytes, to_pixels: object) -> None:
    decoder = Decoder()
    decode = decoder.decode
    load_pixels(encode_png(2), "a", decode, resize_to(4))
    load_pixels(data, "a", decode, to_pixels)
    assert decoder.calls == 2


def test_large_images_are_not_kept() -> None:
    decoder, large = Decoder(), resize_to(int(LARGEST**0.5) + 1)
    decode = decoder.decode
    for _ in range(2):
        load_pixels(encode_png(4), "a", decode, large)
    assert decoder.calls == 2


def test_large_files_are_not_kept_since_they_would_fill_the_memory() -> None:
    decoder = Decoder()
    decode = decoder.decode
    photograph = encode_png(5) + bytes(LARGEST_FILE)  # decoders ignore what follows the image
    for _ in range(2):
        load_pixels(photograph, "a", decode, resize_to(4))
    assert decoder.calls == 2


def test_a_broken_image_is_named_each_time() -> None:
    for name in ("a", "b"):
        with pytest.raises(DataError, match=f"{name!r}|{name}"):
            load_pixels(b"no image", name, decode_image, resize_to(4))
