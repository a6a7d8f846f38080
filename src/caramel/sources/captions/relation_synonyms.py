"""Kept lists of relations that say the same, or one of which says less than the other, in captions of images.

A relation is read as a verb and a preposition, either of which may be missing: "sitting next to", "riding",
"on top of". WordNet has no prepositions, and the first senses of its verbs are seldom those of captions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from caramel.sources.captions.phrases import ARTICLES
from caramel.sources.captions.words import INVERSE

AUXILIARIES = frozenset(("is", "are", "was", "were", "be", "been", "being", "am"))
# Prepositions of one line say the same of two things in an image.
SAME_PREPOSITIONS = (
    ("next to", "beside", "alongside", "by", "by side of", "at side of", "to side of", "adjacent to"),
    ("near", "near to", "close to", "nearby", "close by", "in vicinity of"),
    ("on", "upon", "onto", "on top of", "atop", "on surface of"),
    ("under", "underneath", "beneath", "below"),
    ("above", "over"),
    ("in front of", "before"),
    ("behind", "in back of", "at back of"),
    ("in", "inside", "inside of", "within", "into"),
    ("outside", "outside of"),
    ("to left of", "on left of", "left of", "on left side of", "to left side of"),
    ("to right of", "on right of", "right of", "on right side of", "to right side of"),
    ("across", "across from", "opposite", "opposite of"),
    ("around", "round"),
    ("through", "thru"),
    ("among", "amongst", "amid"),
    ("between", "in between"),
    ("toward", "towards"),
    ("far from", "far away from", "away from"),
    ("with",),
)
# Preposition -> others that are true wherever it is.
WEAKER_PREPOSITIONS = {
    "next to": ("near", "with"),
    "to left of": ("near",),
    "to right of": ("near",),
    "in front of": ("near",),
    "behind": ("near",),
}
# Verbs of one line, in their basic form, say the same.
SAME_VERBS = (
    ("sit", "seat"),
    ("lie", "lay", "recline"),
    ("hold", "carry", "grasp", "grip", "clutch"),
    ("look", "gaze", "stare", "watch", "glance", "peer"),
    ("walk", "stroll"),
    ("run", "jog", "sprint"),
    ("jump", "leap"),
    ("show", "display", "depict"),
    ("cover", "coat"),
    ("eat", "munch", "chew"),
    ("talk", "speak", "chat"),
    ("grab", "take"),
    ("make", "prepare"),
)
# Verb -> others that are true wherever it is.
WEAKER_VERBS = {
    "run": ("move",),
    "walk": ("move",),
    "drive": ("move", "travel"),
    "ride": ("sit",),
    "sleep": ("lie", "rest"),
    "lie": ("rest",),
    "sit": ("rest",),
}
# Verbs after which a preposition tells where something is, so that the preposition alone is true, too.
PLACING = frozenset(
    (
        *("sit", "stand", "lie", "rest", "hang", "park", "place", "set", "lean", "perch", "wait", "pose"),
        *("walk", "run", "ride", "drive", "fly", "float", "swim", "travel", "move", "jump", "climb"),
        *("play", "sleep", "graze", "eat", "cook", "crouch", "kneel", "huddle", "gather", "stack", "grow"),
        *("show", "locate", "position", "situate", "work", "skate", "ski", "surf"),
    )
)
# Irregular forms, and words whose ending only looks like one of a verb.
VERB_FORMS = {
    **{"sat": "sit", "stood": "stand", "lying": "lie", "laid": "lay", "lain": "lie", "held": "hold"},
    **{"wore": "wear", "worn": "wear", "rode": "ride", "ridden": "ride", "ran": "run", "ate": "eat"},
    **{"eaten": "eat", "drove": "drive", "driven": "drive", "flew": "fly", "flown": "fly", "hung": "hang"},
    **{"lay": "lie", "laying": "lie", "lays": "lie", "took": "take", "taken": "take", "made": "make"},
    **{"shown": "show", "swam": "swim", "threw": "throw", "thrown": "throw", "caught": "catch"},
    **{"slept": "sleep", "spoke": "speak", "seated": "sit", "dressed": "dress", "covered": "cover"},
}
PHRASES = {"dressed in": "wearing", "clothed in": "wearing", "full of": "filled with"}
# Participles after which "by" tells where something is; after others, such as "surrounded", it does not.
PLACED = frozenset(
    ("seated", "parked", "placed", "positioned", "located", "situated", "stood", "sat", "laid")
)
# Verbs that are as true of either end of a relation without a direction: "a woman standing next to a man".
SHARED_VERBS = frozenset(("sit", "stand", "lie", "park", "walk"))
_DOUBLED = re.compile(r"([bdgmnprt])\1$")  # "sitting"
_MUTE_E = re.compile(r"(?:^[^aeiou]*[aeiou][^aeiouwxy]|[cv])$")  # "riding", "dancing", "leaving"


class RelationParts(NamedTuple):
    """A relation's verb in its basic form, and its preposition with what follows; "" if there is none."""

    verb: str
    preposition: str


