"""Edit the source's images into candidates of negative captions, by diffusers' in-painting or instruction pipelines.

A drawn image beside a photograph is told apart by its pixels. An edited image differs from its source only where
the captions differ. Its positive image goes through the same pipeline, so that both images carry its traces:

    reencoded  the source image, encoded and decoded by the pipeline's autoencoder; its content stays true
    edited     the source image, edited with its own caption in the same mask, or with an empty instruction

In-painting draws a mask again, from the negative caption (Lugmayr et al. 2022 and diffusers'
``AutoPipelineForInpainting``). An instruction needs no mask (InstructPix2Pix, Brooks et al. 2023): it states the words
that change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError
from caramel.io.image_codec import decode_image
from caramel.sources.images.diffusion import Sampling, call_pipeline, create_generators, infer_images

ImageArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class EditSettings:
    """How source images are edited.

    Attributes:
        method: ``inpaint`` or ``instruct``.
        positives: positive image of each candidate: ``reencoded`` or ``edited``; see the module.
        image_guidance: weight of the source image in ``instruct``, at least 1 (Brooks et al.: 1.5).
    """

    method: Literal["inpaint", "instruct"]
    positives: Literal["reencoded", "edited"]
    image_guidance: float


def draw_edits(
    pipeline: Any,
    options: Mapping[str, Any],
    rows: Sequence[Mapping[str, str]],
    seeds: Sequence[int],
    *,
    edit: EditSettings,
    sampling: Sampling,
    image_size: int,
    batch_size: int,
) -> Iterator[tuple[ImageArray, ImageArray]]:
    """Yield the (negative, positive) images of each row of ``add_edit_inputs``, each (size, size, 3).

    Args:
        pipeline, options: result of ``load_pipeline`` for the method.
        rows: rows whose files are paths.
        seeds: seed of each row; both images start from the same noise.
        edit: how images are edited.
        sampling: guidance and steps.
        image_size: side in pixels.
        batch_size: images per call of the pipeline.

    Raises:
        ResourceError: the images of one call do not fit into memory.
        BackendError: the pipeline has no autoencoder.
    """
    for start in range(0, len(rows), batch_size):
        part, part_seeds = rows[start : start + batch_size], seeds[start : start + batch_size]
        arguments = _build_arguments(part, edit, image_size)
        run: Callable[..., ImageArray] = functools.partial(
            call_pipeline, pipeline, sampling=sampling, **arguments, **options
        )
        text = "instruction" if edit.method == "instruct" else "prompt"
        negatives = run([row[text] for row in part], create_generators(part_seeds))
        if edit.positives == "reencoded":
            positives = encode_and_decode(pipeline, arguments["image"])
        else:
            prompts = [row["positive"] if edit.method == "inpaint" else "" for row in part]
            positives = run(prompts, create_generators(part_seeds))
        yield from zip(negatives, positives, strict=True)


def _build_arguments(
    rows: Sequence[Mapping[str, str]], edit: EditSettings, image_size: int
) -> dict[str, Any]:
    """Return the arguments of the pipeline that hold the source images."""

    def open_all(column: str, mode: str) -> list[Any]:
        return [decode_image(Path(row[column]).read_bytes(), row[column]).convert(mode) for row in rows]

    arguments: dict[str, Any] = {"image": open_all("source_file", "RGB")}
    if edit.method == "instruct":
        return {**arguments, "image_guidance_scale": edit.image_guidance}
    return {
        **arguments,
        "mask_image": open_all("mask_file", "L"),
        "strength": 1.0,  # the mask starts from noise alone
        "height": image_size,
        "width": image_size,
    }


def encode_and_decode(pipeline: Any, images: Sequence[Any]) -> ImageArray:
    """Return images (n, height, width, 3) after the pipeline's autoencoder has encoded and decoded them.

    Raises:
        ResourceError: the images do not fit into memory.
        BackendError: the pipeline has no autoencoder.
    """
    import torch

    vae = getattr(pipeline, "vae", None)
    if vae is None:
        raise BackendError(
            f"{type(pipeline).__name__} has no autoencoder, so it cannot re-encode positive images. Set "
            f"synthesize.positives to 'edited'."
        )
    dtype = vae.dtype
    try:
        with infer_images(len(images), str(vae.device)):
            vae.to(torch.float32)  # some autoencoders overflow in fp16
            pixels = pipeline.image_processor.preprocess(list(images)).to(vae.device, torch.float32)
            decoded = vae.decode(vae.encode(pixels).latent_dist.mode()).sample
            images_in_unit = pipeline.image_processor.postprocess(decoded, output_type="np")
    finally:
        vae.to(dtype)
    rounded: ImageArray = np.rint(np.asarray(images_in_unit) * 255).astype(np.uint8)
    return rounded
