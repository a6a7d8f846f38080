"""Find predicates that exclude a predicate: by its verb, or by its preposition, in the same form."""

from __future__ import annotations

from functools import cache

from caramel.crepe.foil_words import FIXED, INTRANSITIVE, PREPOSITIONS, VERBS

DOUBLED = frozenset(("hit", "pet", "cut", "sit", "run", "swim", "drop"))  # "hitting"


def list_contraries(predicate: str, *, prepositions: bool = True) -> list[str]:
    """Return the predicates that exclude one, in a fixed order; none if the lists do not know it.

    "sitting on" has "standing on" and "sitting under". A predicate of several words is replaced as a whole.

    Args:
        predicate: a preposition, or a verb, alone or with a preposition.
        prepositions: whether prepositions may be replaced; False for a predicate of what is no place.
    """
    places = PREPOSITIONS if prepositions else {}
    if predicate in PREPOSITIONS or predicate in FIXED:
        return list(FIXED.get(predicate) or places.get(predicate, ()))
    first, _, rest = predicate.partition(" ")
    contraries = [f"{other} {rest}" for other in FIXED.get(first, ())] if rest else []
    if first in _list_forms():
        verb, form = _list_forms()[first]
        whole = f"{verb} {rest}" if rest else verb
        if whole in VERBS:
            return [_inflect_phrase(other, form) for other in VERBS[whole]]
        if verb in INTRANSITIVE and rest in PREPOSITIONS:
            contraries += [f"{_inflect_phrase(other, form)} {rest}" for other in VERBS[verb]]
    return contraries + [f"{first} {other}" for other in places.get(rest, ())]


@cache
def _list_forms() -> dict[str, tuple[str, int]]:
    """Return form of a verb -> (its base form, number of the form)."""
    verbs = dict.fromkeys(verb.partition(" ")[0] for verb in VERBS)
    return {form: (verb, number) for verb in verbs for number, form in enumerate(_inflect_verb(verb))}


def _inflect_phrase(phrase: str, form: int) -> str:
    verb, space, rest = phrase.partition(" ")
    return f"{_inflect_verb(verb)[form]}{space}{rest}"


def _inflect_verb(verb: str) -> tuple[str, str, str]:
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
