"""Replace a predicate by one that excludes it: by its verb or by its preposition, in the same form.

WordNet has no prepositions, and its cousins of verbs exclude nothing. The predicates are those of captions and
the 50 that Xu et al. (2017) select from Visual Genome. Some of these exclude nothing and are not in the lists:
of, for, to, from, and, belonging to, made of, part of.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Sequence
from functools import cache

# Predicate -> predicates that exclude it. Verbs are in their base form, which stands for all forms.
PREPOSITIONS: dict[str, tuple[str, ...]] = {
    "on": ("under", "beside", "off", "below", "far from"),
    "in": ("outside", "beside", "behind", "far from"),
    "at": ("far from", "away from", "on top of", "under"),
    "near": ("far from", "away from", "inside", "on top of"),
    "by": ("far from",),
    "next to": ("far from",),
    "beside": ("far from",),
    "close to": ("far from",),
    "alongside": ("far from",),
    "around": ("far from",),
    "on top of": ("under", "beside"),
    "in front of": ("behind", "inside", "under", "on top of"),
    "behind": ("in front of", "inside", "under", "on top of"),
    "on back of": ("in front of", "under", "inside", "far from"),
    "above": ("below", "under", "inside", "beneath"),
    "over": ("under", "below", "inside", "beneath"),
    "below": ("above",),
    "under": ("on top of", "above", "over", "inside"),
    "underneath": ("on top of", "above"),
    "beneath": ("on top of", "above"),
    "inside": ("outside",),
    "inside of": ("outside of",),
    "outside": ("inside",),
    "outside of": ("inside of",),
    "up": ("down",),
    "down": ("up",),
    "toward": ("away from",),
    "towards": ("away from",),
    "against": ("far from", "away from", "inside", "on top of"),
    "between": ("far from", "behind", "away from", "on top of"),
    "among": ("far from",),
    "along": ("away from", "far from", "inside", "below"),
    "across": ("away from", "far from", "below", "around"),
    "with": ("without", "lacking", "missing", "far from"),
    "to the left of": ("to the right of",),
    "to the right of": ("to the left of",),
    "on the left of": ("on the right of",),
    "on the right of": ("on the left of",),
    "left of": ("right of",),
    "right of": ("left of",),
    "in the middle of": ("outside", "at the edge of"),
    "on the side of": ("in the middle of",),
}

VERBS: dict[str, tuple[str, ...]] = {
    "hold": ("drop", "throw", "reach for", "point at"),
    "wear": ("carry", "hold", "reach for", "point at"),
    "carry": ("drop", "throw", "reach for", "point at"),
    "eat": ("ignore", "smell", "drop", "throw"),
    "ride": ("wash", "repair", "carry", "lead", "feed"),
    "have": ("lack",),
    "watch": ("ignore", "turn away from", "hide from", "run from"),
    "look at": ("ignore", "turn away from", "hide from", "run from"),
    "face": ("turn away from",),
    "use": ("ignore", "repair", "drop", "reach for"),
    "cover": ("surround", "support", "avoid", "reveal"),
    "pull": ("push",),
    "push": ("pull",),
    "throw": ("catch",),
    "catch": ("throw", "miss"),
    "hit": ("miss",),
    "swing": ("drop",),
    "pet": ("ignore", "scare"),
    "feed": ("ignore", "scare"),
    "chase": ("ignore", "follow"),
    "cut": ("ignore", "throw"),
    "contain": ("lack",),
    "include": ("lack",),
    "play with": ("ignore",),
    "talk to": ("ignore",),
    "drink": ("spill", "pour"),
    "drink from": ("spill", "wash"),
    "read": ("close", "ignore"),
    "fly": ("fold", "drop"),
    "hang from": ("lie under", "stand on", "lean against", "sit on"),
    "hang on": ("lie under",),
    "jump over": ("walk around",),
    "lean on": ("stand away from",),
    "lean against": ("stand away from",),
    "walk with": ("walk away from", "run from"),
    "sit": ("stand", "lie"),
    "stand": ("sit", "lie"),
    "lie": ("stand", "sit"),
    "lay": ("stand", "sit"),
    "walk": ("sit", "lie", "stand"),
    "run": ("sit", "lie"),
    "sleep": ("stand", "jump"),
    "jump": ("sit", "lie"),
    "graze": ("sleep", "run"),
    "swim": ("stand", "sleep"),
    "play": ("ignore", "watch", "drop", "repair"),
    "say": ("hide", "lack", "omit", "cover"),
}

# These keep their preposition: "sitting on" becomes "standing on".
INTRANSITIVE = frozenset(("sit", "stand", "lie", "lay", "walk", "run", "sleep", "jump", "graze", "swim"))

ONLY_UPRIGHT = frozenset(("at", "with", "in front of", "behind", "around"))  # nobody lies at a desk

FIXED: dict[str, tuple[str, ...]] = {  # participles that no subject does
    "parked": ("driving", "moving", "burning", "racing"),
    "covered": ("free",),
    "attached to": ("detached from", "far from", "removed from", "lying under"),
    "mounted on": ("leaning against", "lying under", "removed from", "far from"),
    "painted on": ("hidden behind", "removed from", "lying under", "far from"),
    "filled with": ("empty of", "without"),
    "covered in": ("free of", "without", "empty of", "lacking"),
    "covered with": ("free of", "without"),
    "covered by": ("free of", "without"),
    "topped with": ("without",),
    "decorated with": ("without",),
    "flying in": ("walking in", "standing in", "lying in", "sitting in"),
    "has": ("lacks", "is missing", "is without", "has lost"),
    "growing on": ("lying under", "hanging under", "far from", "removed from"),
}

HAVING = frozenset(("has", "with", "have", "having"))
# Predicates that say the same of two objects, at least in part.
SAME_PREDICATES: tuple[frozenset[str], ...] = (
    frozenset(("beside", "next to", "near", "by", "close to", "alongside", "against")),
    frozenset(("under", "below", "beneath", "underneath")),
    frozenset(("on", "on top of", "above", "over")),
    frozenset(("in", "inside", "inside of", "into")),
    frozenset(("outside", "outside of", "out of", "off")),
    HAVING,
)
INSIDE, ON_TOP = frozenset(("in", "inside", "inside of")), frozenset(("on", "on top of"))
SLOPES = frozenset(("up", "down"))
MOTION = frozenset(("up", "down", "across", "along", "toward", "towards"))
DOUBLED = frozenset(("hit", "pet", "cut", "sit", "run", "swim", "drop", "omit"))  # "hitting"


def list_contraries(
    predicate: str,
    protected: Container[str] = (),
    *,
    has_posture: bool = True,
    can_say: Callable[[str], bool] = lambda contrary: True,
) -> list[str]:
    """Return the predicates that exclude one, in a fixed order; none if the lists do not know it.

    "sitting on" has "standing on" and "sitting under". A predicate of several words is replaced as a whole.

    Args:
        predicate: a preposition, or a verb, alone or with a preposition.
        protected: prepositions that have no contrary here, such as "on" before a street.
        has_posture: whether the subject sits, stands or lies in earnest: a church stands and sits.
        can_say: whether a contrary fits the ends; it gets verbs in their base form.
    """
    if predicate in PREPOSITIONS or predicate in FIXED:
        return list(filter(can_say, FIXED.get(predicate) or _list_prepositions(predicate, protected)))
    first, _, rest = predicate.partition(" ")
    contraries = [f"{other} {rest}" for other in FIXED.get(first, ())] if rest else []
    if first in _list_forms():
        verb, form = _list_forms()[first]
        whole = f"{verb} {rest}" if rest else verb
        if whole in VERBS and whole not in INTRANSITIVE:  # "walking a dog" has no contrary here
            return [_build_phrase_form(other, form) for other in VERBS[whole] if can_say(other)]
        if verb in INTRANSITIVE and has_posture and rest in PREPOSITIONS and rest not in MOTION:
            contraries += [
                f"{_build_phrase_form(other, form)} {rest}"
                for other in VERBS[verb]
                if can_say(other) and not (other == "lie" and rest in ONLY_UPRIGHT)
            ]
    prepositions = _list_prepositions(rest, protected) if has_posture_verb(predicate) else ()
    return contraries + [f"{first} {other}" for other in prepositions if can_say(other)]


def find_verb(predicate: str) -> str | None:
    """Return the base form of a predicate's verb, with its preposition if ``VERBS`` has both; None if it has no verb.

    The predicates of ``FIXED`` have none.
    """
    first, _, rest = predicate.partition(" ")
    verb = _list_forms().get(first, (None, 0))[0]
    if predicate in FIXED or predicate in PREPOSITIONS or verb is None:
        return None
    whole = f"{verb} {rest}" if rest else verb
    return whole if whole in VERBS or whole in _list_contrary_verbs() else verb


def has_posture_verb(predicate: str) -> bool:
    """Return whether a predicate says how and where its subject is, as "sitting on" and "parked near" do."""
    first, _, rest = predicate.partition(" ")
    verb = _list_forms().get(first, (first, 0))[0]
    return rest in PREPOSITIONS and (
        verb in INTRANSITIVE or first in ("parked", "seated", "placed", "located")
    )


def _list_prepositions(preposition: str, protected: Container[str]) -> Sequence[str]:
    return () if preposition in protected else PREPOSITIONS.get(preposition, ())


@cache
def _list_contrary_verbs() -> frozenset[str]:
    """Return the verbs that replace others, in their base form."""
    return frozenset(itertools.chain.from_iterable(VERBS.values()))


@cache
def _list_forms() -> dict[str, tuple[str, int]]:
    """Return form of a verb -> (its base form, number of the form)."""
    verbs = dict.fromkeys(verb.partition(" ")[0] for verb in (*VERBS, *sorted(_list_contrary_verbs())))
    return {form: (verb, number) for verb in verbs for number, form in enumerate(_build_verb_forms(verb))}


def _build_phrase_form(phrase: str, form: int) -> str:
    verb, space, rest = phrase.partition(" ")
    return f"{_build_verb_forms(verb)[form]}{space}{rest}"


def _build_verb_forms(verb: str) -> tuple[str, str, str]:
    """Return a verb's base form, third person singular and present participle."""
    if verb.endswith("ie"):
        stem = f"{verb[:-2]}y"
    elif verb in DOUBLED:
        stem = verb + verb[-1]
    else:
        stem = verb[:-1] if verb.endswith("e") else verb
    if verb == "have":
        third = "has"
    elif verb.endswith(("ch", "sh", "ss")):
        third = f"{verb}es"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        third = f"{verb[:-1]}ies"
    else:
        third = f"{verb}s"
    return verb, third, f"{stem}ing"


def is_same_predicate(first: str, second: str) -> bool:
    """Return whether two predicates say the same of two objects, at least in part."""
    return any(first in group and second in group for group in SAME_PREDICATES)
