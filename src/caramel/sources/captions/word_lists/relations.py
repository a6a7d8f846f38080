"""Replace a relation or an action by one that excludes it, where the words around it allow that (``replace_rel``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import Token
from caramel.sources.captions.tokenization import Edit, Sentence, WordMatch
from caramel.sources.captions.word_lists.heads import ALL_SAID, NO_RELATION, Rng, draw_item, list_nouns
from caramel.sources.captions.word_lists.replacements import load_word_lists

VEHICLES = frozenset(["car", "truck", "bus", "van", "cars", "trucks", "buses", "vans", "vehicles"])
SEATED_IN = frozenset(
    [
        "car",
        "truck",
        "bus",
        "van",
        "boat",
        "train",
        "chair",
        "chairs",
        "seat",
        "seats",
        "row",
        "circle",
        "wheelchair",
        "armchair",
        "recliner",
        "vehicle",
    ]
)
PARTICLES = frozenset(["up", "down", "out", "onto", "off", "around", "back"])
NEVER_ABOVE = frozenset(
    (
        "sky",
        "water",
        "ocean",
        "sea",
        "cloud",
        "clouds",
        "ground",
        "head",
        "heads",
        "field",
        "air",
        "vegetation",
        "surface",
        "trees",
        "building",
        "buildings",
        "city",
        "mountain",
        "mountains",
    )
)
# Behind and in front of these is the same place, or none.
FACED = frozenset(
    [
        "laptop",
        "computer",
        "desk",
        "table",
        "screen",
        "television",
        "tv",
        "mirror",
        "monitor",
        "food",
        "plate",
        "camera",
        "cake",
        "pizza",
        "keyboard",
    ]
)
FURNITURE = frozenset(["bed", "table", "couch", "sofa", "bench", "desk", "chair", "shelf", "counter"])
THIRD_PERSON = {
    "sits": "sitting",
    "stands": "standing",
    "holds": "holding",
    "rides": "riding",
    "walks": "walking",
    "sleeps": "sleeping",
}
RIDDEN = {
    **dict.fromkeys(
        ["horse", "horses", "elephant", "elephants", "donkey", "camel", "cow", "bull"], "leading"
    ),
    **dict.fromkeys(
        ["bike", "bikes", "bicycle", "bicycles", "motorcycle", "motorcycles", "scooter", "motorbike"],
        "pushing",
    ),
    **dict.fromkeys(
        ["skateboard", "skateboards", "surfboard", "surfboards", "snowboard", "skis"], "carrying"
    ),
    **dict.fromkeys(("wave", "waves"), "watching"),
}


def replace_rel(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one relation or action by one that excludes it."""
    options = [
        (match, new)
        for match in (*sentence.relations, *_iter_further(sentence))
        if match.start and (new := _find_contrary(sentence, match)) is not None
    ]
    if not options:
        return NO_RELATION
    options = [
        (match, new)
        for match, new in options
        if not set(new.split()) - words.SMALL_WORDS <= sentence.image_words
    ]
    if not options:
        return ALL_SAID
    match, new = draw_item(rng, options)
    return [Edit(match.start, match.end, new)]


def _iter_further(sentence: Sentence) -> Iterator[WordMatch]:
    """Yield the relations that only a tagged word tells: "on", and actions in the third person."""
    taken = [(match.start, match.end) for match in sentence.relations]
    for token in sentence.tokens:
        known = any(start <= token.start < end for start, end in taken)
        if not known and (token.word in THIRD_PERSON or token.word == "on"):
            yield WordMatch(token.start, token.end, "relation", token.word, "", False)


class Context(NamedTuple):
    """What is around a relation.

    Attributes:
        word: the relation.
        subject: the last known noun before it.
        before: the last noun before it, known or not; "" if there is none.
        next: the word after it.
        head: the head of the noun phrase directly after it; "" if none follows.
        goal: the head of the next noun phrase; "" if there is none.
    """

    word: str
    subject: WordMatch | None
    before: str
    next: Token
    head: str
    goal: str


def _find_contrary(sentence: Sentence, match: WordMatch) -> str | None:
    """Return the words that replace a relation; None if none fits what is around it."""
    rest = [token for token in sentence.tokens if token.start >= match.end]
    if not rest or rest[0].word in PARTICLES:
        return None
    find = CONTRARIES.get(match.word)
    return find(_build_context(sentence, match, rest[0])) if find else words.CONTRARY.get(match.word)


def _build_context(sentence: Sentence, match: WordMatch, following: Token) -> Context:
    subjects = [noun for noun in list_nouns(sentence) if noun.end <= match.start]
    nouns = [token.word for token in sentence.tokens if token.end <= match.start and token.tag == "noun"]
    target = next((phrase for phrase in sentence.phrases if phrase.start >= match.end), None)
    goal = target.nouns[-1].word if target else ""
    head = goal if target and target.start == following.start else ""
    return Context(
        match.word, subjects[-1] if subjects else None, nouns[-1] if nouns else "", following, head, goal
    )


