"""Whether a foil can be said in its place: a contrary of its two ends, a noun in its relations.

The rules were found by reading foils of real captions: "repairing baseball", "inside a little girl", "poses for the
radio". They need the meanings of the ends: the names of all that a noun is a kind of (WordNet's hypernyms).
"""

from __future__ import annotations

from typing import NamedTuple

from caramel.crepe.noun_lists import AMOUNTS, ENCLOSING, SUPPORTING
from caramel.crepe.predicate_contraries import INSIDE, ON_TOP, PREPOSITIONS, find_verb, has_posture_verb


class Meaning(NamedTuple):
    """What a noun names: all that it is a kind of, and whether it lives, is a person, or is first an activity."""

    names: frozenset[str]
    is_living: bool
    is_person: bool
    is_activity: bool  # "baseball" is also a ball


_HANDLED = frozenset(
    (
        "implement",
        "container",
        "electronic equipment",
        "machine",
        "game equipment",
        "sports equipment",
        "plaything",
    )
) | frozenset(("food", "tableware", "publication", "footwear", "board", "bag", "camera", "fruit"))
_WORN = frozenset(("clothing", "garment", "headdress", "footwear"))
_MACHINES = frozenset(
    ("wheeled vehicle", "motor vehicle", "machine", "electronic equipment", "home appliance")
)
# Verb of a contrary -> what its object is a kind of. Those that are not listed have any object.
OBJECTS: dict[str, frozenset[str]] = {
    "drop": _HANDLED,
    "throw": frozenset(("ball", "plaything", "disk", "game equipment", "fruit")),
    "push": frozenset(("wheeled vehicle", "furniture", "container")),
    "reach for": _HANDLED | _WORN,
    "repair": _MACHINES | frozenset(("board", "musical instrument", "furniture")),
    "wash": frozenset(("motor vehicle", "animal", "tableware", "vessel")),
    "carry": _WORN | frozenset(("board", "bicycle", "ski", "jewelry")),
    "fold": frozenset(("kite",)),
    "close": frozenset(("publication", "book")),
    "spill": frozenset(("beverage",)),
    "pour": frozenset(("beverage",)),
    "smell": frozenset(("food", "plant")),
    "lead": frozenset(("animal",)),
    "feed": frozenset(("animal",)),
    "scare": frozenset(("animal",)),
    "hide from": frozenset(("animal", "person")),
    "run from": frozenset(("animal", "person")),
    "omit": frozenset(),
}
# Only a person does these, and only what lives does any other verb, but for those of things.
OF_PERSONS = frozenset(
    (
        "drop",
        "throw",
        "reach for",
        "point at",
        "repair",
        "wash",
        "fold",
        "close",
        "spill",
        "pour",
        "lead",
        "feed",
    )
)
OF_THINGS = frozenset(("lack", "hide", "surround", "support", "reveal"))
BELOW = frozenset(("under", "below", "beneath", "underneath"))
_SHELTERS = frozenset(("table", "desk", "tree", "bridge", "canopy", "roof"))
_OPEN = frozenset(("furniture", "bicycle", "motorcycle", "board"))  # nothing is inside them
_ABOVE = frozenset(("above", "over"))
_DISTANT = frozenset(("far from", "away from"))
_ABSENT = frozenset(("lacking", "missing", "is missing"))
# Relations that many things have. Others, such as "poses for", bind their noun.
_GENERAL_VERBS = frozenset(("hold", "carry", "watch", "look at", "face", "wear", "eat", "have", "contain"))
_GENERAL = frozenset((*PREPOSITIONS, "and")) - BELOW - {"at"}


def can_say(contrary: str, subject: Meaning, other: Meaning) -> bool:
    """Return whether a contrary can be said of its ends.

    Args:
        contrary: a verb in its base form, with its preposition, or a preposition or participle.
        subject, other: what the ends name.
    """
    if contrary in _ABSENT:
        return not subject.is_living
    if find_verb(contrary) is None:
        return _is_place_fit(contrary, subject, other)
    if contrary in ("sit", "lie"):
        return "bird" not in subject.names
    if other.is_activity and contrary != "watch":
        return False
    if contrary in OBJECTS and not OBJECTS[contrary] & other.names:
        return False
    if subject.is_person:
        return True
    if subject.is_living:
        return contrary not in OF_PERSONS
    return contrary in OF_THINGS


def _is_place_fit(contrary: str, subject: Meaning, other: Meaning) -> bool:
    """Return whether a place, or a participle, can be said of its ends."""
    if contrary in INSIDE:
        return not other.is_living and bool(other.names & ENCLOSING) and not other.names & _OPEN
    if contrary in ("outside", "outside of"):
        return bool(other.names & ENCLOSING) and not other.names & _OPEN
    if contrary == "removed from":
        return False
    if contrary in ON_TOP:
        return not other.is_living and bool(other.names & SUPPORTING - {"food"})
    if contrary in BELOW:
        return bool(other.names & _SHELTERS)
    if contrary in _ABOVE:
        return not subject.is_living
    if contrary in ("beside", "behind"):
        return not other.names & {"room", "tract"}
    if contrary in _DISTANT:
        return not {"food", "body part", "tract", "room"} & other.names and (
            subject.is_living or not other.is_living
        )
    return contrary not in ("off", "has lost") or (subject.is_person and "vehicle" in other.names)


def may_replace_noun(
    relations: tuple[tuple[str, str, str], ...], noun: Meaning, known: frozenset[str]
) -> bool:
    """Return whether a noun's relations and attributes would be said of other things of its use, too.

    Args:
        relations: subject, predicate and object, with the empty word for the noun itself; an attribute is the object of
            "is".
        noun: what the noun names.
        known: attributes that many things have, such as colours.
    """
    for subject, predicate, other in relations:
        if predicate == "is" and other not in known:
            return False
        if predicate == "of":
            if not subject or subject not in AMOUNTS:
                return False
        elif predicate != "is" and not (noun.is_living and not subject) and not _is_general(predicate):
            return False
    return True


def _is_general(predicate: str) -> bool:
    if has_posture_verb(predicate):
        return predicate.partition(" ")[2] in _GENERAL
    return predicate in _GENERAL or find_verb(predicate) in _GENERAL_VERBS
