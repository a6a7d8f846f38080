"""Sibling scenes: the same objects in other cells, or with their colours exchanged.

Beside its siblings a scene is told by where its objects are and which colour each has, as the objects are the same. A
contrastive batch that holds them asks for both; one of scenes that are drawn independently asks for neither, since the
objects alone tell almost every scene from all others.
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
    """Return a scene that is one change away from the first of its group, and what its caption says.

    The change is as often one of cells as one of colours, where colours can be exchanged at all.

    Args:
        rng: of the draws.
        group: the scenes so far; what is returned differs from all.
        may_stand: whether a scene may stand in the split.
        write_caption: says something of a scene; None: nothing that may stand in the split.

    Returns:
        None if none was found in ``TRIES`` draws: a single object has but three siblings, in its other cells.
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
    """Return the scene with its objects in random cells; these may be the old ones."""
    cells = rng.choice(GRID * GRID, size=len(scene.things), replace=False).tolist()
    objects = (
        replace(obj, row=cell // GRID, column=cell % GRID)
        for obj, cell in zip(scene.things, cells, strict=True)
    )
    return replace(scene, things=tuple(objects))


def swap_colours(rng: np.random.Generator, scene: Scene) -> Scene:
    """Return the scene with its colours exchanged among its objects; moved, if all have one colour."""
    colours = tuple(obj.colour for obj in scene.things)
    orders = sorted({*itertools.permutations(colours)} - {colours})
    if not orders:
        return move_objects(rng, scene)
    order = orders[int(rng.integers(len(orders)))]
    return replace(
        scene, things=tuple(replace(t, colour=colour) for t, colour in zip(scene.things, order, strict=True))
    )
