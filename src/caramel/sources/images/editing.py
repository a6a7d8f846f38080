"""Draw edited pairs of images of the embedded world, cell by cell; objects in both images are drawn only once.

A pair is the positive scene and a scene of the negative caption. The second scene is planned to differ from the first
in as few cells as possible (``sources.world.planning``). The generator draws each object in its own cell, from a
caption of this one object, on an empty background. Relations therefore hold by the plan. Both images come from one
process, so only their content tells them apart. A published block-wise counterfactual data set is made in the same
way (arXiv 2507.04699).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError
from caramel.sources.captions.formatting import append_suffix
from caramel.sources.images.diffusion import Sampling, draw_images
from caramel.sources.world.compounds import Compound, build_mentions, is_allowed_in_split
from caramel.sources.world.drawing import BACKGROUND_RGB, CANVAS, CELL
from caramel.sources.world.grammar import format_mention, format_sentence, parse_caption
from caramel.sources.world.objects import BORDER
from caramel.sources.world.planning import plan_scene
from caramel.sources.world.scenes import Scene, SceneObject

ImageArray = npt.NDArray[np.uint8]


class Patch(NamedTuple):
    """One object to draw in its cell."""

    scene_object: SceneObject
    background: str
    seed: int


def plan_scene_edit(
    negative_id: str,
    negative: str,
    positive: str,
    scene: str,
    split: str,
    *,
    seed: int,
    tested: frozenset[Compound],
) -> str:
    """Return the scene to draw for a negative caption, as JSON; see ``planning.plan_scene``.

    The split must allow the scene.

    Raises:
        DataError: a caption is not a caption of the embedded world, or no image that the split allows shows it.
    """
    readings = parse_caption(negative), parse_caption(positive)
    if readings[0] is None or readings[1] is None:
        raise DataError(
            f"Only captions of the embedded world can be drawn cell by cell, not {negative!r} of {negative_id!r}. "
            f"Set synthesize.method to 'draw' in params.yaml."
        )
    rng = np.random.default_rng([seed, zlib.crc32(negative_id.encode())])
    may_stand = partial(is_allowed_in_split, split=split, kept_out=tested)
    planned_scene = plan_scene(readings[0], readings[1], Scene.from_json(scene), rng, may_stand)
    if planned_scene is None:
        raise DataError(
            f"Split {split!r} allows no image of {negative!r} of {negative_id!r}. Set negatives.backend to 'world' in "
            f"params.yaml, which writes only captions that can be drawn, or synthesize.method to 'draw'."
        )
    return planned_scene.to_json()


def draw_pairs(
    pipeline: Any,
    options: Mapping[str, Any],
    rows: Sequence[tuple[Scene, Scene, int]],
    *,
    suffix: str,
    batch_size: int,
    sampling: Sampling,
) -> Iterator[tuple[ImageArray, ImageArray]]:
    """Yield the (positive, negative) images of each row, each (CANVAS, CANVAS, 3).

    Args:
        pipeline, options: result of ``load_pipeline``.
        rows: (positive scene, negative scene, seed); both scenes have the same background.
        suffix: text that replaces the final stop of each prompt.
        batch_size: cells per call of the pipeline.
        sampling: guidance and steps.
    """
    patches = list(dict.fromkeys(patch for row in rows for patch in _iter_patches(*row)))
    drawn: dict[Patch, ImageArray] = {}
    for start in range(0, len(patches), batch_size):
        part = patches[start : start + batch_size]
        drawn |= zip(part, _draw_patches(pipeline, options, part, suffix, sampling), strict=True)
    for positive, negative, seed in rows:
        yield _compose_image(positive, seed, drawn), _compose_image(negative, seed, drawn)


def _iter_patches(positive: Scene, negative: Scene, seed: int) -> Iterator[Patch]:
    """Yield the patches of both scenes; an object in both scenes gives equal patches."""
    for scene in (positive, negative):
        yield from (_create_patch(scene_object, scene.background, seed) for scene_object in scene.things)


def _create_patch(scene_object: SceneObject, background: str, seed: int) -> Patch:
    # Seeds depend on the object's repr in caramel 0.1, where its class was called Thing.
    key = repr(scene_object).replace(type(scene_object).__name__, "Thing", 1)
    return Patch(scene_object, background, zlib.crc32(f"{seed}:{key}".encode()))


def _draw_patches(
    pipeline: Any, options: Mapping[str, Any], patches: Sequence[Patch], suffix: str, sampling: Sampling
) -> Iterator[ImageArray]:
    """Yield the cell (CELL, CELL, 3) of each patch; its border shows only the background."""
    captions = (
        format_sentence(format_mention(mention))
        for mention in build_mentions(p.scene_object for p in patches)
    )
    prompts = [append_suffix(caption, suffix) for caption in captions]
    empty = np.empty((len(patches), CELL, CELL, 3), np.uint8)
    empty[:] = np.array([BACKGROUND_RGB[p.background] for p in patches])[:, None, None]
    hidden = np.zeros(empty.shape[:3], bool)
    hidden[:, BORDER:-BORDER, BORDER:-BORDER] = True
    seeds = [patch.seed for patch in patches]
    # Prompts are padded to this length; with the default length, padding takes half of the time.
    longest = max(len(tokens) for tokens in pipeline.tokenizer(prompts)["input_ids"])
    fitted = {**options, "max_sequence_length": longest}
    yield from draw_images(
        pipeline, fitted, prompts, seeds, sampling=sampling, image_size=CELL, known=empty, hidden=hidden
    )


def _compose_image(scene: Scene, seed: int, drawn: Mapping[Patch, ImageArray]) -> ImageArray:
    """Return the image of a scene: its background with the patches in their cells."""
    image = np.empty((CANVAS, CANVAS, 3), np.uint8)
    image[:] = BACKGROUND_RGB[scene.background]
    for scene_object in scene.things:
        image[_get_cell_slices(scene_object)] = drawn[_create_patch(scene_object, scene.background, seed)]
    return image


def _get_cell_slices(scene_object: SceneObject) -> tuple[slice, slice]:
    """Return the rows and columns of an object's cell."""
    return (
        slice(scene_object.row * CELL, (scene_object.row + 1) * CELL),
        slice(scene_object.column * CELL, (scene_object.column + 1) * CELL),
    )
