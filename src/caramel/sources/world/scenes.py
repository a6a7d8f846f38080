"""The embedded world: small scenes whose exact content is known.

A scene has one to three objects on a 2 × 2 grid of cells. Each object has a noun, a colour and a size. The
nouns of one scene are all different. Relations such as "left of" compare columns or rows of the grid
strictly, so each is either true or false of a scene. Positions such as "on the left" name the column or the
row of one object.

Some nouns have a typical colour, as in natural images (trees are mostly green). This makes text predictive,
and refinement must remove it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

NOUNS = ("ball", "egg", "box", "book", "ring", "wheel", "car", "van", "tree", "house", "boat", "cup")
_ALIKE = (
    ("ball", "egg"),
    ("box", "book"),
    ("ring", "wheel"),
    ("car", "van"),
)  # their icons differ in a few pixels
LOOK_ALIKE = {noun: other for a, b in _ALIKE for noun, other in ((a, b), (b, a))}
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
SIZES = ("small", "large")
RELATIONS = ("left", "right", "above", "below")
INVERSE = {"left": "right", "right": "left", "above": "below", "below": "above"}
GRID = 2
POSITIONS = ("left", "right", "top", "bottom")  # by column, then by row
MAX_OBJECTS = 3
TYPICAL_COLOUR = {
    "tree": "green",
    "ball": "orange",
    "boat": "blue",
    "ring": "pink",
    "wheel": "black",
    "car": "red",
    "cup": "yellow",
    "house": "purple",
}
BACKGROUNDS = ("white", "grey", "cream")


@dataclass(frozen=True)
class SceneObject:
    """One object of a scene. ``row`` and ``column`` count cells from the top left, in [0, 2)."""

    noun: str
    colour: str
    size: str
    row: int
    column: int


@dataclass(frozen=True)
class Scene:
    """The content of an image: its objects and the name of its plain background."""

    things: tuple[SceneObject, ...]
    background: str

    def to_json(self) -> str:
        """Return the scene as canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Scene:
        """Return the scene written by ``to_json``."""
        data = json.loads(text)
        return Scene(tuple(SceneObject(**t) for t in data["things"]), data["background"])


@dataclass(frozen=True)
class Mention:
    """One object as a caption mentions it; an attribute or position that is not mentioned is None.

    ``position`` is one of ``POSITIONS``: the column or the row of its cell.
    """

    noun: str
    colour: str | None = None
    size: str | None = None
    position: str | None = None


@dataclass(frozen=True)
class Relation:
    """A relation: ``mentions[subject]`` is ``predicate`` (left, right, above, below) of ``mentions[object]``."""

    subject: int
    predicate: str
    object: int


@dataclass(frozen=True)
class Meaning:
    """The meaning of a caption: mentioned objects and the relations between them; no positions beside relations."""

    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...] = ()

    def canonicalise(self) -> tuple[object, ...]:
        """Return a form that is equal for captions of equal meaning.

        "a left of b" equals "b right of a", and the order of mentions does not matter. Positions that imply a
        relation do not equal it: "a on the left and b on the right" uses more words and is another meaning.
        """
        order = sorted(range(len(self.mentions)), key=lambda i: repr(self.mentions[i]))
        rank = {old: new for new, old in enumerate(order)}
        relations = set()
        for r in self.relations:
            subject, predicate, object_ = rank[r.subject], r.predicate, rank[r.object]
            if predicate in ("right", "below"):
                subject, predicate, object_ = object_, INVERSE[predicate], subject
            relations.add((subject, predicate, object_))
        return tuple(self.mentions[i] for i in order), tuple(sorted(relations))


def has_relation(a: SceneObject, predicate: str, b: SceneObject) -> bool:
    """Return whether ``a`` is strictly ``predicate`` of ``b`` on the grid."""
    if predicate in ("left", "right"):
        return a.column < b.column if predicate == "left" else a.column > b.column
    return a.row < b.row if predicate == "above" else a.row > b.row


def list_positions(obj: SceneObject) -> tuple[str, str]:
    """Return the column and the row of an object's cell, as names in ``POSITIONS``."""
    return POSITIONS[obj.column], POSITIONS[GRID + obj.row]


