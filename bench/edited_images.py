"""Compare how well images alone give away drawn and edited negatives: `python bench/edited_images.py PROJECT`.

PROJECT has a finished run of the default profile. Its source images stand for photographs:

    drawn       the negative image as the generator drew it
    edited      the source image, in which the cells that differ are replaced by the generator's, after an autoencoder:
                what an in-painting pipeline in a latent space does
    photograph  the source image
    re-encoded  the source image after the autoencoder
    edited      (positive) the source image, in which the generator drew the same cells as they are

The autoencoder (diffusers' AutoencoderKL) is trained here for a minute. An accuracy of 50 % is chance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from caramel.blind.image.scores import compute_image_scores
from caramel.io.image_codec import decode_center_crop
from caramel.io.image_store import ImageStore
from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.io import read_table
from caramel.schemas.pairs import PAIRS
from caramel.schemas.scores import SCORES
from caramel.sources.world.drawing import CANVAS, CELL, encode_png
from caramel.sources.world.scenes import Scene

Images = npt.NDArray[np.uint8]


def decode_all(store: ImageStore, names: Sequence[str]) -> Images:
    """Return images (n, CANVAS, CANVAS, 3)."""
    return np.stack([decode_center_crop(store[name], name, CANVAS) for name in names])


def find_changed_cells(before: Scene, after: Scene) -> list[tuple[slice, slice]]:
    """Return rows and columns of the cells whose objects differ."""
    changed = {*before.things} ^ {*after.things}
    cells = sorted({(thing.row, thing.column) for thing in changed})
    return [(slice(r * CELL, (r + 1) * CELL), slice(c * CELL, (c + 1) * CELL)) for r, c in cells]


def paste_cells(targets: Images, sources: Images, cells: Sequence[list[tuple[slice, slice]]]) -> Images:
    """Return the targets with these cells of the sources."""
    edited = targets.copy()
    for image, source, of_image in zip(edited, sources, cells, strict=True):
        for cell in of_image:
            image[cell] = source[cell]
    return edited


def train_autoencoder(images: Images, steps: int, seed: int) -> Callable[[Images], Images]:
    """Return the round trip of an autoencoder that was trained on images."""
    from diffusers import AutoencoderKL

    torch.manual_seed(seed)
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        norm_num_groups=8,
    )
    optimizer = torch.optim.AdamW(vae.parameters(), lr=2e-3)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch = _to_tensor(images[rng.integers(0, len(images), 32)])
        decoded = vae.decode(vae.encode(batch).latent_dist.mode()).sample
        loss = (decoded - batch).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def reencode(pixels: Images) -> Images:
        with torch.inference_mode():
            parts = [
                vae.decode(vae.encode(_to_tensor(pixels[start : start + 64])).latent_dist.mode()).sample
                for start in range(0, len(pixels), 64)
            ]
        decoded = torch.cat(parts).permute(0, 2, 3, 1).numpy()
        rounded: Images = np.rint(np.clip((decoded + 1) * 127.5, 0, 255)).astype(np.uint8)
        return rounded

    print(f"autoencoder: {steps} steps, mean error {127.5 * float(loss.detach()):.1f} of 255")
    return reencode


def _to_tensor(pixels: Images) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


@click.command(help=__doc__)
@click.argument("project", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--steps", default=400, show_default=True, help="Steps of the autoencoder.")
@click.option("--limit", default=600, show_default=True, help="Instances of test to attack.")
@click.option("--folds", default=3, show_default=True, help="Folds of the cross-validation.")
@click.option("--seed", default=10, show_default=True, help="Random seed.")
def main(project: str, steps: int, limit: int, folds: int, seed: int) -> None:
    """Print the best image-only attacker's accuracy for each kind of negative and of positive image."""
    data, started = Path(project, "data"), time.monotonic()
    instances, source_form = (
        rows[rows["split"] == "test"].sample(limit, random_state=seed).reset_index(drop=True)
        for rows in (
            read_table(INSTANCES, data / f"assemble/{name}.parquet")
            for name in ("instances", "instances_source")
        )
    )
    stores = {
        stage: ImageStore(index, read_table(IMAGES, index))
        for stage in ("scenes", "synthesize")
        if (index := data / stage / "images.parquet")
    }
    pairs = read_table(PAIRS, data / "scenes/pairs.parquet")
    scene_of = pairs.drop_duplicates("image_id").set_index("image_id")["scene"]
    planned = read_table(CANDIDATES, data / "synthesize/candidates.parquet").set_index("image_id")["scene"]
    cells = [
        find_changed_cells(Scene.from_json(scene_of[image]), Scene.from_json(planned[negative]))
        for image, negative in zip(source_form["image_id"], source_form["negative_image_id"], strict=True)
    ]
    trained_on = pairs.loc[pairs["split"] == "train", "image_id"].drop_duplicates().head(2000).tolist()
    reencode = train_autoencoder(decode_all(stores["scenes"], trained_on), steps, seed)
    photographs = decode_all(stores["scenes"], source_form["image_id"].tolist())
    drawn_negatives = decode_all(stores["synthesize"], instances["negative_image_id"].tolist())
    drawn_positives = decode_all(stores["synthesize"], instances["image_id"].tolist())
    positives = {
        "photograph": photographs,
        "re-encoded": reencode(photographs),
        "drawn": drawn_positives,
        "edited": reencode(paste_cells(photographs, drawn_positives, cells)),
    }
    negatives = {
        "drawn": drawn_negatives,
        "edited": reencode(paste_cells(photographs, drawn_negatives, cells)),
    }
    texts = read_table(SCORES, data / "refine/scores.parquet")
    print(f"{len(instances)} instances; accuracy of the best attacker on test, in per cent")
    for negative, of_negatives in negatives.items():
        others = [name for name in positives if name not in {"drawn", "edited"} or name == negative]
        figures = attack(
            source_form, of_negatives, {name: positives[name] for name in others}, texts, folds, seed
        )
        for name, (attacker, figure) in figures.items():
            low, high = 100 * figure["ci_low"], 100 * figure["ci_high"]
            print(
                f"negative {negative}, positive {name}: {100 * figure['accuracy']:.1f} [{low:.1f}, {high:.1f}] ({attacker})"
            )
    print(f"{time.monotonic() - started:.0f} s")


def attack(
    rows: pd.DataFrame,
    negatives: Images,
    positives: dict[str, Images],
    texts: pd.DataFrame,
    folds: int,
    seed: int,
) -> dict[str, tuple[str, Any]]:
    """Return the best attacker and its figure for each form of the positives."""
    images, forms = dict[str, bytes](), dict[str, pd.DataFrame]()
    for name, pixels in (("negative", negatives), *positives.items()):
        images |= {f"{name}-{i}": encode_png(image) for i, image in enumerate(pixels)}
    for name in positives:
        numbers = range(len(rows))
        forms[name] = rows.assign(
            image_id=[f"{name}-{i}" for i in numbers], negative_image_id=[f"negative-{i}" for i in numbers]
        )
    figures = compute_image_scores(forms, images, texts, folds=folds, seed=seed, split="test").figures
    best = {}
    for name, figure in figures["forms"].items():
        by_attacker = {a: subsets["all"] for a, subsets in figure["pictures"].items() if subsets["all"]["n"]}
        attacker = max(by_attacker, key=lambda a: by_attacker[a]["accuracy"])
        best[name] = attacker, by_attacker[attacker]
    return best


if __name__ == "__main__":
    main()
