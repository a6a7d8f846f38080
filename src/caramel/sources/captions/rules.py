"""Write the hard negatives of the embedded world: one rule for each subtype, applied to a caption's meaning.

The subtypes are the seven of SugarCrepe (``obj`` nouns, ``att`` adjectives, ``rel`` spatial relations and
positions) and ``only_obj``. Each negative differs from its caption by one change. Whether it is false of the
image is checked elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from caramel.sources.world.grammar import Reading
from caramel.sources.world.scenes import (
    COLOURS,
    LOOK_ALIKE,
    MAX_OBJECTS,
    NOUNS,
    POSITIONS,
    RELATIONS,
    SIZES,
    Mention,
)

Rng = np.random.Generator
# Another caption in the same form, or the reason why none is possible.
Rule = Callable[[Reading, Rng], Reading | str]
HARD = 0.9  # probability that a noun with a look-alike is replaced by it
ATTRIBUTES = {"colour": COLOURS, "size": SIZES}


def _draw_word(rng: Rng, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _replace_mentions(reading: Reading, mentions: Mapping[int, Mention]) -> Reading:
    """Return the caption with some mentions replaced; the tail stays."""
    new = tuple(mentions.get(i, m) for i, m in enumerate(reading.meaning.mentions))
    return replace(reading, meaning=replace(reading.meaning, mentions=new))


def _draw_new_noun(reading: Reading, rng: Rng) -> str:
    known = {m.noun for m in reading.whole.mentions}
    return _draw_word(rng, [n for n in NOUNS if n not in known])


def replace_obj(reading: Reading, rng: Rng) -> Reading | str:
    """Replace one noun by one that is not in the caption: mostly by its look-alike, where it has one."""
    mentions = reading.meaning.mentions
    index = int(rng.integers(len(mentions)))
    return _replace_mentions(
        reading, {index: replace(mentions[index], noun=_draw_other_noun(reading, mentions[index].noun, rng))}
    )


def _draw_other_noun(reading: Reading, noun: str, rng: Rng) -> str:
    """Return the replacement of a noun.

    Nouns with a look-alike replace only each other, and so do nouns without one. No group is therefore more
    frequent among negatives.
    """
    known = {m.noun for m in reading.whole.mentions}
    alike = LOOK_ALIKE.get(noun)
    if alike is not None and alike not in known and rng.random() < HARD:
        return alike
    return _draw_word(rng, [n for n in NOUNS if n not in known and (n in LOOK_ALIKE) == (alike is not None)])


def replace_att(reading: Reading, rng: Rng) -> Reading | str:
    """Replace one colour or size by another."""
    mentions = reading.meaning.mentions
    options = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if getattr(m, k)]
    if not options:
        return "no attribute in the caption"
    index, attribute = options[int(rng.integers(len(options)))]
    new = _draw_word(rng, [w for w in ATTRIBUTES[attribute] if w != getattr(mentions[index], attribute)])
    return _replace_mentions(reading, {index: _set_attribute(mentions[index], attribute, new)})


def replace_rel(reading: Reading, rng: Rng) -> Reading | str:
    """Replace one spatial relation, or one position, by another."""
    relations = list(reading.meaning.relations)
    if not relations:
        return _replace_position(reading, rng)
    index = int(rng.integers(len(relations)))
    relation = _draw_word(rng, [k for k in RELATIONS if k != relations[index].predicate])
    relations[index] = replace(relations[index], predicate=relation)
    return replace(reading, meaning=replace(reading.meaning, relations=tuple(relations)))


def _replace_position(reading: Reading, rng: Rng) -> Reading | str:
    mentions = reading.meaning.mentions
    options = [i for i, m in enumerate(mentions) if m.position]
    if not options:
        return "no relation in the caption"
    index = options[int(rng.integers(len(options)))]
    new = _draw_word(rng, [p for p in POSITIONS if p != mentions[index].position])
    return _replace_mentions(reading, {index: replace(mentions[index], position=new)})


def swap_obj(reading: Reading, rng: Rng) -> Reading | str:
    """Exchange the two objects of one relation, or of two positions, together with their attributes."""
    mentions = reading.meaning.mentions
    options = list_related_mentions(reading)
    if not options:
        has_positions = any(m.position for m in mentions)
        return "no two different positions in the caption" if has_positions else "no relation in the caption"
    a, b = options[int(rng.integers(len(options)))]
    first, second = mentions[a].position, mentions[b].position
    return _replace_mentions(
        reading, {a: replace(mentions[b], position=first), b: replace(mentions[a], position=second)}
    )


def list_related_mentions(reading: Reading) -> list[tuple[int, int]]:
    """Return the indices of every two mentions that have a relation or two different positions."""
    mentions = reading.meaning.mentions
    related = [(r.subject, r.object) for r in reading.meaning.relations]
    positions = [(i, m.position) for i, m in enumerate(mentions) if m.position]
    return related + [(a, b) for (a, p), (b, q) in itertools.combinations(positions, 2) if p != q]


def swap_att(reading: Reading, rng: Rng) -> Reading | str:
    """Exchange attributes of one kind between two objects."""
    mentions = reading.meaning.mentions
    options = [
        (a, b, attribute)
        for a in range(len(mentions))
        for b in range(a)
        for attribute in ATTRIBUTES
        if getattr(mentions[a], attribute)
        and getattr(mentions[b], attribute)
        and getattr(mentions[a], attribute) != getattr(mentions[b], attribute)
    ]
    if not options:
        return "no two objects with different attributes of one kind"
    a, b, attribute = options[int(rng.integers(len(options)))]
    first, second = getattr(mentions[a], attribute), getattr(mentions[b], attribute)
    swapped = {
        a: _set_attribute(mentions[a], attribute, second),
        b: _set_attribute(mentions[b], attribute, first),
    }
    return _replace_mentions(reading, swapped)


def add_obj(reading: Reading, rng: Rng) -> Reading | str:
    """Add one object in a tail."""
    if reading.added or reading.alone:
        return "the caption has a tail already"
    if len(reading.meaning.mentions) >= MAX_OBJECTS:
        return f"the caption has {MAX_OBJECTS} objects already"
    colour = _draw_word(rng, list(COLOURS)) if rng.random() < 0.85 else None
    size = _draw_word(rng, list(SIZES)) if rng.random() < 0.35 else None
    return replace(reading, added=Mention(_draw_new_noun(reading, rng), colour, size))


def add_att(reading: Reading, rng: Rng) -> Reading | str:
    """Add a colour or a size to an object that lacks one in the caption."""
    mentions = reading.meaning.mentions
    unsaid = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if not getattr(m, k)]
    if not unsaid:
        return "every object has all its attributes"
    index, attribute = unsaid[int(rng.integers(len(unsaid)))]
    new = _draw_word(rng, list(ATTRIBUTES[attribute]))
    return _replace_mentions(reading, {index: _set_attribute(mentions[index], attribute, new)})


def flip_only_obj(reading: Reading, rng: Rng) -> Reading | str:
    """Replace a tail "nothing else" by one that names another object, or the reverse; both are equally frequent.

    This tests what *add* is meant to test, without its artifact: both captions are equally long, and neither
    is true of both images.
    """
    if reading.alone:
        return replace(reading, alone=False, added=Mention(_draw_new_noun(reading, rng)))
    if reading.added and reading.added == Mention(reading.added.noun):
        return replace(reading, added=None, alone=True)
    return "no tail that says what else is there"


def _set_attribute(mention: Mention, attribute: str, word: str | None) -> Mention:
    return replace(mention, colour=word) if attribute == "colour" else replace(mention, size=word)


RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
    "only_obj": flip_only_obj,
}
