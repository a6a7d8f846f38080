import numpy as np
import pytest
from PIL import Image, ImageFilter

from caramel.sources.world.drawing import CANVAS, draw_scene, encode_png
from caramel.sources.world.exact_reader import read_images
from caramel.sources.world.scenes import COLOURS, NOUNS, SIZES, Scene, SceneObject, sample_scene


def drawn(count: int, seed: int) -> tuple[list[Scene], np.ndarray]:
    rng = np.random.default_rng(seed)
    scenes = [
        sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5) for _ in range(count)
    ]
    return scenes, np.stack([draw_scene(scene, rng) for scene in scenes])


def share_right(scenes: list[Scene], pictures: np.ndarray) -> float:
    found = read_images(pictures)
    right = [set(r.scene.things) == set(s.things) for r, s in zip(found, scenes, strict=True)]
    return float(np.mean(right))


def test_every_drawn_picture_is_read_exactly() -> None:
    scenes, pictures = drawn(300, 1)
    assert share_right(scenes, pictures) == 1.0
    assert all(r.unreadable == 0 for r in read_images(pictures))


def test_every_noun_colour_and_size_is_told_from_every_other() -> None:
    rng = np.random.default_rng(0)
    scenes = [
        Scene((SceneObject(noun, colour, size, 1, 0),), "white")
        for noun in NOUNS
        for colour in COLOURS
        for size in SIZES
    ]
    assert share_right(scenes, np.stack([draw_scene(scene, rng) for scene in scenes])) == 1.0


def test_blurred_pictures_are_read_exactly() -> None:
    scenes, pictures = drawn(200, 2)
    blurred = [np.asarray(Image.fromarray(p).filter(ImageFilter.GaussianBlur(0.6))) for p in pictures]
    assert share_right(scenes, np.stack(blurred)) == 1.0


def test_noisy_pictures_are_read_mostly_right() -> None:
    scenes, pictures = drawn(200, 3)
    noise = np.random.default_rng(0).normal(0, 15, pictures.shape)
    assert share_right(scenes, np.clip(pictures + noise, 0, 255).astype(np.uint8)) > 0.95


def test_something_that_is_no_icon_is_unreadable_not_guessed() -> None:
    picture = np.full((1, CANVAS, CANVAS, 3), 255, np.uint8)
    picture[0, 2:22, 2:22] = np.random.default_rng(0).integers(0, 255, (20, 20, 3))
    reading = read_images(picture)[0]
    assert reading.scene.things == ()
    assert reading.unreadable == 1


def test_an_empty_picture_reads_as_empty() -> None:
    reading = read_images(np.full((1, CANVAS, CANVAS, 3), 228, np.uint8))[0]
    assert reading.scene == Scene((), "grey")


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="must have shape"):
        read_images(np.zeros((1, 32, 32, 3), np.uint8))


def test_equal_scenes_and_seeds_give_equal_files() -> None:
    scene = Scene((SceneObject("car", "red", "small", 0, 0),), "cream")
    files = {encode_png(draw_scene(scene, np.random.default_rng(7))) for _ in range(3)}
    assert len(files) == 1
