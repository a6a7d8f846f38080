"""A file of which a part of the pixels is lost is an error that names it; odd headers of real files are none."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from caramel.errors import DataError
from caramel.io.image_codec import check_image, decode_image
from caramel.training.data.decoding import decode_training_image

READERS = (decode_image, check_image, decode_training_image)
COARSE = np.random.default_rng(1).integers(0, 255, (15, 20, 3), np.uint8)
PHOTOGRAPH = Image.fromarray(np.kron(COARSE, np.ones((8, 8, 1), np.uint8)))


def encode(image: Image.Image = PHOTOGRAPH, form: str = "JPEG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def close_after_half(data: bytes) -> bytes:
    return data[: len(data) // 2] + b"\xff\xd9"


def zero_the_middle(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(200) + data[middle + 200 :]


def join_two_halves(data: bytes) -> bytes:
    return data[: len(data) // 2] + data[len(data) // 3 :]


def drop_a_restart(data: bytes) -> bytes:
    return data.replace(b"\xff\xd3", b"", 1)


def state_odd_revision(data: bytes) -> bytes:
    start = data.index(b"JFIF\0") + 5
    return data[:start] + b"\0\0" + data[start + 2 :]


def state_no_range(data: bytes) -> bytes:
    start = data.index(b"\xff\xda")
    end = start + 2 + data[start + 3]
    return data[: end - 3] + bytes(3) + data[end:]


def add_bad_profile(data: bytes) -> bytes:
    return data[:2] + b"\xff\xe2\x00\x12ICC_PROFILE\0\x05\x01ab" + data[2:]


def pad_the_end(data: bytes) -> bytes:
    return data[:-2] + bytes(2230) + data[-2:]


def zero_the_end(data: bytes) -> bytes:
    half = len(data) // 2
    return data[:half] + bytes(3 * half) + data[-2:]


def add_bytes_between_segments(data: bytes) -> bytes:
    return data[:20] + bytes(22) + data[20:]


FORMS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_rows": 1},
    "rgb": {"keep_rgb": True},
}
HEADERS = (state_odd_revision, state_no_range, add_bad_profile, add_bytes_between_segments, pad_the_end)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("damage", [close_after_half, zero_the_middle, zero_the_end, join_two_halves])
@pytest.mark.parametrize("form", FORMS)
def test_a_jpeg_that_lost_pixels_is_an_error_that_says_what_to_do(form, damage, read) -> None:
    damaged = damage(encode(**FORMS[form]))
    with Image.open(io.BytesIO(damaged)) as image:
        image.load()  # Pillow decodes it
    with pytest.raises(DataError, match=r"'a\.jpg' does not decode.*(JPEG|PEG file).*Replace the file"):
        read(damaged, "a.jpg")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_so_is_one_of_other_colours(mode, read) -> None:
    with pytest.raises(DataError, match=r"'a\.jpg' does not decode"):
        read(close_after_half(encode(PHOTOGRAPH.convert(mode))), "a.jpg")


@pytest.mark.parametrize("read", READERS)
def test_so_is_one_that_is_turned_or_lost_a_restart_or_is_followed_by_another(read) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    pair = encode(form="MPO", save_all=True, append_images=[PHOTOGRAPH])
    first = pair.index(b"\xff\xd9")
    for damaged in (
        close_after_half(encode(exif=exif)),
        drop_a_restart(encode(restart_marker_rows=1)),
        pair[: first // 2] + bytes(200) + pair[first // 2 + 200 :],
    ):
        with pytest.raises(DataError, match=r"'a\.jpg' does not decode"):
            read(damaged, "a.jpg")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("change", HEADERS)
def test_an_odd_header_neither_refuses_a_jpeg_nor_hides_that_pixels_are_lost(change, read) -> None:
    whole = encode()
    plain, odd = read(whole, "x"), read(change(whole), "x")
    assert np.array_equal(np.asarray(plain), np.asarray(odd))
    with pytest.raises(DataError, match=r"'a\.jpg' does not decode.*Corrupt JPEG data"):
        read(change(close_after_half(whole)), "a.jpg")


@pytest.mark.parametrize("read", READERS)
def test_jpegs_as_people_have_them_are_read(read) -> None:
    for data in (
        *(encode(**options) for options in FORMS.values()),
        *(encode(PHOTOGRAPH.convert(mode)) for mode in ("L", "CMYK")),
        encode() + b"bytes that a camera wrote behind the end",
        encode() + bytes(5000),
        encode(form="MPO", save_all=True, append_images=[PHOTOGRAPH]),
        *(pad_the_end(encode(**options)) for options in FORMS.values()),
        encode()[:-2] + b"\xff" * 8 + b"\xff\xd9",
        encode(comment=b"x" * 100, icc_profile=b"y" * 3000),
    ):
        read(data, "x")


def test_a_jpeg_of_a_sampling_that_only_pillow_decodes_is_read() -> None:
    data = bytearray(encode(subsampling=0))
    frame = data.index(b"\xff\xc0")
    data[frame + 11], data[frame + 14] = 0x21, 0x12
    for read in READERS:
        read(bytes(data), "x")


@pytest.mark.parametrize("read", READERS)
def test_a_png_whose_pixels_do_not_match_their_checksum_is_an_error(read) -> None:
    whole = encode(form="PNG")
    read(whole, "x")
    for place in range(whole.index(b"IDAT") + 4, whole.index(b"IEND") - 4, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with pytest.raises(DataError, match=r"'a\.png' does not decode.*IDAT.*Replace the file"):
            read(bytes(damaged), "a.png")


@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_other_files_that_are_cut_anywhere_in_their_pixels_are_errors(form) -> None:
    whole = encode(form=form)
    for end in range(len(whole) // 5, len(whole) - 40, len(whole) // 50):
        with pytest.raises(DataError, match="'cut'"):
            decode_image(whole[:end], "cut")


def test_a_benchmark_with_damaged_images_is_refused_with_all_their_names(tmp_path: Path) -> None:
    (tmp_path / "sugarcrepe").mkdir()
    (tmp_path / "images").mkdir()
    rows = []
    for number, change in enumerate((bytes, close_after_half, zero_the_middle, join_two_halves)):
        (tmp_path / f"images/{number}.jpg").write_bytes(change(encode()))
        rows.append(f'"{number}":{{"filename":"{number}.jpg","caption":"A","negative_caption":"B"}}')
    (tmp_path / "sugarcrepe/replace_obj.json").write_text(f"{{{','.join(rows)}}}")
    code = "import sys, caramel; caramel.load_benchmark('sugarcrepe', sys.argv[1], images=sys.argv[1] + '/images')"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    assert "3 of 4 images are missing or corrupt" in run.stderr
    assert all(f"images/{number}.jpg: corrupt" in run.stderr for number in (1, 2, 3))


def test_only_two_modules_decode_by_simplejpeg() -> None:
    sources = Path(__file__).parents[2] / "src" / "caramel"
    users = [
        path.name for path in sources.rglob("*.py") if "decode_jpeg(" in path.read_text(encoding="utf-8")
    ]
    assert sorted(users) == ["decoding.py", "image_checks.py"]
