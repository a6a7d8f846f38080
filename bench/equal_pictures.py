"""Measure the errors of the benchmark gate's perceptual hash: `python bench/equal_pictures.py [--folder PHOTOS]`.

Prints two tables. The first counts false alarms: pairs of different images that are taken for the same image.
The second gives the share of changed images that are recognised. The images are

- scenes of the embedded world, which the gate does not compare by hash;
- noise and covering discs with the spectrum of photographs (Field 1987; Lee, Mumford & Huang 2001);
- bright skies over dark ground, which are more alike, and single blocks on a slope, which are most alike;
- windows of scikit-learn's two photographs;
- images of a folder, if one is given.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image
from sklearn.datasets import load_sample_images

from caramel.gates.near_duplicate_images import MAX_HAMMING_DISTANCE, compute_perceptual_hash
from caramel.io.image_codec import FORMATS, decode_image
from caramel.sources.world.drawing import draw_scene
from caramel.sources.world.scenes import sample_scene

SIDE = 256
WINDOW, STEP = 160, 80  # of the sample photographs, in pixels; windows overlap by half at most
CHANGED = 200  # images of each kind that are changed
_FREQUENCY = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE)[None])
_FREQUENCY[0, 0] = 1.0
Pixels = npt.NDArray[np.uint8]


def noise(rng: np.random.Generator) -> Pixels:
    """Return coloured noise whose amplitude falls with the frequency, shape (SIDE, SIDE, 3)."""
    white = np.fft.fft2(rng.standard_normal((4, SIDE, SIDE)))
    layers = np.fft.ifft2(white / _FREQUENCY ** rng.uniform(0.8, 1.6)).real
    layers = (layers - layers.mean((1, 2), keepdims=True)) / layers.std((1, 2), keepdims=True)
    image: Pixels = np.clip(120 + 50 * (layers[:1] + 0.3 * layers[1:]), 0, 255).astype(np.uint8)
    return image.transpose(1, 2, 0)


def discs(rng: np.random.Generator) -> Pixels:
    """Return overlapping discs of all sizes, each of one colour."""
    y, x = np.mgrid[:SIDE, :SIDE]
    image, free = np.zeros((SIDE, SIDE, 3), np.uint8), np.ones((SIDE, SIDE), bool)
    while free.any():
        radius = 8 / np.sqrt(rng.uniform(0.004, 1))
        middle = rng.uniform(-radius, SIDE + radius, 2)
        disc = free & ((x - middle[0]) ** 2 + (y - middle[1]) ** 2 < radius**2)
        image[disc] = rng.integers(0, 256, 3)
        free &= ~disc
    return image


def outdoors(rng: np.random.Generator) -> Pixels:
    """Return a bright, even sky over a dark ground with more contrast."""
    ground = np.arange(SIDE)[:, None, None] > rng.integers(SIDE // 3, 2 * SIDE // 3)
    texture = noise(rng).astype(np.float64) - 120
    return np.clip(np.where(ground, 80 + 0.7 * texture, 200 + 0.15 * texture), 0, 255).astype(np.uint8)


def blocks(rng: np.random.Generator) -> Pixels:
    """Return one block of any colour on an even slope."""
    slope = np.linspace(60, 200, SIDE)[:, None, None] + rng.normal(0, 6, (SIDE, SIDE, 3))
    x, y = rng.integers(SIDE // 10, SIDE // 2, 2)
    slope[y : y + rng.integers(40, 80), x : x + rng.integers(50, 110)] = rng.integers(0, 256, 3)
    return np.clip(slope, 0, 255).astype(np.uint8)


def world(rng: np.random.Generator) -> Pixels:
    """Return a scene of the embedded world."""
    return draw_scene(sample_scene(rng, num_objects=int(rng.integers(1, 4)), typical_color_prob=0.5), rng)


def iter_windows() -> Iterator[Image.Image]:
    """Yield windows of the sample photographs."""
    for photograph in map(Image.fromarray, load_sample_images().images):
        for top in range(0, photograph.height - WINDOW + 1, STEP):
            for left in range(0, photograph.width - WINDOW + 1, STEP):
                yield photograph.crop((left, top, left + WINDOW, top + WINDOW))


def apply_encoding(picture: Image.Image, form: str, **settings: int) -> Image.Image:
    """Return an image after encoding and decoding."""
    stream = io.BytesIO()
    picture.save(stream, form, **settings)
    return decode_image(stream.getvalue(), form)


def scale_image(picture: Image.Image, factor: float) -> Image.Image:
    """Return an image with its sides scaled by a factor."""
    size = max(1, round(factor * picture.width)), max(1, round(factor * picture.height))
    return picture.resize(size, Image.Resampling.BICUBIC)


def crop_image(picture: Image.Image, share: float) -> Image.Image:
    """Return an image without a share of its width and height, half of it at each side."""
    x, y = share * picture.width / 2, share * picture.height / 2
    return picture.crop((round(x), round(y), round(picture.width - x), round(picture.height - y)))


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "JPEG of quality 90": lambda p: apply_encoding(p, "JPEG", quality=90),
    "JPEG of quality 60": lambda p: apply_encoding(p, "JPEG", quality=60),
    "JPEG of quality 30": lambda p: apply_encoding(p, "JPEG", quality=30),
    "WebP of quality 60": lambda p: apply_encoding(p, "WEBP", quality=60),
    "half the side": lambda p: scale_image(p, 0.5),
    "a quarter of the side, JPEG of quality 60": lambda p: apply_encoding(
        scale_image(p, 0.25), "JPEG", quality=60
    ),
    "twice the side": lambda p: scale_image(p, 2),
    "square made 4:3": lambda p: p.resize((p.width, p.height * 3 // 4)),
    "grey": lambda p: p.convert("L"),
    "brighter": lambda p: p.point([min(255, 10 + 6 * v // 5) for v in range(256)] * 3),
    "2 % cropped": lambda p: crop_image(p, 0.02),
    "5 % cropped": lambda p: crop_image(p, 0.05),
    "10 % cropped": lambda p: crop_image(p, 0.1),
    "mirrored": lambda p: p.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
}


def unpack_hash(hashed: bytes) -> npt.NDArray[np.bool_]:
    """Return the bits of a hash, shape (256,)."""
    return np.unpackbits(np.frombuffer(hashed, np.uint8)).astype(bool)


def count_differing_bits(hashes: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the number of differing bits of each pair of n hashes, shape (n (n - 1) / 2,)."""
    rows = (hashes[n + 1 :] ^ hashes[n] for n in range(len(hashes) - 1))
    return np.concatenate([np.zeros(0, np.int64), *(row.sum(1) for row in rows)])


