"""Sample sibling scenes: the same objects in other cells, or with their colours exchanged.

Among its siblings, a scene is identified by the cells and colours of its objects, because the objects are the
same. A contrastive batch with siblings therefore requires both. A batch of independent scenes requires
neither, because the objects alone distinguish almost every scene from all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from caramel.sources.world.grammar import Reading
from caramel.sources.world.scenes import GRID, Scene

TRIES = 20  # draws of a sibling, before its group ends


def sample_sibling(
    rng: np.random.Generator,
    group: Sequence[Scene],
    may_stand: Callable[[Scene], bool],
    write_caption: Callable[[Scene], Reading | None],
) -> tuple[Scene, Reading] | None:
    """Return a scene that is one change away from the first of its group, and the reading of its caption.

    Changes of cells and of colours are equally likely, if colours can be exchanged at all.

    Args:
        rng: random generator.
        group: the scenes so far; the returned scene differs from all of them.
        may_stand: whether a scene is allowed in the split.
        write_caption: returns the reading of a caption of a scene; None if no caption is allowed in the
            split.

    Returns:
        None if ``TRIES`` draws gave none: a single object has only three siblings, in the other cells.
    """
    for _ in range(TRIES):
        change = (move_objects, swap_colours)[int(rng.integers(2))]
        scene = change(rng, group[0])
        if scene in group or not may_stand(scene):
            continue
        reading = write_caption(scene)
        if reading is not None:
            return scene, reading
    return None


def move_objects(rng: np.random.Generator, scene: Scene) -> Scene:
    """Return the scene with its objects in random cells, possibly the old ones."""
    cells = rng.choice(GRID * GRID, size=len(scene.things), replace=False).tolist()
    objects = (
        replace(obj, row=cell // GRID, column=cell % GRID)
        for obj, cell in zip(scene.things, cells, strict=True)
    )
    return replace(scene, things=tuple(objects))


def swap_colours(rng: np.random.Generator, scene: Scene) -> Scene:
    """Return the scene with its colours exchanged among its objects.

    If all objects have one colour, they are moved instead.
    """
    colours = tuple(obj.colour for obj in scene.things)
    orders = sorted({*itertools.permutations(colours)} - {colours})
    if not orders:
        return move_objects(rng, scene)
    order = orders[int(rng.integers(len(orders)))]
    return replace(
        scene, things=tuple(replace(t, colour=colour) for t, colour in zip(scene.things, order, strict=True))
    )