def parse_relation(phrase: str) -> RelationParts:
    """Return the parts of a relation, with one preposition for all that say the same, likewise one verb."""
    words = [word for word in phrase.lower().split() if word not in ARTICLES | AUXILIARIES]
    words = PHRASES.get(" ".join(words), " ".join(words)).split()
    if not words or _find_preposition(words):
        return RelationParts("", _canonicalise_preposition(words))
    verb, rest = words[0], words[1:]
    if rest[:1] == ["by"] and not verb.endswith("ing") and verb not in PLACED:
        return RelationParts(get_verb(verb), " ".join(rest))
    if rest[:1] == ["at"] and get_verb(verb) == "look":
        rest = rest[1:]  # "looking at" and "watching" say the same
    return RelationParts(get_verb(verb), _canonicalise_preposition(rest))


def _find_preposition(words: list[str]) -> int:
    """Return the number of words of the longest listed preposition with which a phrase begins; 0: none."""
    return next((n for n in range(LONGEST, 0, -1) if " ".join(words[:n]) in _PREPOSITIONS), 0)


def _canonicalise_preposition(words: list[str]) -> str:
    """Return a phrase with the preposition at its beginning replaced by the one that stands for its line."""
    length = _find_preposition(words)
    first = _PREPOSITIONS.get(" ".join(words[:length]), "")
    return " ".join([*first.split(), *words[length:]])


@lru_cache(65_536)
def is_weaker_relation(old: str, new: str) -> bool:
    """Return whether a relation is true of two things wherever another one is, by the kept lists.

    "Next to" and "near" are true of what is "sitting beside" something; "sitting on" is not true of all that is
    "on" it.
    """
    before, after = parse_relation(old), parse_relation(new)
    weaker = WEAKER_PREPOSITIONS.get(before.preposition, ())
    same_place = after.preposition == before.preposition or after.preposition in weaker
    if not after.verb:
        ends = before.preposition.endswith(f" {after.preposition}")  # "running around in" and "in"
        placed = not before.verb or before.verb in PLACING
        return bool(after.preposition) and placed and (same_place or ends)
    return same_place and (after.verb == before.verb or after.verb in WEAKER_VERBS.get(before.verb, ()))


@lru_cache(65_536)
def get_inverse_relation(relation: str) -> str | None:
    """Return a relation that is true of two things in the other order, by the kept lists; None if they know none.

    That of "above" is "under". A relation without a direction, such as "next to", is its own inverse. Where someone
    is "riding behind" something, all that is known is that this is "in front of" them.
    """
    verb, preposition = parse_relation(relation)
    inverse = _INVERSES.get(preposition)
    if inverse is None or (verb and verb not in PLACING):
        return None
    return relation if inverse == preposition and verb in SHARED_VERBS else inverse


def get_verb(word: str) -> str:
    """Return one verb, in its basic form, for all that say the same."""
    base = get_base_form(word)
    return _VERBS.get(base, base)


def get_base_form(word: str) -> str:
    """Return the basic form of a verb: by the lists, else by its ending, which is right for most."""
    if word in VERB_FORMS:
        return VERB_FORMS[word]
    stem = next((word.removesuffix(end) for end in ("ing", "ed") if word.endswith(end) and len(word) > 5), "")
    if stem:
        single = _DOUBLED.sub(r"\1", stem)
        return f"{stem}e" if single == stem and _MUTE_E.search(stem) else single
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "ches", "shes", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _index_lines(lines: tuple[tuple[str, ...], ...]) -> dict[str, str]:
    return {name: line[0] for line in lines for name in line}


_PREPOSITIONS = _index_lines(SAME_PREPOSITIONS)
_VERBS = _index_lines(SAME_VERBS)
LONGEST = max(len(name.split()) for name in _PREPOSITIONS)
_INVERSES = {"with": "with"} | {
    parse_relation(relation).preposition: parse_relation(inverse).preposition
    for relation, inverse in INVERSE.items()
}
