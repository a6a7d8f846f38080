"""Write a large source for trying the graph: `python bench/large_world.py --images 100000 FOLDER`.

Writes JPEGs of 256 to 640 pixels a side to FOLDER/images, and FOLDER/captions.csv with five true captions of
each, as `scenes.source: files` reads them. The world is larger than the embedded one: images show four
objects from 66 nouns, 8 colours and 2 sizes in a grid of 4 × 3 cells, on a grainy background that compresses
like photographs. A caption relates one object to two others, so that the word lists find a negative of each
of their seven subtypes in nearly all captions.

An image depends only on its number and the seed. A hundred thousand images take 5 GB, and nine minutes on two
cores.
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from PIL import Image, ImageChops, ImageDraw
from tqdm import tqdm

from caramel.sources.captions.words import NOUNS, choose_article

GROUPS = ("vehicle", "street", "animal", "accessory", "kitchen", "food", "furniture", "indoor")
OBJECT_NOUNS = tuple(noun for group in GROUPS for noun in NOUNS[group])
COLOURS = {
    "red": (205, 45, 40),
    "blue": (45, 80, 205),
    "green": (45, 150, 60),
    "yellow": (235, 205, 40),
    "purple": (125, 55, 165),
    "pink": (240, 130, 190),
    "brown": (120, 75, 45),
    "black": (30, 30, 30),
}
SIZES = {"large": 0.48, "small": 0.3}  # radius, in cells
COLUMNS, ROWS = 4, 3
SIDES = (256, 640)  # pixels, both included
GRAIN = 40  # number of backgrounds
CAPTIONS = 5
FORMS = ("A {a} is {ab} a {b} and {ac} a {c}.", "A {a} {ab} a {b} and {ac} a {c}.")


class SceneObject(NamedTuple):
    """An object in an image."""

    noun: str
    colour: str
    size: str
    column: int
    row: int


def draw_objects(rng: np.random.Generator) -> list[SceneObject]:
    """Return four objects with different nouns in different cells."""
    nouns = rng.choice(len(OBJECT_NOUNS), 4, replace=False).tolist()
    cells = rng.choice(COLUMNS * ROWS, 4, replace=False).tolist()
    colours, sizes = list(COLOURS), list(SIZES)
    return [
        SceneObject(
            OBJECT_NOUNS[noun],
            colours[rng.integers(len(colours))],
            sizes[rng.integers(2)],
            cell % COLUMNS,
            cell // COLUMNS,
        )
        for noun, cell in zip(nouns, cells, strict=True)
    ]


def describe_relation(a: SceneObject, b: SceneObject) -> str:
    """Return the relation of the first object to the second: by columns, or by rows within one column."""
    if a.column != b.column:
        return "to the left of" if a.column < b.column else "to the right of"
    return "above" if a.row < b.row else "below"


def generate_captions(objects: Sequence[SceneObject], rng: np.random.Generator) -> list[str]:
    """Return five different captions that are true of the objects.

    All relations read from left to right and from top to bottom, or all in reverse, so that no caption
    contradicts another.
    """
    texts = []
    objects = sorted(objects, key=lambda item: (item.column, item.row), reverse=rng.random() < 0.5)
    orders = [
        (a, b, c) for n, a in enumerate(objects) for b, c in itertools.permutations(objects[n + 1 :], 2)
    ]
    for number in rng.choice(len(orders), CAPTIONS, replace=False).tolist():
        a, b, c = orders[number]
        size = f"{a.size} " if rng.random() < 0.5 else ""
        words = {"a": f"{size}{a.colour} {a.noun}", "b": f"{b.colour} {b.noun}", "c": c.noun}
        form = FORMS[rng.integers(len(FORMS))].replace("a {c}", f"{choose_article(c.noun)} {{c}}")
        texts.append(form.format(**words, ab=describe_relation(a, b), ac=describe_relation(a, c)))
    return texts


@cache
def generate_outline(noun: str) -> np.ndarray:
    """Return the outline of a noun's shape around (0, 0), at most 1 away."""
    rng = np.random.default_rng(zlib.crc32(noun.encode()))
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    return np.stack([np.cos(angles), np.sin(angles)], 1) * rng.uniform(0.35, 1, (12, 1))


@cache
def generate_background(number: int) -> Image.Image:
    """Return one of the grainy backgrounds, of the largest size."""
    rng = np.random.default_rng([number, 1])
    coarse = Image.fromarray(rng.integers(90, 230, (5, 5, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((SIDES[1], SIDES[1]), Image.Resampling.BICUBIC), np.int16)
    noisy = smooth + rng.normal(0, 11, (SIDES[1], SIDES[1], 1))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def render_image(objects: Sequence[SceneObject], rng: np.random.Generator) -> Image.Image:
    """Return the image."""
    width, height = rng.integers(SIDES[0], SIDES[1] + 1, 2).tolist()
    image = generate_background(int(rng.integers(GRAIN))).crop((0, 0, width, height))
    layer, mask = image.copy(), Image.new("L", image.size)
    pens = ImageDraw.Draw(layer), ImageDraw.Draw(mask)
    for item in objects:
        cell = np.array([width / COLUMNS, height / ROWS])
        middle = cell * (np.array([item.column, item.row]) + rng.uniform(0.45, 0.55, 2))
        points = (middle + generate_outline(item.noun) * SIZES[item.size] * cell.min()).ravel().tolist()
        pens[0].polygon(points, fill=COLOURS[item.colour])
        pens[1].polygon(points, fill=225)  # lets some of the grain show through
    grainy = ImageChops.overlay(layer, image)
    return Image.composite(Image.blend(layer, grainy, 0.3), image, mask)


def write_image(number: int, seed: int, folder: Path) -> list[tuple[str, str]]:
    """Write one image and return its rows."""
    rng = np.random.default_rng([seed, number])
    objects, name = draw_objects(rng), f"{number:07}.jpg"
    render_image(objects, rng).save(folder / "images" / name, quality=int(rng.integers(80, 93)))
    return [(name, caption) for caption in generate_captions(objects, rng)]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--images", default=10_000, show_default=True, help="Number of JPEGs, with five captions each.")
@click.option("--seed", default=1, show_default=True, help="Random seed of the content.")
def main(folder: Path, images: int, seed: int) -> None:
    """Write images and captions to FOLDER."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    table, part = folder / "captions.csv", folder / "captions.part"
    with part.open("w", newline="", encoding="utf-8") as stream, multiprocessing.Pool() as pool:
        rows = csv.writer(stream)
        rows.writerow(("filename", "caption"))
        work = partial(write_image, seed=seed, folder=folder)
        for image_rows in tqdm(pool.imap(work, range(images), chunksize=64), total=images, disable=None):
            rows.writerows(image_rows)
    part.rename(table)  # the table appears only after all images


if __name__ == "__main__":
    main()
