"""Save, load and sample text-to-image pipelines: any diffusers pipeline, trained by caramel or published on a hub.

A generator is a folder:

    pipeline/         output of ``save_pretrained``, if caramel trained the pipeline
    generator.json    card: where the pipeline is (this folder, another folder or a hub name), the hash of its
                      files if they are available locally, and its call options

The call options are options of the pipeline's class that are not settings of an experiment.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from caramel.errors import BackendError
from caramel.io.files import compute_file_hash, write_atomically
from caramel.models.devices import disable_tf32, translate_device_errors, translate_memory_errors

if TYPE_CHECKING:
    import torch

CARD = "generator.json"
OWN = "pipeline"

PipelineMethod = Literal["draw", "inpaint", "instruct"]
PIPELINE_NAMES: dict[PipelineMethod, str] = {
    "draw": "text-to-image",
    "inpaint": "in-painting",
    "instruct": "instruction",
}


@dataclass(frozen=True)
class CallOptions:
    """Keyword arguments of every call of the pipeline."""

    values: dict[str, Any]


def save_pipeline(pipeline: Any, options: CallOptions, out: Path) -> Path:
    """Write the pipeline with ``save_pretrained``, and its card."""
    pipeline.save_pretrained(out / OWN, safe_serialization=True)
    _write_card(out, {"source": OWN, "sha256": compute_file_hash(out / OWN), "options": options.values})
    return out


def adopt_pipeline(
    *unused: object, pretrained: str | None, out: Path, **settings: object
) -> list[tuple[int, str, float]]:
    """Write the card of a pretrained pipeline, a diffusers folder or a hub name, and return an empty learning curve.

    The arguments of backends that train are accepted and ignored.
    """
    assert pretrained, "caramel.config.validate checks this before the first stage"
    here = Path(pretrained).is_dir()
    source = str(Path(pretrained).resolve()) if here else pretrained
    _write_card(out, {"source": source, "sha256": compute_file_hash(source) if here else None, "options": {}})
    return []


def _write_card(out: Path, card: dict[str, Any]) -> None:
    text = json.dumps(card, indent=2, sort_keys=True) + "\n"
    write_atomically(out / CARD, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _read_card(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the pipeline's location and its call options, after checking its files against the card."""
    path = folder / CARD
    cure = "Run `dvc repro -f train_generator`."
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        name, digest, options = str(card["source"]), card["sha256"], dict(card["options"])
    except FileNotFoundError:
        raise BackendError(f"No generator at {str(folder)!r}. Run `dvc repro train_generator`.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BackendError(f"The generator's card {str(path)!r} is broken: {error!r}. {cure}") from error
    source = str(folder / OWN) if name == OWN else name
    if digest is not None and (not Path(source).is_dir() or compute_file_hash(source) != digest):
        raise BackendError(
            f"The pipeline in {source!r} does not match its card {str(path)!r}: its files are broken, changed or "
            f"missing. {cure}"
        )
    return source, options


def load_pipeline(
    folder: str | Path, device: str, method: PipelineMethod = "draw"
) -> tuple[Any, dict[str, Any]]:
    """Return (pipeline, call options) of a generator folder.

    Args:
        folder: the generator folder.
        device: cpu or cuda.
        method: what the pipeline does: ``draw`` images from text, ``inpaint`` masks of images, or edit images as
            ``instruct`` says. diffusers can load one folder for the first two.

    Raises:
        BackendError: the folder is not a generator, its pipeline does not match the card, diffusers cannot load the
            pipeline, the pipeline cannot do this, or the device cannot be used.
        ResourceError: the pipeline does not fit onto the device.
    """
    import torch
    from diffusers import AutoPipelineForInpainting, AutoPipelineForText2Image, DiffusionPipeline
    from diffusers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    folder = Path(folder)
    source, options = _read_card(folder)
    is_own_pipeline = source == str(folder / OWN)
    dtype = torch.float16 if device.startswith("cuda") and not is_own_pipeline else torch.float32
    pipeline_class = {
        "draw": AutoPipelineForText2Image,
        "inpaint": AutoPipelineForInpainting,
        "instruct": DiffusionPipeline,  # there is no class that covers the instruction pipelines
    }[method]
    try:
        pipeline = pipeline_class.from_pretrained(source, torch_dtype=dtype)
    except (OSError, ValueError) as error:
        raise BackendError(
            f"The {PIPELINE_NAMES[method]} pipeline {source!r} cannot be loaded: {error}. A hub name needs the "
            f"network and HF_HUB_OFFLINE=0."
        ) from error
    if method == "instruct" and "image_guidance_scale" not in inspect.signature(pipeline.__call__).parameters:
        raise BackendError(
            f"{source!r} is a {type(pipeline).__name__}, which takes no instructions. Set train_generator.pretrained to an "
            f"instruction pipeline, such as timbrooks/instruct-pix2pix, or synthesize.method to 'inpaint'."
        )
    pipeline.set_progress_bar_config(disable=True)
    with translate_device_errors("The pipeline", device):
        return pipeline.to(device), options


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a pipeline.

    Attributes:
        guidance: scale of classifier-free guidance, at least 0; 1: no guidance.
        steps: number of denoising steps, at least 1.
    """

    guidance: float
    steps: int


def draw_images(
    pipeline: Any,
    options: dict[str, Any],
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    sampling: Sampling,
    image_size: int,
    known: npt.NDArray[np.uint8] | None = None,
    hidden: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.uint8]:
    """Return one image per prompt, (n, size, size, 3); each image starts from noise of its own seed.

    Args:
        pipeline, options: result of ``load_pipeline``.
        prompts, seeds: one per image.
        sampling: guidance and steps.
        image_size: side in pixels.
        known: images (n, size, size, 3) of which only the part ``hidden`` is drawn again, by a pipeline trained for
            inpainting (``training.recipes.text_to_image``); None: the whole image is drawn.
        hidden: (n, size, size) mask of the pixels to draw.

    Raises:
        ResourceError: the images of one call do not fit into memory.
    """
    generators = create_generators(seeds)
    editing = (
        {}
        if known is None or hidden is None
        else _build_inpainting_arguments(known, hidden, generators, pipeline.device)
    )
    return call_pipeline(
        pipeline,
        prompts,
        generators,
        sampling=sampling,
        height=image_size,
        width=image_size,
        **editing,
        **options,
    )


def call_pipeline(
    pipeline: Any,
    prompts: Sequence[str],
    generators: Sequence[torch.Generator],
    *,
    sampling: Sampling,
    **arguments: Any,
) -> npt.NDArray[np.uint8]:
    """Return one image per prompt, (n, height, width, 3); each image starts from noise of its own generator.

    Args:
        pipeline: a pipeline of diffusers.
        prompts, generators: one per image.
        sampling: guidance and steps.
        arguments: further arguments of the pipeline's call.

    Raises:
        ResourceError: the images do not fit into memory.
    """
    with infer_images(len(prompts), str(pipeline.device)):
        drawn = pipeline(
            list(prompts),
            generator=list(generators),
            guidance_scale=sampling.guidance,
            num_inference_steps=sampling.steps,
            output_type="np",
            **arguments,
        ).images
    images: npt.NDArray[np.uint8] = np.rint(np.asarray(drawn) * 255).astype(np.uint8)
    return images


@contextmanager
def infer_images(count: int, device: str) -> Iterator[None]:
    """Compute a batch of images without gradients and TF32, with memory errors that say what to lower.

    Raises:
        ResourceError: the images do not fit into memory.
    """
    import torch

    memory = translate_memory_errors(f"A batch of size {count}", device, "Lower `synthesize.batch_size`.")
    with memory, torch.inference_mode(), disable_tf32():
        yield


def create_generators(seeds: Sequence[int]) -> list[torch.Generator]:
    """Return a generator of random numbers for each seed; on the CPU, so that every device draws the same noise."""
    import torch

    return [torch.Generator("cpu").manual_seed(seed) for seed in seeds]


def _build_inpainting_arguments(
    known: npt.NDArray[np.uint8],
    hidden: npt.NDArray[np.bool_],
    generators: Sequence[torch.Generator],
    device: torch.device,
) -> dict[str, Any]:
    """Return call arguments that restore the known pixels of each image, without noise, after each step.

    The latents of caramel's own pipeline are pixels in [-1, 1].
    """
    import torch

    clean = torch.from_numpy(known).permute(0, 3, 1, 2).float().to(device) / 127.5 - 1
    drawn = torch.from_numpy(hidden)[:, None].to(device)
    noise = torch.stack([torch.randn(clean.shape[1:], generator=g) for g in generators]).to(device)

    def restore_known_pixels(step: int, timestep: int, latents: torch.Tensor) -> None:
        latents.copy_(torch.where(drawn, latents, clean))

    return {"latents": torch.where(drawn, noise, clean), "callback": restore_known_pixels}
