"""Giveaways that are planted in pictures of the world are found, and nothing is where there is none."""

import io
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image

from caramel.blind.image import network
from caramel.blind.image.attack import FEWEST, attack_images, decode_images
from caramel.blind.image.network import SIDE, fit_predict_network
from caramel.blind.image.pairs import _build_antisymmetric_features, pair_scores
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import sample_scene
from caramel.utils.grouping import merge_groups
from caramel.utils.resampling import CrossValidation
from caramel.utils.stats import share_interval, variance_factor

FOLDS = 2


def pictures(pairs, plant, seed=0):
    """Return positives and negatives: scenes on one background, of which the negative one is changed."""
    rng = np.random.default_rng(seed)
    sides = [], []
    for _ in range(pairs):
        ground = rng.integers(200, 240)
        for k, side in enumerate(sides):
            scene = draw_scene(sample_scene(rng, num_objects=2, typical_color_prob=0.5), rng).astype(float)
            scene[(scene > 210).all(axis=2)] = ground
            side.append(encode_png(plant(scene, k, rng).clip(0, 255).astype(np.uint8)))
    return sides


def as_they_are(scene, negative, rng):
    return scene


def brighter(scene, negative, rng):
    return scene + negative


def marked(scene, negative, rng):
    if negative:
        scene[5, 7] = (255, 0, 255)
    return scene


def striped(scene, negative, rng):
    """Lay stripes somewhere over either picture, falling in one and rising in the other: of the same colours."""
    rows, columns = np.mgrid[:20, :20]
    top, left = rng.integers(0, SIDE - 20, 2)
    wave = np.sin((rows + (1, -1)[negative] * columns) * np.pi / 3)
    scene[top : top + 20, left : left + 20] += 40 * wave[:, :, None] - 40
    return scene


def nearer_the_middle(scene, negative, rng):
    """Make the negative one of a light pair darker, and that of a dark pair lighter."""
    return scene + (0 if not negative else -4 if np.median(scene) >= 220 else 4)


SEEN_BY_THE_NETWORK = (as_they_are, marked, striped)


@cache
def told(plant, pairs, seed=0):
    """Return each attacker's accuracy and interval; the network is trained where a test looks at it."""
    sides = pictures(pairs, plant, seed)
    known = decode_images([*sides[0], *sides[1]])
    names = [f"i{n:04}" for n in range(pairs)]
    with pytest.MonkeyPatch.context() as patch:
        if plant not in SEEN_BY_THE_NETWORK:
            patch.setattr(network, "STEPS", 10)
            patch.setattr(network, "EPOCHS", 1)
        scores = attack_images(
            known, known.find_indices(*sides), ["replace"] * pairs, CrossValidation(names, FOLDS, 3)
        )
    found = {}
    for name, (positive, negative) in scores.items():
        hits = (1 + np.sign(positive - negative)) / 2
        row = np.arange(pairs)
        found[name] = share_interval(hits, np.zeros_like(row), row, factor=variance_factor(FOLDS))
    return found


@pytest.mark.parametrize(
    ("plant", "pairs", "attacker", "least"),
    [
        (brighter, 120, "features", 0.85),
        (marked, 120, "network", 0.9),
        (striped, 300, "network", 0.7),
        (brighter, 120, "siamese", 0.85),
        (nearer_the_middle, 200, "siamese", 0.85),
    ],
)
def test_a_planted_giveaway_is_found(plant, pairs, attacker, least):
    accuracy, low, _ = told(plant, pairs)[attacker]
    assert accuracy > least
    assert low > 0.5


def test_a_texture_of_the_same_colours_is_seen_by_the_network_alone():
    accuracy, low, high = told(striped, 300)["features"]
    assert low < 0.5 < high, accuracy


def test_what_only_the_pair_tells_is_seen_by_no_weighing_of_single_pictures():
    accuracy, low, high = told(nearer_the_middle, 200)["features"]
    assert low < 0.5 < high, accuracy