def _is_match(mention: Mention, obj: SceneObject) -> bool:
    return (
        mention.noun == obj.noun
        and mention.colour in (None, obj.colour)
        and mention.size in (None, obj.size)
        and mention.position in (None, *list_positions(obj))
    )


def is_true_of_objects(meaning: Meaning, objects: tuple[SceneObject, ...], *, exactly: bool) -> bool:
    """Return whether the caption's meaning is true of the objects: the exact check.

    It is true if the mentions can be matched one to one to different objects such that all attributes,
    positions and relations hold.

    Args:
        meaning: the caption's meaning.
        objects: the objects in the image.
        exactly: whether the caption names all objects; then further objects make it false.
    """
    if exactly and len(objects) != len(meaning.mentions):
        return False
    return any(
        all(_is_match(m, t) for m, t in zip(meaning.mentions, chosen, strict=True))
        and all(has_relation(chosen[r.subject], r.predicate, chosen[r.object]) for r in meaning.relations)
        for chosen in _list_assignments(meaning.mentions, objects)
    )


def _list_assignments(
    mentions: Sequence[Mention], objects: Sequence[SceneObject]
) -> Iterable[tuple[SceneObject, ...]]:
    """Return the assignments of a different object to each mention.

    If the objects' nouns are unique, only the assignment by noun is possible.
    """
    by_noun = {obj.noun: obj for obj in objects}
    if len(by_noun) < len(objects):
        return itertools.permutations(objects, len(mentions))
    nouns = {mention.noun for mention in mentions}
    if len(nouns) < len(mentions) or not nouns <= by_noun.keys():
        return ()
    return (tuple(by_noun[mention.noun] for mention in mentions),)


def sample_scene(rng: np.random.Generator, *, num_objects: int, typical_color_prob: float) -> Scene:
    """Return a random scene of ``num_objects`` objects.

    Args:
        rng: source of randomness.
        num_objects: number of objects, in [1, 3].
        typical_color_prob: probability in [0, 1] that a noun with a typical colour has it.
    """
    nouns = rng.choice(len(NOUNS), size=num_objects, replace=False)
    cells = rng.choice(GRID * GRID, size=num_objects, replace=False)
    scene_objects = []
    for noun_index, cell in zip(nouns.tolist(), cells.tolist(), strict=True):
        noun = NOUNS[noun_index]
        colour = COLOURS[int(rng.integers(len(COLOURS)))]
        if noun in TYPICAL_COLOUR and rng.random() < typical_color_prob:
            colour = TYPICAL_COLOUR[noun]
        size = SIZES[int(rng.integers(len(SIZES)))]
        scene_objects.append(SceneObject(noun, colour, size, cell // GRID, cell % GRID))
    return Scene(tuple(scene_objects), BACKGROUNDS[int(rng.integers(len(BACKGROUNDS)))])


def sample_meaning(
    rng: np.random.Generator, objects: Sequence[SceneObject], *, absolute_positions: float = 0.0
) -> Meaning:
    """Return a random true meaning of one to three objects: all of them, and some of what is true of them.

    The meaning has some attributes, and some relations or positions.

    Relations hold between neighbouring mentions: first and second, third and second.

    Args:
        rng: source of randomness.
        objects: the mentioned objects.
        absolute_positions: probability in [0, 1] that each object gets its column or row, and there is no
            relation.
    """
    objects = [objects[i] for i in rng.permutation(len(objects)).tolist()]
    mentions = tuple(
        Mention(
            t.noun,
            t.colour if rng.random() < 0.9 else None,
            t.size if rng.random() < 0.35 else None,
        )
        for t in objects
    )
    if absolute_positions and rng.random() < absolute_positions:
        positions = [list_positions(t)[int(rng.integers(2))] for t in objects]
        return Meaning(tuple(replace(m, position=p) for m, p in zip(mentions, positions, strict=True)))
    relations: list[Relation] = []
    for subject, object_ in ((0, 1), (2, 1))[: len(objects) - 1]:
        if subject == 2 and (not relations or rng.random() < 0.5):
            continue
        if subject == 0 and rng.random() < 0.1:
            continue
        true = [k for k in RELATIONS if has_relation(objects[subject], k, objects[object_])]
        relations.append(Relation(subject, true[int(rng.integers(len(true)))], object_))
    return Meaning(mentions, tuple(relations))
