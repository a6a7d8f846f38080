import io
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from caramel.audit.image_shortcuts import FEATURES, image_shortcuts, measure
from caramel.errors import DataError

PAIRS = 120


def encoded(pixels: np.ndarray, kind: str = "JPEG", **settings) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, kind, **settings)
    return file.getvalue()


def scene(rng: np.random.Generator, size: tuple[int, int] = (48, 64), tint=(0, 0, 0)) -> np.ndarray:
    """Return smooth blobs of random colours with some noise."""
    rows, columns = np.mgrid[0 : size[0], 0 : size[1]] / 16
    waves = [np.sin(rows * a + b) + np.cos(columns * c) for a, b, c in rng.uniform(0.2, 1.5, (3, 3))]
    pixels = 128 + 30 * np.stack(waves, -1) + rng.normal(0, 6, (*size, 3)) + rng.normal(0, 12, 3) + tint
    return pixels.clip(0, 255)


def sets(draw, draw_negative, seed: int = 0) -> tuple[list[bytes], list[bytes], list[str]]:
    rng = np.random.default_rng(seed)
    images, negatives = [draw(rng) for _ in range(PAIRS)], [draw_negative(rng) for _ in range(PAIRS)]
    return images, negatives, [f"i{i // 2}" for i in range(PAIRS)]


def plain(rng) -> bytes:
    return encoded(scene(rng), quality=85)


def softened(rng) -> bytes:
    pixels = scene(rng)
    blurred = sum(np.roll(pixels, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9
    return encoded(blurred, quality=85)


@pytest.mark.parametrize(
    ("feature", "more_in", "negative"),
    [
        ("blue", "negative", lambda rng: encoded(scene(rng, tint=(0, 0, 25)), quality=85)),
        ("red", "true", lambda rng: encoded(scene(rng, tint=(-25, 0, 0)), quality=85)),
        ("width", "negative", lambda rng: encoded(scene(rng, (48, 72)), quality=85)),
        ("height", "true", lambda rng: encoded(scene(rng, (40, 64)), quality=85)),
        ("elongation", "true", lambda rng: encoded(scene(rng, (56, 56)), quality=85)),
        ("quantisation", "negative", lambda rng: encoded(scene(rng), quality=70)),
        ("file_size", "negative", lambda rng: plain(rng) + b"\0" * 2000),
        ("png", "negative", lambda rng: encoded(scene(rng), "PNG")),
        ("webp", "negative", lambda rng: encoded(scene(rng), "WEBP")),
        ("fine_detail", "true", softened),
        ("green_spread", "true", lambda rng: encoded(128 + (scene(rng) - 128) * 0.5, quality=85)),
    ],
)
def test_a_planted_shortcut_is_found_with_its_direction(feature, more_in, negative):
    found = image_shortcuts(*sets(plain, negative), folds=5, seed=3)
    row = found.features.set_index("feature").loc[feature]
    assert row["more_in"] == more_in
    assert row["accuracy"] > 0.8
    assert row["ci_low"] > 0.6
    assert row["p_value"] == found.figures["p_value"] < 0.001
    assert found.figures["accuracy"] > 0.85
    assert found.figures["ci_low"] > 0.7


def test_images_of_one_kind_raise_no_alarm():
    """At 5 % each, more than two alarms in ten sets without a shortcut happen once in ninety times."""
    found = [image_shortcuts(*sets(plain, plain, seed), folds=5, seed=3) for seed in range(10)]
    assert sum(one.figures["p_value"] <= 0.05 for one in found) <= 2
    assert np.mean([one.figures["accuracy"] for one in found]) == pytest.approx(0.5, abs=0.06)


def test_several_weak_shortcuts_are_stronger_together():
    def negative(rng):
        return encoded(scene(rng, tint=(-9, 0, 9)), quality=85)

    found = image_shortcuts(*sets(plain, negative), folds=5, seed=3)
    assert found.figures["accuracy"] > found.features["accuracy"].max()


def test_every_feature_has_its_row_most_telling_first():
    found = image_shortcuts(*sets(plain, plain), folds=5, seed=3)
    assert sorted(found.features["feature"]) == sorted(FEATURES)
    assert found.features["accuracy"].is_monotonic_decreasing
    constant = found.features.set_index("feature").loc["width"]
    assert (constant["more_in"], constant["accuracy"]) == ("neither", 0.5)


def test_the_order_of_rows_changes_nothing():
    rows = sets(plain, softened)
    order = np.random.default_rng(1).permutation(PAIRS)
    first = image_shortcuts(*rows, folds=5, seed=3)
    second = image_shortcuts(*([column[i] for i in order] for column in rows), folds=5, seed=3)
    assert first.positive[order].tolist() == second.positive.tolist()
    assert first.negative[order].tolist() == second.negative.tolist()
    assert first.features.equals(second.features)
    assert first.figures == second.figures


def test_one_pair_alone_ties():
    found = image_shortcuts(*(column[:1] for column in sets(plain, softened)), folds=5, seed=3)
    assert found.positive.tolist() == found.negative.tolist() == [0.5]
    assert found.figures["accuracy"] == 0.5


def test_features_are_what_they_say():
    pixels = np.zeros((20, 30, 3))
    pixels[:10] = (255, 0, 51)
    file = encoded(pixels, "PNG")
    found = dict(zip(FEATURES, measure(file, "x"), strict=True))
    assert found["file_size"] == pytest.approx(np.log(len(file)))
    assert np.exp([found["width"], found["height"]]) == pytest.approx([30, 20])
    assert np.exp([found["aspect"], found["elongation"]]) == pytest.approx([1.5, 1.5])
    assert [found["jpeg"], found["png"], found["webp"], found["quantisation"]] == [0, 1, 0, 0]
    assert [found[c] for c in ("red", "green", "blue")] == pytest.approx([0.5, 0, 0.1])
    assert [found[f"{c}_spread"] for c in ("red", "green", "blue")] == pytest.approx([0.5, 0, 0.1])


def test_quantisation_is_the_mean_step_of_the_luminance_table():
    file = encoded(np.zeros((16, 16, 3)), quality=60)
    with Image.open(io.BytesIO(file)) as image:
        mean = sum(image.quantization[0]) / 64
    assert measure(file, "x")[list(FEATURES).index("quantisation")] == pytest.approx(np.log(1 + mean))


def test_fine_detail_is_the_share_of_fast_waves():
    def detail(wave):
        rows = 128 + wave * np.ones((64, 64))
        return measure(encoded(np.repeat(rows[:, :, None], 3, 2), "PNG"), "x")[-1]

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
    measure(file, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * side**2  # numbers of each colour would take 24 bytes per pixel


def test_a_one_pixel_picture_is_measured():
    assert np.isfinite(measure(encoded(np.zeros((1, 1, 3)), "PNG"), "x")).all()


def test_a_broken_image_is_an_error():
    with pytest.raises(DataError, match="does not decode"):
        image_shortcuts([b"no image"], [plain(np.random.default_rng(0))], ["i"], folds=5, seed=3)
