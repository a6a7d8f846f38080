"""Pictures are opened in one place, as the field opens them; what cannot be read rightly is refused by name."""

import io
import zlib
from pathlib import Path
from struct import pack

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from caramel.errors import ConfigError, DataError
from caramel.io.image_codec import FORMATS, LIMIT, check_image, decode_image

GREY = np.array([[0, 1, 128, 129], [255, 256, 257, 40000], [65279, 65280, 65407, 65535]], np.uint16)
EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 20 10
%%EndComments
newpath 0 0 moveto 20 0 lineto 20 10 lineto 0 10 lineto closepath 0.5 setgray fill
showpage
%%EOF
"""


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(decode_image(data, "x"))


def png(width: int, height: int) -> bytes:
    """Return a PNG that says it has so many pixels, and holds almost none."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    head = pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(bytes(64))), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "big-endian TIFF", "white-is-zero TIFF", "PPM"])
def test_grey_of_16_bits_keeps_its_whole_range(kind: str) -> None:
    if kind == "PPM":
        data = b"P5 4 3 65535\n" + GREY.astype(">u2").tobytes()
    elif kind == "big-endian TIFF":
        data = encoded(Image.fromarray(GREY.astype(">u2")), "TIFF")
    elif kind == "white-is-zero TIFF":
        data = encoded(Image.fromarray(65535 - GREY), "TIFF", tiffinfo={262: 0})
    else:
        data = encoded(Image.fromarray(GREY), kind)
    expected = np.rint(GREY / 257).astype(np.uint8)
    assert np.array_equal(pixels(data), np.repeat(expected[:, :, None], 3, axis=2))


def test_grey_of_16_bits_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(Image.fromarray(GREY), "PNG", exif=exif)
    assert np.array_equal(pixels(data)[:, :, 0], np.rot90(np.rint(GREY / 257), -1))


@pytest.mark.parametrize("numbers", [np.float32, np.int32])
def test_numbers_without_a_range_are_refused(numbers: type) -> None:
    data = encoded(Image.fromarray(GREY.astype(numbers)), "TIFF")
    for function in (decode_image, check_image):
        with pytest.raises(DataError, match=r"'deep\.tif' does not decode .*no range from black to white"):
            function(data, "deep.tif")


def test_grey_of_12_bits_is_refused() -> None:
    values = bytes(range(12))
    whole = bytearray(encoded(Image.fromarray(np.zeros((2, 4), np.uint16)), "TIFF"))
    place = whole.index(pack("<HHIH", 258, 3, 1, 16))
    whole[place + 8 : place + 10] = pack("<H", 12)
    with pytest.raises(DataError, match="12"):
        decode_image(bytes(whole) + values, "x")


def test_alpha_is_dropped_and_the_colour_beneath_it_stays() -> None:
    clear = Image.new("RGBA", (2, 2), (200, 10, 20, 0))
    assert pixels(encoded(clear, "PNG"))[0, 0].tolist() == [200, 10, 20]
    assert pixels(encoded(clear, "WEBP", lossless=True, exact=True))[0, 0].tolist() == [200, 10, 20]
    assert pixels(encoded(Image.new("LA", (2, 2), (90, 0)), "PNG"))[0, 0].tolist() == [90, 90, 90]
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 255, 8, 0])
    assert pixels(encoded(palette, "PNG", transparency=1))[0, 0].tolist() == [255, 8, 0]


def test_other_colours_become_rgb() -> None:
    assert pixels(encoded(Image.new("1", (2, 2), 1), "PNG"))[0, 0].tolist() == [255, 255, 255]
    assert pixels(encoded(Image.new("CMYK", (2, 2), (255, 0, 0, 0)), "TIFF"))[0, 0].tolist() == [0, 255, 255]
    yellow = Image.new("RGB", (8, 8), (255, 255, 0))
    assert np.abs(pixels(encoded(yellow.convert("YCbCr"), "TIFF")).astype(int) - [255, 255, 0]).max() < 3


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "MPO", "TIFF"])
def test_of_several_frames_the_first_is_read(kind: str) -> None:
    first, second = (Image.new("RGB", (16, 8), colour) for colour in ((250, 0, 0), (0, 0, 250)))
    data = encoded(first, kind, save_all=True, append_images=[second])
    assert check_image(data, "x") == (16, 8)
    assert pixels(data)[0, 0, 0] > 200 > 60 > pixels(data)[0, 0, 2]


def test_postscript_is_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: object, **options: object) -> None:
        raise AssertionError("Ghostscript was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", run)
    with Image.open(io.BytesIO(EPS)) as image:  # it is a real one
        assert (image.format, image.size) == ("EPS", (20, 10))
    for function in (decode_image, check_image):
        with pytest.raises(DataError, match=f"'drawn.png'.*not one of {', '.join(FORMATS)}"):
            function(EPS, "drawn.png")


@pytest.mark.parametrize("kind", ["AVIF", "JPEG2000", "ICO", "PCX", "TGA", "SGI"])
def test_formats_of_no_data_set_are_refused(kind: str) -> None:
    with pytest.raises(DataError, match="not one of JPEG"):
        decode_image(encoded(Image.new("RGB", (16, 16)), kind), "x")


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    for width, height in ((10_000, 10_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)):
        for function in (decode_image, check_image):
            with pytest.raises(DataError, match=f"'bomb.png' is too large.*{LIMIT}"):
                function(png(width, height), "bomb.png")


def test_the_limit_of_pixels_is_a_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.new("RGB", (30, 20)), "PNG")
    monkeypatch.setenv(LIMIT, "600")
    assert decode_image(data, "x").size == (30, 20)
    monkeypatch.setenv(LIMIT, "599")
    with pytest.raises(DataError, match="30 × 20 pixels, and at most 599 are decoded"):
        decode_image(data, "x")
    for wrong in ("", "0", "-1", "many", "1e6", "9" * 5000, "٣"):
        monkeypatch.setenv(LIMIT, wrong)
        with pytest.raises(ConfigError, match=f"{LIMIT} must be a whole number"):
            decode_image(data, "x")


@pytest.mark.parametrize(
    "data", [b"", b"P6 0 4 255\n", b"P6 4 0 255\n", png(0, 4), b"GIF89a" + bytes(7), b"<html>"]
)
def test_empty_pictures_are_errors_that_name_them(data: bytes) -> None:
    for function in (decode_image, check_image):
        with pytest.raises(DataError, match=r"'a\.png'"):
            function(data, "a.png")


def test_cut_pictures_are_errors_that_name_them() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8))
    for kind in FORMATS:
        data = encoded(noise, kind)
        for length in (len(data) // 20, len(data) // 2, len(data) - 30):
            with pytest.raises(DataError, match=r"'cut'"):
                check_image(data[:length], "cut")


def test_no_other_module_opens_images() -> None:
    sources = Path(__file__).parents[2] / "src" / "caramel"
    found = [str(path) for path in sources.rglob("*.py") if "Image.open(" in path.read_text(encoding="utf-8")]
    assert [Path(path).name for path in found] == ["image_codec.py"]


def test_a_tiff_whose_offsets_are_fractions_is_an_error_that_names_it() -> None:
    data = bytearray(encoded(Image.new("RGB", (4, 3)), "TIFF"))
    entry = data.index(pack("<HH", 273, 4))  # where the pixels begin, a whole number
    data[entry + 2] = 5  # now a fraction, at the place that was the number
    with pytest.raises(DataError, match="'x' does not decode"):
        decode_image(bytes(data), "x")
