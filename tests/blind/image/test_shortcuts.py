import io
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from caramel.blind.image.features import FEATURES
from caramel.blind.image.shortcuts import find_image_shortcuts
from caramel.errors import DataError
from caramel.utils.resampling import CrossValidation

PAIRS = 120


pytestmark = pytest.mark.usefixtures("brief_network")


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


@cache
def true_images(draw, seed: int) -> tuple[list[bytes], np.random.Generator]:
    """Return true images, and the generator that drew them, from which the negative ones are drawn next."""
    rng = np.random.default_rng(seed)
    return [draw(rng) for _ in range(PAIRS)], rng


def sets(draw, draw_negative, seed: int = 0) -> tuple[list[bytes], list[bytes], list[str], pd.DataFrame]:
    images, rng = true_images(draw, seed)
    rng = deepcopy(rng)
    negatives = [draw_negative(rng) for _ in range(PAIRS)]
    kinds = pd.DataFrame({"type": "swap", "subtype": ["swap_obj", "swap_att"] * (PAIRS // 2)})
    kinds["caption"] = [f"A cat and {i} dogs." for i in range(PAIRS)]
    kinds["negative_caption"] = [f"A cow and {i} dogs." for i in range(PAIRS)]
    return images, negatives, [f"i{i // 2}" for i in range(PAIRS)], kinds


def find_shortcuts(images, negatives, groups, rows, *, folds):
    return find_image_shortcuts(images, negatives, rows, CrossValidation(groups, folds, 3))


def plain(rng) -> bytes:
    return encoded(scene(rng), quality=85)


def softened(rng) -> bytes:
    pixels = scene(rng)
    blurred = sum(np.roll(pixels, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9
    return encoded(blurred, quality=85)


@pytest.fixture(scope="module")
def nothing_planted():
    """What is found in images of one kind."""
    return find_shortcuts(*sets(plain, plain), folds=5)


def overall(found):
    return found.figures["features"]["overall"]


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
    found = find_shortcuts(*sets(plain, negative), folds=5)
    row = found.features.set_index("feature").loc[feature]
    assert row["more_in"] == more_in
    assert row["accuracy"] > 0.8
    assert row["ci_low"] > 0.6
    assert row["p_value"] == overall(found)["p_value"] < 0.001
    assert overall(found)["micro"] > 0.85
    assert overall(found)["ci_low"] > 0.7


def test_images_of_one_kind_raise_no_alarm():
    """At 5 % each, more than two alarms in ten sets without a shortcut happen once in ninety times."""
    found = [find_shortcuts(*sets(plain, plain, seed), folds=2) for seed in range(10)]
    assert sum(overall(one)["p_value"] <= 0.05 for one in found) <= 2
    assert np.mean([overall(one)["micro"] for one in found]) == pytest.approx(0.5, abs=0.06)


def test_several_weak_shortcuts_are_stronger_together():
    def negative(rng):
        return encoded(scene(rng, tint=(-9, 0, 9)), quality=85)

    found = find_shortcuts(*sets(plain, negative), folds=5)
    assert overall(found)["micro"] > found.features["accuracy"].max()


def test_every_feature_has_its_row_most_telling_first(nothing_planted):
    found = nothing_planted
    assert sorted(found.features["feature"]) == sorted(FEATURES)
    assert found.features["accuracy"].is_monotonic_decreasing
    constant = found.features.set_index("feature").loc["width"]
    assert (constant["more_in"], constant["accuracy"]) == ("neither", 0.5)


def test_the_order_of_rows_changes_nothing():
    *rows, kinds = sets(plain, softened)
    order = np.random.default_rng(1).permutation(PAIRS)
    first = find_shortcuts(*rows, kinds, folds=5)
    turned = [[column[i] for i in order] for column in rows]
    second = find_shortcuts(*turned, kinds.iloc[order], folds=5)
    assert list(first.scores) == ["features", "network", "siamese"]
    for name, sides in first.scores.items():
        for one, other in zip(sides, second.scores[name], strict=True):
            assert one[order].tolist() == other.tolist()
    assert first.features.equals(second.features)
    assert first.figures == second.figures


def test_texts_and_images_that_both_tell_match_without_their_relation(nothing_planted):
    found = find_shortcuts(*sets(plain, lambda rng: encoded(scene(rng), "PNG")), folds=5)
    joint = found.joint["features"]
    assert list(joint) == ["group_match"]
    assert joint["group_match"]["value"] > 0.9
    alike = nothing_planted.joint["features"]
    assert alike["group_match"]["ci_low"] < 0.5


def test_a_type_of_few_groups_is_too_few_to_attack():
    images, negatives, groups, kinds = sets(plain, softened)
    kinds["type"] = np.where(np.arange(PAIRS) < 30, "few", "many")  # 15 groups
    found = find_image_shortcuts(images, negatives, kinds, CrossValidation(groups, 5, 3))
    assert found.rows.tolist() == list(range(30, PAIRS))
    assert set(found.figures["features"]["by_type"]) == {"many"}
    assert found.figures["network"]["overall"]["n"] == PAIRS - 30


def test_a_few_pairs_alone_are_too_few_and_say_nothing():
    found = find_shortcuts(*(column[:6] for column in sets(plain, softened)), folds=5)
    assert (len(found.rows), found.figures, found.joint, len(found.features)) == (0, {}, {}, 0)


def test_a_broken_image_is_an_error():
    with pytest.raises(DataError, match="does not decode"):
        find_image_shortcuts(
            [b"no image"],
            [plain(np.random.default_rng(0))],
            pd.DataFrame({"type": ["a"], "subtype": ["a"], "caption": "A.", "negative_caption": "B."}),
            CrossValidation(["i"], 5, 3),
        )
