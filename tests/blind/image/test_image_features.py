import io
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from caramel.blind.image.features import FEATURES, compute_features


def encoded(pixels: np.ndarray, kind: str = "PNG", **settings) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, kind, **settings)
    return file.getvalue()


def test_features_are_what_they_say():
    pixels = np.zeros((20, 30, 3))
    pixels[:10] = (255, 0, 51)
    file = encoded(pixels, "PNG")
    found = dict(zip(FEATURES, compute_features(file, "x"), strict=True))
    assert found["file_size"] == pytest.approx(np.log(len(file)))
    assert np.exp([found["width"], found["height"]]) == pytest.approx([30, 20])
    assert np.exp([found["aspect"], found["elongation"]]) == pytest.approx([1.5, 1.5])
    assert [found["jpeg"], found["png"], found["webp"], found["quantisation"]] == [0, 1, 0, 0]
    assert [found[c] for c in ("red", "green", "blue")] == pytest.approx([0.5, 0, 0.1])
    assert [found[f"{c}_middle"] for c in ("red", "green", "blue")] == [0, 0, 0]
    assert np.exp(found["colours"]) == pytest.approx(2)
    assert [found[f"{c}_spread"] for c in ("red", "green", "blue")] == pytest.approx([0.5, 0, 0.1])


def test_quantisation_is_the_mean_step_of_the_luminance_table():
    file = encoded(np.zeros((16, 16, 3)), "JPEG", quality=60)
    with Image.open(io.BytesIO(file)) as image:
        mean = sum(image.quantization[0]) / 64
    assert compute_features(file, "x")[list(FEATURES).index("quantisation")] == pytest.approx(
        np.log(1 + mean)
    )


def test_fine_detail_is_the_share_of_fast_waves():
    def detail(wave):
        rows = 128 + wave * np.ones((64, 64))
        return compute_features(encoded(np.repeat(rows[:, :, None], 3, 2), "PNG"), "x")[-1]

    columns = np.arange(64)
    slow, fast = 50 * np.sin(columns / 16 * 2 * np.pi), 50 * np.sin(columns / 2.5 * 2 * np.pi)
    assert detail(fast) == pytest.approx(0, abs=0.01)
    assert detail(slow) < -6
    assert detail(fast + slow) == pytest.approx(np.log(0.5), abs=0.02)
    assert detail(0) < -6


def test_a_large_picture_is_measured_without_a_copy_of_its_pixels_as_numbers():
    side = 1500
    file = encoded(np.zeros((side, side, 3)), "PNG")
    tracemalloc.start()
    compute_features(file, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * side**2  # numbers of each colour would take 24 bytes per pixel


def test_a_one_pixel_picture_is_measured():
    assert np.isfinite(compute_features(encoded(np.zeros((1, 1, 3)), "PNG"), "x")).all()


@pytest.mark.parametrize(("lit", "middle"), [(5, 0.0), (6, 1.0)])
def test_the_middle_is_the_value_that_half_of_the_pixels_do_not_exceed(lit, middle):
    pixels = np.zeros((1, 11, 3))
    pixels[:, :lit, 1] = 255
    found = dict(zip(FEATURES, compute_features(encoded(pixels), "x"), strict=True))
    assert (found["red_middle"], found["green_middle"]) == (0.0, middle)


def test_edges_are_the_mean_step_between_neighbours():
    pixels = np.zeros((2, 3, 3))
    pixels[:, 2] = 70
    found = dict(zip(FEATURES, compute_features(encoded(pixels), "x"), strict=True))
    assert found["edges"] == pytest.approx(np.log(1 + 2 * 70 / (2 * 2 + 3)))


def test_colours_are_counted_in_the_centre():
    pixels = np.zeros((400, 300, 3))
    pixels[200, 150] = 9
    pixels[0, 0] = 90
    found = dict(zip(FEATURES, compute_features(encoded(pixels), "x"), strict=True))
    assert np.exp(found["colours"]) == pytest.approx(2)