def iter_photographs(folder: Path, most: int) -> Iterator[Image.Image]:
    """Yield the photographs of a folder."""
    endings = tuple(f".{form.lower()}" for form in (*FORMATS, "jpg"))
    files = sorted(path for path in folder.rglob("*") if path.name.lower().endswith(endings))
    for path in files[:most]:
        yield decode_image(path.read_bytes(), str(path))


def measure_hashes(pictures: Iterator[Image.Image]) -> tuple[list[object], list[str]]:
    """Return a row of the first table (different images) and a column of the second (changed images)."""
    hashed: list[npt.NDArray[np.bool_]] = []
    changed: dict[str, list[float]] = {name: [] for name in CHANGES}
    without = 0
    for picture in pictures:
        if (image_hash := compute_perceptual_hash(picture)) is None:
            without += 1
            continue
        hashed.append(unpack_hash(image_hash))
        for name, change in CHANGES.items() if len(hashed) <= CHANGED else ():
            after = compute_perceptual_hash(change(picture))
            changed[name].append(np.inf if after is None else (unpack_hash(after) ^ hashed[-1]).sum())
    far = count_differing_bits(np.stack(hashed))
    alarms = far <= MAX_HAMMING_DISTANCE
    cells = [
        f"{np.mean(np.array(away) <= MAX_HAMMING_DISTANCE):.1%} ({np.median(away):.0f})"
        for away in changed.values()
    ]
    return [len(hashed), without, len(far), far.min(), alarms.sum(), f"{alarms.mean():.1e}"], cells


@click.command(epilog="Example: python bench/equal_pictures.py --images 2000 --folder val2017")
@click.option("--images", default=1000, show_default=True, help="Images of each kind.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Photographs.")
def main(images: int, folder: Path | None) -> None:
    """Print the two tables."""
    rng = np.random.default_rng(0)
    sources: dict[str, Iterator[Image.Image]] = {
        make.__name__: map(Image.fromarray, map(make, [rng] * images))
        for make in (world, noise, discs, outdoors, blocks)
    }
    sources |= {"windows": iter_windows()} | (
        {} if folder is None else {folder.name: iter_photographs(folder, images)}
    )
    results = {source: measure_hashes(pictures) for source, pictures in sources.items()}
    columns = ["images", "without hash", "pairs", "least differing bits", "false alarms", "share"]
    print(
        f"Two images count as the same if at most {MAX_HAMMING_DISTANCE} of 255 bits differ.\n\nDifferent images:"
    )
    alarms = {source: row for source, (row, _) in results.items()}
    print(pd.DataFrame.from_dict(alarms, "index", columns=columns).to_string())
    print("\nChanged images: share that is recognised (median of the differing bits)")
    print(
        pd.DataFrame(
            {source: column for source, (_, column) in results.items()}, index=list(CHANGES)
        ).to_string()
    )


if __name__ == "__main__":
    main()
