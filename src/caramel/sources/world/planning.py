"""A scene for a negative caption, as close to the positive scene as can be: which cells change, and to what."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from caramel.sources.world.compounds import Compound, shows_none, split_of
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
    Thing,
    holds,
    list_positions,
    related,
)

Cell = tuple[int, int]  # row and column, from the top left
CELLS: tuple[Cell, ...] = tuple(itertools.product(range(GRID), range(GRID)))
Look = tuple[str, str]  # colour and size of an object


def plan(
    negative: Reading,
    positive: Reading,
    scene: Scene,
    rng: np.random.Generator,
    may_stand: Callable[[Scene], bool],
) -> Scene | None:
    """Return a scene of which the negative caption is exactly true, on the same background.

    Of all scenes that may stand, one is drawn from those that have the fewest other objects than the positive scene;
    of these, from those that give the fewest of what is not said of an object another value than it had, or than the
    object had that it replaces; of these, from those that leave the positive caption false, where there are any, and
    change the fewest cells.

    Args:
        negative: what the caption to draw says; its nouns are all different.
        positive: what is said of ``scene``.
        scene: the positive scene.
        rng: draws among equals, and what nothing else says.
        may_stand: whether a picture may show a scene; None is returned where it may show none that the caption says.
    """
    said = negative.whole
    kept = _kept(said.mentions, positive.whole.mentions, scene, rng)
    before = {(t.noun, t.colour, t.size) for t in scene.things}

    def changed(looks: tuple[Look, ...]) -> tuple[int, int]:
        objects = {(m.noun, *look) for m, look in zip(said.mentions, looks, strict=True)}
        values = zip(itertools.chain(*looks), itertools.chain(*kept), strict=True)
        return len(objects - before), sum(a != b for a, b in values)

    def distance(other: Scene) -> tuple[bool, int]:
        return holds(positive.whole, other.things, exactly=True), len(changed_cells(scene, other.things))

    for _, equal in itertools.groupby(sorted(_looks(said), key=changed), key=changed):
        found = [Scene(things, scene.background) for looks in equal for things in _placed(said, looks)]
        allowed = [found[i] for i in rng.permutation(len(found)).tolist() if may_stand(found[i])]
        if allowed:
            nearest: Scene = min(allowed, key=distance)
            return nearest
    return None


def can_be_shown(
    said: Meaning, split: str, kept_out: frozenset[Compound], unless: Meaning | None = None
) -> bool:
    """Return whether a picture of just the objects that are said may stand in a split (``compounds.belongs``).

    And is one of which another caption, ``unless``, is not exactly true.
    """
    for looks in _looks(said):
        full = (Mention(m.noun, *look) for m, look in zip(said.mentions, looks, strict=True))
        if split_of(full) == split:  # the same in all places
            placed = (t for t in _placed(said, looks) if unless is None or not holds(unless, t, exactly=True))
            scenes = (Scene(things, BACKGROUNDS[0]) for things in placed)
            if any(shows_none(scene, split, kept_out) for scene in scenes):
                return True
    return False


def _looks(said: Meaning) -> Iterator[tuple[Look, ...]]:
    """Yield all ways that the mentioned objects can look."""
    each = [
        itertools.product([m.colour] if m.colour else COLOURS, [m.size] if m.size else SIZES)
        for m in said.mentions
    ]
    return itertools.product(*each)


def _placed(said: Meaning, looks: Sequence[Look]) -> Iterator[tuple[Thing, ...]]:
    """Yield the objects in all places in which the relations and positions hold."""
    for cells in layouts(said):
        yield tuple(
            _thing(m.noun, *look, *cell) for m, look, cell in zip(said.mentions, looks, cells, strict=True)
        )


_thing = functools.cache(Thing)  # there are a few hundred


def _kept(
    said: Sequence[Mention], replaced: Sequence[Mention], scene: Scene, rng: np.random.Generator
) -> tuple[Look, ...]:
    """Return the look of each mentioned object that changes the least: what is said, else what it had.

    What no object of the scene had is drawn: neither one of that name, nor the one at that place of the positive caption.
    """
    looks = {t.noun: (t.colour, t.size) for t in scene.things}
    kept = []
    for mention, other in itertools.zip_longest(said, replaced[: len(said)]):
        drawn = COLOURS[int(rng.integers(len(COLOURS)))], SIZES[int(rng.integers(len(SIZES)))]
        had = looks.get(mention.noun) or (looks.get(other.noun) if other else None) or drawn
        kept.append((mention.colour or had[0], mention.size or had[1]))
    return tuple(kept)


def layouts(said: Meaning) -> tuple[tuple[Cell, ...], ...]:
    """Return all ways to put the mentioned objects into cells such that relations and positions hold; there may be none.

    "a above b, and b above c" needs three rows, three objects on the left need three cells there.
    """
    return _list_layouts(tuple(m.position for m in said.mentions), said.relations)


@functools.cache
def _list_layouts(
    positions: tuple[str | None, ...], relations: tuple[Relation, ...]
) -> tuple[tuple[Cell, ...], ...]:
    nowhere = ("", "", "")
    objects = [Thing(*nowhere, *cell) for cell in CELLS]
    return tuple(
        tuple((t.row, t.column) for t in things)
        for things in itertools.permutations(objects, len(positions))
        if all(p in (None, *list_positions(t)) for p, t in zip(positions, things, strict=True))
        and all(related(things[r.subject], r.kind, things[r.object]) for r in relations)
    )


def changed_cells(scene: Scene, things: tuple[Thing, ...]) -> set[Cell]:
    """Return the (row, column) of all cells that do not show the same in both."""
    return {(t.row, t.column) for t in {*scene.things} ^ {*things}}
