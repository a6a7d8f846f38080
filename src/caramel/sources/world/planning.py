"""Plan a scene for a negative caption that is as close as possible to the positive scene."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from caramel.sources.world.compounds import Compound, assign_split, has_only_allowed_compounds
from caramel.sources.world.grammar import Reading
from caramel.sources.world.scenes import (
    BACKGROUNDS,
    COLOURS,
    GRID,
    SIZES,
    Meaning,
    Mention,
    Relation,
    Scene,
    SceneObject,
    has_relation,
    is_true_of_objects,
    list_positions,
)

Cell = tuple[int, int]  # row and column, from the top left
CELLS: tuple[Cell, ...] = tuple(itertools.product(range(GRID), range(GRID)))
Look = tuple[str, str]  # colour and size of an object


def plan_scene(
    negative: Reading,
    positive: Reading,
    scene: Scene,
    rng: np.random.Generator,
    may_stand: Callable[[Scene], bool],
) -> Scene | None:
    """Return a scene of which the negative caption is exactly true, on the same background.

    The scene is chosen among the allowed scenes by these criteria, in this order; ties are broken at random:

    1. fewest objects that the positive scene does not have;
    2. fewest changes of attributes that the caption leaves open. An attribute should keep the value that the
       object had, or that the object had which it replaces;
    3. the positive caption is false, if possible;
    4. fewest changed cells.

    Args:
        negative: the caption to draw; its nouns are all different.
        positive: the caption of ``scene``.
        scene: the positive scene.
        rng: breaks ties, and draws attributes that nothing else determines.
        may_stand: whether a scene is allowed; None is returned if no scene of the caption is.
    """
    meaning = negative.whole
    default_looks = _choose_looks(meaning.mentions, positive.whole.mentions, scene, rng)
    before = {(t.noun, t.colour, t.size) for t in scene.things}

    def count_changes(looks: tuple[Look, ...]) -> tuple[int, int]:
        objects = {(m.noun, *look) for m, look in zip(meaning.mentions, looks, strict=True)}
        values = zip(itertools.chain(*looks), itertools.chain(*default_looks), strict=True)
        return len(objects - before), sum(a != b for a, b in values)

    def measure_distance(other: Scene) -> tuple[bool, int]:
        return is_true_of_objects(positive.whole, other.things, exactly=True), len(
            find_changed_cells(scene, other.things)
        )

    for _, equal in itertools.groupby(sorted(_iter_looks(meaning), key=count_changes), key=count_changes):
        scenes = [
            Scene(placed, scene.background) for looks in equal for placed in _iter_placements(meaning, looks)
        ]
        allowed = [scenes[i] for i in rng.permutation(len(scenes)).tolist() if may_stand(scenes[i])]
        if allowed:
            nearest: Scene = min(allowed, key=measure_distance)
            return nearest
    return None


def can_be_shown(
    meaning: Meaning, split: str, kept_out: frozenset[Compound], unless: Meaning | None = None
) -> bool:
    """Return whether an image of exactly the mentioned objects may be in a split, and makes ``unless`` false.

    See ``compounds.is_allowed_in_split``. ``unless`` is another caption that must not be exactly true of the
    image.
    """
    for looks in _iter_looks(meaning):
        full = (Mention(m.noun, *look) for m, look in zip(meaning.mentions, looks, strict=True))
        if assign_split(full) == split:  # does not depend on the positions
            placed = (
                t
                for t in _iter_placements(meaning, looks)
                if unless is None or not is_true_of_objects(unless, t, exactly=True)
            )
            scenes = (Scene(objects, BACKGROUNDS[0]) for objects in placed)
            if any(has_only_allowed_compounds(scene, split, kept_out) for scene in scenes):
                return True
    return False


def _iter_looks(meaning: Meaning) -> Iterator[tuple[Look, ...]]:
    """Yield all combinations of looks of the mentioned objects."""
    options = [
        itertools.product([m.colour] if m.colour else COLOURS, [m.size] if m.size else SIZES)
        for m in meaning.mentions
    ]
    return itertools.product(*options)


def _iter_placements(meaning: Meaning, looks: Sequence[Look]) -> Iterator[tuple[SceneObject, ...]]:
    """Yield the objects in all placements in which the relations and positions hold."""
    for cells in find_layouts(meaning):
        yield tuple(
            _thing(m.noun, *look, *cell) for m, look, cell in zip(meaning.mentions, looks, cells, strict=True)
        )


_thing = functools.cache(SceneObject)  # there are a few hundred


def _choose_looks(
    mentions: Sequence[Mention], replaced: Sequence[Mention], scene: Scene, rng: np.random.Generator
) -> tuple[Look, ...]:
    """Return the look of each mentioned object with the fewest changes.

    It has the caption's attributes, else the old ones. The old attributes are those of the scene's object of
    that noun, or of the object at that index in the positive caption. Where there is neither, they are drawn
    at random.
    """
    looks = {t.noun: (t.colour, t.size) for t in scene.things}
    chosen = []
    for mention, other in itertools.zip_longest(mentions, replaced[: len(mentions)]):
        drawn = COLOURS[int(rng.integers(len(COLOURS)))], SIZES[int(rng.integers(len(SIZES)))]
        had = looks.get(mention.noun) or (looks.get(other.noun) if other else None) or drawn
        chosen.append((mention.colour or had[0], mention.size or had[1]))
    return tuple(chosen)


def find_layouts(meaning: Meaning) -> tuple[tuple[Cell, ...], ...]:
    """Return all placements of the mentioned objects in which relations and positions hold; there may be none.

    For example, "a above b, and b above c" needs three rows, and three objects on the left need three cells
    there.
    """
    return _list_layouts(tuple(m.position for m in meaning.mentions), meaning.relations)


@functools.cache
def _list_layouts(
    positions: tuple[str | None, ...], relations: tuple[Relation, ...]
) -> tuple[tuple[Cell, ...], ...]:
    nowhere = ("", "", "")
    objects = [SceneObject(*nowhere, *cell) for cell in CELLS]
    return tuple(
        tuple((t.row, t.column) for t in arrangement)
        for arrangement in itertools.permutations(objects, len(positions))
        if all(p in (None, *list_positions(t)) for p, t in zip(positions, arrangement, strict=True))
        and all(has_relation(arrangement[r.subject], r.predicate, arrangement[r.object]) for r in relations)
    )


def find_changed_cells(scene: Scene, objects: tuple[SceneObject, ...]) -> set[Cell]:
    """Return the (row, column) of all cells that differ."""
    return {(t.row, t.column) for t in {*scene.things} ^ {*objects}}