Find = Callable[[Context], str | None]


def _change_posture(context: Context) -> str | None:
    """Return another posture of a person or an animal; an inanimate object that sits also stands."""
    subject = context.subject
    if subject is None or subject.group not in words.LIVING or subject.word == "bird":
        return None
    if context.next.tag not in ("preposition", "adverb") and context.next.word not in ("next", "close"):
        return None
    if context.word == "standing":
        return "lying" if subject.group == "animal" else "sitting"
    seated = context.next.word in ("in", "inside") and context.goal in SEATED_IN
    return None if seated else "standing"


def _change_holding(context: Context) -> str | None:
    living = context.subject and context.subject.group in words.LIVING
    can_hold = living or context.before in load_word_lists().people
    return (
        "reaching for"
        if can_hold and context.head not in ("", "hands", "hand", "pose", "door", "doors")
        else None
    )


def _change_wearing(context: Context) -> str | None:
    return (
        "carrying"
        if context.head and context.head not in ("pants", "shorts", "clothes", "clothing")
        else None
    )


def _change_eating(context: Context) -> str | None:
    subject = context.subject
    if (
        not context.head
        or subject is None
        or context.head in ("food", "lunch", "dinner", "breakfast", "meal")
    ):
        return None
    return "sniffing" if subject.group == "animal" else "selling"


def _change_riding(context: Context) -> str | None:
    return RIDDEN.get(context.head)


def _change_motion(new: str) -> Find:
    def change(context: Context) -> str | None:
        """Return the other motion before a preposition; "walking a dog" has none."""
        return new if context.next.tag == "preposition" and context.next.word != "with" else None

    return change


def _change_parked(context: Context) -> str | None:
    drives = context.before in VEHICLES and context.next.tag in ("preposition", "adverb")
    return "driving" if drives else None


def _replace_at(new: str, never: frozenset[str] = frozenset()) -> Find:
    def change(context: Context) -> str | None:
        """Return the other place, if a noun or pronoun follows that can have it."""
        follows = context.head or context.next.tag in ("pronoun", "determiner")
        return new if follows and context.head not in never else None

    return change


def _leave_furniture(context: Context) -> str | None:
    """Return where else than on a piece of furniture something is: a person beside it, all else under it."""
    if context.head not in FURNITURE or context.before in ("", "hand", "hands", "head", "foot", "feet"):
        return None
    person = context.before in load_word_lists().people or (
        context.subject and context.subject.group in ("person", "child")
    )
    return "next to" if person or context.head in ("couch", "sofa", "shelf", "counter") else "under"


def _make_finite(find: Find, forms: Mapping[str, str]) -> Find:
    """Return the rule of a participle for the third person: "holding" gives "reaching for", "holds" "reaches for"."""

    def change(context: Context) -> str | None:
        new = find(context._replace(word=THIRD_PERSON[context.word]))
        return forms.get(new or "")

    return change


CONTRARIES: dict[str, Find] = {
    **dict.fromkeys(("sitting", "standing", "lying", "laying"), _change_posture),
    "holding": _change_holding,
    "wearing": _change_wearing,
    "eating": _change_eating,
    "riding": _change_riding,
    "walking": _change_motion("running"),
    "running": _change_motion("walking"),
    "sleeping": _change_motion("playing"),
    "jumping": _change_motion("lying"),
    "parked": _change_parked,
    "on": _leave_furniture,
    "sits": _make_finite(_change_posture, {"standing": "stands"}),
    "stands": _make_finite(_change_posture, {"sitting": "sits", "lying": "lies"}),
    "holds": _make_finite(_change_holding, {"reaching for": "reaches for"}),
    "rides": _make_finite(
        _change_riding,
        {"leading": "leads", "pushing": "pushes", "carrying": "carries", "watching": "watches"},
    ),
    "walks": _make_finite(_change_motion("running"), {"running": "runs"}),
    "sleeps": _make_finite(_change_motion("playing"), {"playing": "plays"}),
    "above": _replace_at("below", NEVER_ABOVE),
    "below": _replace_at("above", NEVER_ABOVE),
    "on top of": _replace_at("next to"),
    **dict.fromkeys(
        ("under", "underneath", "beneath"),
        _replace_at(
            "next to",
            frozenset(["tree", "trees", "umbrella", "umbrellas", "water", "bridge", "sky", "clouds"]),
        ),
    ),
    "in front of": _replace_at("behind", FACED),
    "behind": _replace_at("in front of", FACED),
    **dict.fromkeys(("next to", "beside", "near", "close to"), _replace_at("far from")),
    **dict.fromkeys(("inside", "inside of"), _replace_at("outside of")),
}