def test_turning_a_pair_round_turns_the_siamese_attackers_answer():
    rng = np.random.default_rng(0)
    features, sides = rng.normal(size=(120, 5)), np.arange(120).reshape(2, 60)
    features[60:] += 0.4
    names, equal = [f"i{n:02}" for n in range(60)], np.arange(120)
    first, second = pair_scores(features, equal, sides, CrossValidation(names, 3, 1), cap=1000)
    assert first + second == pytest.approx(1)
    assert (first > second).mean() > 0.6
    assert (
        np.ptp(
            _build_antisymmetric_features(features[sides])
            + _build_antisymmetric_features(features[sides[::-1]])
        )
        == 0
    )
    none = pair_scores(np.ones((120, 5)), equal, sides, CrossValidation(names, 3, 1), cap=1000)
    assert (none == 0.5).all()


def test_where_nothing_is_planted_the_interval_holds_one_half():
    for name, (accuracy, low, high) in told(as_they_are, 120).items():
        assert low < 0.5 < high, (name, accuracy)


def test_types_are_attacked_one_by_one_and_few_pairs_not_at_all():
    sides = pictures(4 * FEWEST, marked)
    sides[0][: 2 * FEWEST], sides[1][: 2 * FEWEST] = sides[1][: 2 * FEWEST], sides[0][: 2 * FEWEST]
    kinds = ["a"] * 2 * FEWEST + ["b"] * (FEWEST + 1) + ["c"] * (FEWEST - 1)
    known = decode_images([*sides[0], *sides[1]])
    names = [f"i{n:04}" for n in range(len(kinds))]
    found = attack_images(known, known.find_indices(*sides), kinds, CrossValidation(names, FOLDS, 3))
    for positive, negative in found.values():
        scored = ~np.isnan(positive)
        assert scored.tolist() == [kind != "c" for kind in kinds]
        assert np.isnan(negative).tolist() == (~scored).tolist()
    right = found["network"][0] > found["network"][1]
    assert right[: 2 * FEWEST].mean() > 0.8, "in the other types the mark says the contrary"


def test_files_of_equal_pixels_are_one_picture_and_stand_in_one_group():
    rng = np.random.default_rng(0)
    one, two = (rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8) for _ in range(2))
    again = io.BytesIO()
    Image.fromarray(one).save(again, "PNG", compress_level=0)
    files = [encode_png(one), encode_png(two), again.getvalue()]
    known = decode_images(files)
    places = known.find_indices(files, files)[0]
    assert len(set(places.tolist())) == 3
    equal = known.equal[places].tolist()
    assert equal[0] == equal[2] != equal[1]
    sides = np.stack([known.equal[known.find_indices(files, files[::-1])[k]] for k in range(2)])
    assert merge_groups(["b", "c", "a"], sides) == ["a", "c", "a"]


def test_the_network_repeats_itself_and_knows_nothing_of_no_pair():
    rng = np.random.default_rng(0)
    stack = rng.integers(0, 255, (8, SIDE, SIDE, 3), dtype=np.uint8)
    learned, scored = np.array([[0, 1, 2], [3, 4, 5]]), np.array([6, 7])
    first, second = (fit_predict_network(stack, learned, scored, seed=1) for _ in range(2))
    assert first.tolist() == second.tolist()
    assert first.tolist() != fit_predict_network(stack, learned, scored, seed=2).tolist()
    assert fit_predict_network(stack, learned[:, :0], scored, seed=1).tolist() == [0, 0]


def test_the_network_does_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    stack = rng.integers(0, 255, (64, SIDE, SIDE, 3), dtype=np.uint8)
    learned, scored = rng.integers(0, 64, (2, 40)), np.arange(64)
    threads = torch.get_num_threads()
    try:
        values = []
        for number in (1, 2):
            torch.set_num_threads(number)
            values.append(fit_predict_network(stack, learned, scored, seed=1).tolist())
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    assert values[0] == values[1]
