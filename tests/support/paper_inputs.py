"""What the papers' pipelines start from, small and in the real formats: COCO's and SugarCrepe's files, a generator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

ANIMALS, THINGS = ("dog", "cat", "horse", "sheep"), ("car", "bus", "bench", "chair", "kite", "boat")
COLOURS = ("red", "green", "blue", "black", "white")


def write_photograph(path: Path, rng: np.random.Generator, colour: str) -> None:
    """Write a camera-like JPEG: a gradient, an object of the colour, noise, an odd size."""
    width, height = int(rng.integers(110, 200)), int(rng.integers(110, 200))
    ground = np.linspace(60, 200, height)[:, None, None] * np.ones((height, width, 3))
    image = Image.fromarray((ground + rng.normal(0, 6, ground.shape)).clip(0, 255).astype(np.uint8))
    x, y = int(width * rng.uniform(0.1, 0.5)), int(height * rng.uniform(0.1, 0.5))
    ImageDraw.Draw(image).rounded_rectangle((x, y, x + 45, y + 30), 8, fill=colour)
    image.filter(ImageFilter.GaussianBlur(1)).save(path, quality=85)


def write_sugarcrepe(folder: Path, *, images: int, rows: int, subtypes: Sequence[str]) -> Path:
    """Write SugarCrepe's JSON with ``rows`` rows a subtype on ``images`` images, and these in ``images/``."""
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = [f"{number:012d}.jpg" for number in range(images)]
    for name in names:
        write_photograph(folder / "images" / name, rng, str(rng.choice(COLOURS)))
    for shift, subtype in enumerate(subtypes):
        written = {}
        for number in range(rows):
            a, b = rng.choice(ANIMALS), rng.choice(THINGS)
            c, d = rng.choice(COLOURS, 2, replace=False)
            written[str(number)] = {
                "filename": names[(number + shift) % images],
                "caption": f"a {c} {a} next to a {d} {b} at house {number}",
                "negative_caption": f"A {d} {a} next to a {c} {b} at house {number} of {subtype[-3:]}.",
            }
        (folder / f"{subtype}.json").write_text(json.dumps(written))
    return folder


def write_coco(folder: Path, *, images: int, captions: int) -> Path:
    """Write COCO's captions_*.json with ``captions`` captions an image as captions.json, and the images."""
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    listed: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for number in range(images):
        name = f"{number:012d}.jpg"
        write_photograph(folder / "images" / name, rng, str(rng.choice(COLOURS)))
        with Image.open(folder / "images" / name) as image:
            listed.append({"id": number, "file_name": name, "width": image.width, "height": image.height})
        for index in range(captions):
            a, b = rng.choice(ANIMALS), rng.choice(THINGS)
            c, d = rng.choice(COLOURS, 2, replace=False)
            text = f"A {c} {a} sitting in front of a {d} {b} at house {number * captions + index}"
            notes.append({"id": len(notes), "image_id": number, "caption": text})
    (folder / "captions.json").write_text(json.dumps({"images": listed, "annotations": notes}))
    return folder


# Classes of Stable Diffusion pipelines, and the input channels of their UNet: latents, with those of an image and a mask.
IN_CHANNELS = {
    "StableDiffusionPipeline": 4,
    "StableDiffusionInpaintPipeline": 9,
    "StableDiffusionInstructPix2PixPipeline": 8,
}


def save_stable_diffusion(
    folder: Path, generator: Path, pipeline_class: str = "StableDiffusionPipeline"
) -> Path:
    """Save a tiny, untrained Stable Diffusion pipeline as diffusers does; texts are encoded as in ``generator``."""
    import diffusers
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

    from caramel.sources.images.diffusion import load_pipeline

    ours, _ = load_pipeline(generator, "cpu")
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=8,
        in_channels=IN_CHANNELS[pipeline_class],
        block_out_channels=(32, 32),
        layers_per_block=1,
        cross_attention_dim=64,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    getattr(diffusers, pipeline_class)(
        vae=AutoencoderKL(latent_channels=4, block_out_channels=(32,), norm_num_groups=8),
        text_encoder=ours.text_encoder,
        tokenizer=ours.tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder
