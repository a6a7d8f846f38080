"""Pairs of pictures of the world, edited: each object drawn in its own cell, what both pictures show drawn once.

The positive scene and a scene of the negative caption, planned to differ in as few cells as can be
(``sources.world.planning``), are drawn by the generator cell by cell, from the caption of the one object, on an empty
background. So relations hold by the plan, and both pictures come from one process: nothing but what they show tells
them apart. A block-wise counterfactual set is made so, too (arXiv 2507.04699).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from caramel.errors import DataError
from caramel.sources.captions.formatting import suffixed
from caramel.sources.images.diffusion import draw_pictures
from caramel.sources.world.compounds import Compound, belongs, mentions_of
from caramel.sources.world.drawing import BACKGROUND_RGB, CANVAS, CELL
from caramel.sources.world.grammar import formatted, phrase, read
from caramel.sources.world.objects import BORDER
from caramel.sources.world.planning import plan
from caramel.sources.world.scenes import Scene, Thing

Picture = npt.NDArray[np.uint8]


class Patch(NamedTuple):
    """One object to be drawn in its cell."""

    thing: Thing
    background: str
    seed: int


def planned(
    negative_id: str,
    negative: str,
    positive: str,
    scene: str,
    split: str,
    *,
    seed: int,
    tested: frozenset[Compound],
) -> str:
    """Return the scene to draw for a negative caption, as JSON: one that may stand in its split; see ``planning.plan``.

    Raises:
        DataError: a caption is none of the world, or no picture that may stand in the split shows it.
    """
    said = read(negative), read(positive)
    if said[0] is None or said[1] is None:
        raise DataError(
            f"Only captions of the embedded world can be drawn cell by cell, not {negative!r} of {negative_id!r}. "
            f"Set synthesize.method to 'draw' in params.yaml."
        )
    rng = np.random.default_rng([seed, zlib.crc32(negative_id.encode())])
    may_stand = partial(belongs, split=split, kept_out=tested)
    found = plan(said[0], said[1], Scene.from_json(scene), rng, may_stand)
    if found is None:
        raise DataError(
            f"No picture of {negative!r} of {negative_id!r} may stand in split {split!r}. Set negatives.backend to 'world' "
            f"in params.yaml, which writes what can be shown, or synthesize.method to 'draw'."
        )
    return found.to_json()


def draw_pairs(
    pipeline: Any,
    options: Mapping[str, Any],
    rows: Sequence[tuple[Scene, Scene, int]],
    *,
    suffix: str,
    batch: int,
    guidance: float,
    steps: int,
) -> Iterator[tuple[Picture, Picture]]:
    """Yield the (positive, negative) picture of each row, each (CANVAS, CANVAS, 3).

    Args:
        pipeline, options: of ``load_pipeline``.
        rows: (positive scene, negative scene, seed); both scenes have the same background.
        suffix: appended to each prompt, in place of its final stop.
        batch: cells per call of the pipeline.
        guidance, steps: how it is sampled.
    """
    patches = list(dict.fromkeys(patch for row in rows for patch in _patches(*row)))
    how: dict[str, Any] = {"guidance": guidance, "steps": steps}
    drawn: dict[Patch, Picture] = {}
    for start in range(0, len(patches), batch):
        part = patches[start : start + batch]
        drawn |= zip(part, _drawn(pipeline, options, part, suffix, **how), strict=True)
    for positive, negative, seed in rows:
        yield _composed(positive, seed, drawn), _composed(negative, seed, drawn)


def _patches(positive: Scene, negative: Scene, seed: int) -> Iterator[Patch]:
    """Yield what is drawn of both scenes; what both show is the same patch."""
    for scene in (positive, negative):
        yield from (_patch(thing, scene.background, seed) for thing in scene.things)


def _patch(thing: Thing, background: str, seed: int) -> Patch:
    return Patch(thing, background, zlib.crc32(f"{seed}:{thing}".encode()))


def _drawn(
    pipeline: Any, options: Mapping[str, Any], patches: Sequence[Patch], suffix: str, **how: Any
) -> Iterator[Picture]:
    """Yield the cell (CELL, CELL, 3) of each patch, drawn inside the border that shows its background."""
    said = (formatted(phrase(mention)) for mention in mentions_of(p.thing for p in patches))
    prompts = [suffixed(caption, suffix) for caption in said]
    empty = np.empty((len(patches), CELL, CELL, 3), np.uint8)
    empty[:] = np.array([BACKGROUND_RGB[p.background] for p in patches])[:, None, None]
    hidden = np.zeros(empty.shape[:3], bool)
    hidden[:, BORDER:-BORDER, BORDER:-BORDER] = True
    seeds = [patch.seed for patch in patches]
    # Prompts are padded to this length; at the usual one, padding takes half of the time.
    longest = max(len(tokens) for tokens in pipeline.tokenizer(prompts)["input_ids"])
    fitted = {**options, "max_sequence_length": longest}
    yield from draw_pictures(pipeline, fitted, prompts, seeds, size=CELL, known=empty, hidden=hidden, **how)


def _composed(scene: Scene, seed: int, drawn: Mapping[Patch, Picture]) -> Picture:
    """Return the picture of a scene: its background, and its patches in their cells."""
    picture = np.empty((CANVAS, CANVAS, 3), np.uint8)
    picture[:] = BACKGROUND_RGB[scene.background]
    for thing in scene.things:
        picture[_cell(thing)] = drawn[_patch(thing, scene.background, seed)]
    return picture


def _cell(thing: Thing) -> tuple[slice, slice]:
    """Return the rows and columns of a thing's cell."""
    return (
        slice(thing.row * CELL, (thing.row + 1) * CELL),
        slice(thing.column * CELL, (thing.column + 1) * CELL),
    )
