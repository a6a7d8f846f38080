import numpy as np
import pandas as pd
import pytest

from caramel.evaluation.position_probe import compute_readings, find_relation_word, read_patches
from caramel.evaluation.results.bound_columns import CELLS, NOUN, RELATION, WORD
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import COLOURS, NOUNS, RELATIONS, Scene, SceneObject

WIDTH = 96


def sample_scenes(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = [
        {
            "nouns": [NOUNS[i] for i in sorted(rng.choice(len(NOUNS), 2, replace=False).tolist())],
            "cells": rng.choice(4, 2, replace=False).tolist(),
            "word": int(rng.integers(-1, 4)),
        }
        for _ in range(count)
    ]
    return pd.DataFrame(rows)


def compute_shares(images: np.ndarray, texts: np.ndarray, scenes: pd.DataFrame) -> dict[str, float]:
    readings = compute_readings(images, texts, scenes)
    return {name: float((of.predicted == of.true).mean()) for name, of in readings.items()}


def test_probes_read_positions_that_a_vector_holds_noun_by_noun() -> None:
    scenes, rng = sample_scenes(900), np.random.default_rng(4)
    directions = rng.normal(size=(len(NOUNS), 4, WIDTH))
    images = np.array(
        [
            sum(directions[NOUNS.index(noun), cell] for noun, cell in zip(nouns, cells, strict=True))
            for nouns, cells in zip(scenes["nouns"], scenes["cells"], strict=True)
        ]
    )
    texts = rng.normal(size=(5, WIDTH))[scenes["word"]] + 0.1 * rng.normal(size=images.shape)
    shares = compute_shares(images + 0.1 * rng.normal(size=images.shape), texts, scenes)
    assert set(shares) == {CELLS, NOUN, RELATION, WORD}
    assert shares[NOUN] > 0.7
    assert shares[RELATION] > 0.7
    assert shares[WORD] > 0.95


def test_filled_cells_alone_say_little_of_which_noun_is_where() -> None:
    scenes, rng = sample_scenes(900), np.random.default_rng(4)
    directions, nouns = rng.normal(size=(4, WIDTH)), rng.normal(size=(len(NOUNS), WIDTH))
    images = np.array(
        [
            directions[cells].sum(0) + nouns[[NOUNS.index(n) for n in names]].sum(0)
            for names, cells in zip(scenes["nouns"], scenes["cells"], strict=True)
        ]
    )
    shares = compute_shares(images, images, scenes)
    assert shares[CELLS] > 0.9
    assert shares[RELATION] < 0.6  # side by side or one above the other, and then a guess of two


def test_vectors_that_say_nothing_leave_probes_at_chance() -> None:
    scenes, rng = sample_scenes(900), np.random.default_rng(4)
    shares = compute_shares(*rng.normal(size=(2, 900, WIDTH)), scenes)
    assert shares[CELLS] == pytest.approx(1 / 6, abs=0.06)
    for name in (NOUN, RELATION, WORD):
        assert shares[name] == pytest.approx(1 / 4, abs=0.06)


def test_a_noun_of_few_scenes_is_not_probed() -> None:
    readings = compute_readings(*np.zeros((2, 4, WIDTH)), sample_scenes(4).assign(word=-1))
    assert set(readings) == {CELLS}


def test_patches_of_pixels_tell_every_position() -> None:
    rng, scenes = np.random.default_rng(5), sample_scenes(500).assign(word=-1)
    drawn = [
        [
            SceneObject(noun, COLOURS[int(rng.integers(8))], "small", *divmod(cell, 2))
            for noun, cell in zip(*row, strict=True)
        ]
        for row in zip(scenes["nouns"], scenes["cells"], strict=True)
    ]
    patches = read_patches([encode_png(draw_scene(Scene(tuple(things), "white"), rng)) for things in drawn])
    shares = compute_shares(patches, patches, scenes)
    assert min(shares.values()) > 0.7


@pytest.mark.parametrize(
    ("caption", "word"),
    [
        ("A red car is to the left of a box.", "left"),
        ("A box with a red car above it.", "above"),
        ("A red car on the left and a box at the top.", None),  # positions
        ("A car is to the left of a box, and a cup is above the box.", None),  # two relations
        ("A red car and a box.", None),
    ],
)
def test_the_relation_word_is_the_one_that_a_caption_says(caption: str, word: str | None) -> None:
    assert find_relation_word(caption) == (-1 if word is None else RELATIONS.index(word))
