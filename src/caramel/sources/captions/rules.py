"""The hard negatives of the embedded world: one rule for each subtype, on what a caption says.

The seven subtypes of SugarCrepe (``obj`` nouns, ``att`` adjectives, ``rel`` spatial relations and positions) and ``only_obj``,
each one change away from the caption. Whether what comes out is false of the picture is another's to check.
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
# Another caption in the same form, or the reason why there is none.
Rule = Callable[[Reading, Rng], Reading | str]
HARD = 0.9  # chance that a noun that has a look-alike is replaced by it
ATTRIBUTES = {"colour": COLOURS, "size": SIZES}


def _pick(rng: Rng, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _with_mentions(said: Reading, mentions: Mapping[int, Mention]) -> Reading:
    """Return the caption with some of its mentions, but not its tail, replaced."""
    new = tuple(mentions.get(i, m) for i, m in enumerate(said.meaning.mentions))
    return replace(said, meaning=replace(said.meaning, mentions=new))


def _new_noun(said: Reading, rng: Rng) -> str:
    known = {m.noun for m in said.whole.mentions}
    return _pick(rng, [n for n in NOUNS if n not in known])


def replace_obj(said: Reading, rng: Rng) -> Reading | str:
    """Replace one noun by one that the caption does not hold: mostly by its look-alike, where it has one."""
    mentions = said.meaning.mentions
    index = int(rng.integers(len(mentions)))
    return _with_mentions(
        said, {index: replace(mentions[index], noun=_other_noun(said, mentions[index].noun, rng))}
    )


def _other_noun(said: Reading, noun: str, rng: Rng) -> str:
    """Return what replaces a noun.

    Nouns with a look-alike replace each other alone, and so do those without: so none is more frequent among negatives.
    """
    known = {m.noun for m in said.whole.mentions}
    alike = LOOK_ALIKE.get(noun)
    if alike is not None and alike not in known and rng.random() < HARD:
        return alike
    return _pick(rng, [n for n in NOUNS if n not in known and (n in LOOK_ALIKE) == (alike is not None)])


def replace_att(said: Reading, rng: Rng) -> Reading | str:
    """Replace one colour or size by another."""
    mentions = said.meaning.mentions
    options = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if getattr(m, k)]
    if not options:
        return "no attribute in the caption"
    index, kind = options[int(rng.integers(len(options)))]
    new = _pick(rng, [w for w in ATTRIBUTES[kind] if w != getattr(mentions[index], kind)])
    return _with_mentions(said, {index: _with_attribute(mentions[index], kind, new)})


def replace_rel(said: Reading, rng: Rng) -> Reading | str:
    """Replace one spatial relation, or one position, by another."""
    relations = list(said.meaning.relations)
    if not relations:
        return _replace_position(said, rng)
    index = int(rng.integers(len(relations)))
    kind = _pick(rng, [k for k in RELATIONS if k != relations[index].kind])
    relations[index] = replace(relations[index], kind=kind)
    return replace(said, meaning=replace(said.meaning, relations=tuple(relations)))


def _replace_position(said: Reading, rng: Rng) -> Reading | str:
    mentions = said.meaning.mentions
    options = [i for i, m in enumerate(mentions) if m.position]
    if not options:
        return "no relation in the caption"
    index = options[int(rng.integers(len(options)))]
    new = _pick(rng, [p for p in POSITIONS if p != mentions[index].position])
    return _with_mentions(said, {index: replace(mentions[index], position=new)})


def swap_obj(said: Reading, rng: Rng) -> Reading | str:
    """Exchange the two objects of one relation, or of two positions, attributes and all."""
    mentions = said.meaning.mentions
    options = list_related_mentions(said)
    if not options:
        has_positions = any(m.position for m in mentions)
        return "no two different positions in the caption" if has_positions else "no relation in the caption"
    a, b = options[int(rng.integers(len(options)))]
    first, second = mentions[a].position, mentions[b].position
    return _with_mentions(
        said, {a: replace(mentions[b], position=first), b: replace(mentions[a], position=second)}
    )


def list_related_mentions(said: Reading) -> list[tuple[int, int]]:
    """Return the indices of each two mentions of which a relation or two different positions are said."""
    mentions = said.meaning.mentions
    related = [(r.subject, r.object) for r in said.meaning.relations]
    positions = [(i, m.position) for i, m in enumerate(mentions) if m.position]
    return related + [(a, b) for (a, p), (b, q) in itertools.combinations(positions, 2) if p != q]


def swap_att(said: Reading, rng: Rng) -> Reading | str:
    """Exchange attributes of one kind between two objects."""
    mentions = said.meaning.mentions
    options = [
        (a, b, kind)
        for a in range(len(mentions))
        for b in range(a)
        for kind in ATTRIBUTES
        if getattr(mentions[a], kind)
        and getattr(mentions[b], kind)
        and getattr(mentions[a], kind) != getattr(mentions[b], kind)
    ]
    if not options:
        return "no two objects with different attributes of one kind"
    a, b, kind = options[int(rng.integers(len(options)))]
    first, second = getattr(mentions[a], kind), getattr(mentions[b], kind)
    swapped = {a: _with_attribute(mentions[a], kind, second), b: _with_attribute(mentions[b], kind, first)}
    return _with_mentions(said, swapped)


def add_obj(said: Reading, rng: Rng) -> Reading | str:
    """Add one more object, said in a tail."""
    if said.added or said.alone:
        return "the caption has a tail already"
    if len(said.meaning.mentions) >= MAX_OBJECTS:
        return f"the caption has {MAX_OBJECTS} objects already"
    colour = _pick(rng, list(COLOURS)) if rng.random() < 0.85 else None
    size = _pick(rng, list(SIZES)) if rng.random() < 0.35 else None
    return replace(said, added=Mention(_new_noun(said, rng), colour, size))


def add_att(said: Reading, rng: Rng) -> Reading | str:
    """Add a colour or a size to an object that has none in the caption."""
    mentions = said.meaning.mentions
    unsaid = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if not getattr(m, k)]
    if not unsaid:
        return "every object has all its attributes"
    index, kind = unsaid[int(rng.integers(len(unsaid)))]
    new = _pick(rng, list(ATTRIBUTES[kind]))
    return _with_mentions(said, {index: _with_attribute(mentions[index], kind, new)})


def only_obj(said: Reading, rng: Rng) -> Reading | str:
    """Say of what is there that nothing else is, or one object more in as many words; both ways are as frequent.

    What *add* is meant to test without what gives it away: neither caption is longer, and neither is true of both pictures.
    """
    if said.alone:
        return replace(said, alone=False, added=Mention(_new_noun(said, rng)))
    if said.added and said.added == Mention(said.added.noun):
        return replace(said, added=None, alone=True)
    return "no tail that says what else is there"


def _with_attribute(mention: Mention, kind: str, word: str | None) -> Mention:
    return replace(mention, colour=word) if kind == "colour" else replace(mention, size=word)


RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
    "only_obj": only_obj,
}
