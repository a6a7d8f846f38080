"""Write captions of the world's controlled language, and parse them back into their meaning.

Both directions use one list of patterns, so every caption that can be written can be parsed exactly. A
caption and its paraphrases differ in the pattern, never in the meaning. A sentence states relations or
positions, not both.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from caramel.sources.world.scenes import COLOURS, INVERSE, NOUNS, SIZES, Meaning, Mention, Relation

PREPOSITION = {
    "left": "to the left of",
    "right": "to the right of",
    "above": "above",
    "below": "below",
}
ADVERB = {"left": "to its left", "right": "to its right", "above": "above it", "below": "below it"}
POSITION_PHRASE = {
    "left": "on the left",
    "right": "on the right",
    "top": "at the top",
    "bottom": "at the bottom",
}

# {a} {b} {c}: mentions. {ab}, {cb}: preposition of the relation. {its_ab}: the same, told from b ("b with a
# to its left"). {ba}: preposition of the inverse relation. {the_b}: the second mention repeated by its noun.
PATTERNS: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 0): (
        "{a}",
        "there is {a}",
        "a picture of {a}",
        "{a} on a plain background",
        "{a} can be seen",
        "here is {a}",
    ),
    (2, 0): (
        "{a} and {b}",
        "there is {a} and {b}",
        "{a} together with {b}",
        "a picture of {a} and {b}",
        "{a} and also {b}",
        "{a} shown with {b}",
    ),
    (2, 1): (
        "{a} is {ab} {b}",
        "there is {a} {ab} {b}",
        "{ab} {b} is {a}",
        "{b} with {a} {its_ab}",
        "{b} has {a} {its_ab}",
        "{a} can be seen {ab} {b}",
        "{a} that has {b} {its_ba}",
    ),
    (3, 0): (
        "{a}, {b} and {c}",
        "there is {a}, {b} and {c}",
        "a picture of {a}, {b} and {c}",
        "{a} and {b} with {c}",
    ),
    (3, 1): (
        "{a} is {ab} {b}, and there is {c}",
        "there is {a} {ab} {b}, and also {c}",
        "{c}, and {a} {ab} {b}",
        "{b} with {a} {its_ab}, and {c}",
    ),
    (3, 2): (
        "{a} is {ab} {b}, and {c} is {cb} the {the_b}",
        "{ab} {b} is {a}, and {cb} the {the_b} is {c}",
        "{b} with {a} {its_ab} and {c} {its_cb}",
        "there is {a} {ab} {b}, and {c} {cb} the {the_b}",
    ),
}
ADDED = " along with {x}"
ALONE = " along with nothing else"  # as many words as a tail that adds a noun


@dataclass(frozen=True)
class Reading:
    """Content and form of a caption: the meaning without the tail, the pattern's index, and the tail."""

    meaning: Meaning
    pattern: int
    added: Mention | None = None  # mentioned in a tail
    alone: bool = False  # whether the tail says that nothing else is in the image

    @property
    def whole(self) -> Meaning:
        """The meaning including the tail's object, which is the last mention."""
        if self.added is None:
            return self.meaning
        return replace(self.meaning, mentions=(*self.meaning.mentions, self.added))


def format_mention(mention: Mention) -> str:
    """Return "a small red car on the left" for a mention."""
    position = POSITION_PHRASE[mention.position] if mention.position else None
    words = " ".join(w for w in (mention.size, mention.colour, mention.noun, position) if w)
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def format_sentence(text: str) -> str:
    """Return the text with a capital first letter and one final stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def get_pattern_key(meaning: Meaning) -> tuple[int, int]:
    """Return the key into ``PATTERNS``: (mentions, relations)."""
    return len(meaning.mentions), len(meaning.relations)


def realise_caption(reading: Reading) -> str:
    """Return the formatted caption of a reading: the inverse of ``parse_caption``.

    The meaning must have one to three mentions. Its relations must run from first to second, then from third
    to second. The pattern must be one of ``PATTERNS[get_pattern_key(meaning)]``. With a relation, no mention
    may have a position.
    """
    meaning = reading.meaning
    assert not (meaning.relations and any(m.position for m in reading.whole.mentions)), reading
    names = dict(zip("abc", meaning.mentions, strict=False))
    slots = {name: format_mention(mention) for name, mention in names.items()}
    if len(meaning.mentions) > 1:
        slots["the_b"] = meaning.mentions[1].noun
    for relation in meaning.relations:
        pair = "abc"[relation.subject] + "abc"[relation.object]
        slots[pair] = PREPOSITION[relation.predicate]
        slots[f"its_{pair}"] = ADVERB[relation.predicate]
        slots[f"its_{pair[::-1]}"] = ADVERB[INVERSE[relation.predicate]]
    text = PATTERNS[get_pattern_key(meaning)][reading.pattern].format(**slots)
    if reading.added is not None:
        text += ADDED.format(x=format_mention(reading.added))
    return format_sentence(text + ALONE * reading.alone)


def _build_mention_regex(name: str, *, with_position: bool) -> str:
    sizes, colours, nouns = ("|".join(words) for words in (SIZES, COLOURS, NOUNS))
    text = f"an? (?:(?P<{name}_size>{sizes}) )?(?:(?P<{name}_colour>{colours}) )?(?P<{name}_noun>{nouns})"
    positions = "|".join(POSITION_PHRASE.values())
    return f"{text}(?: (?P<{name}_position>{positions}))?" if with_position else text


@functools.cache
def _compile_patterns() -> tuple[tuple[int, bool, re.Pattern[str]], ...]:
    """Return (pattern, whether it ends in ``ALONE``, regular expression) for every sentence form."""
    prepositions, adverbs = ("|".join(d.values()) for d in (PREPOSITION, ADVERB))
    slots = {"the_b": "(?P=b_noun)"}
    for pair in ("ab", "cb"):
        slots[pair] = f"(?P<{pair}>{prepositions})"
        slots[f"its_{pair}"] = f"(?P<its_{pair}>{adverbs})"
    slots["its_ba"] = f"(?P<its_ba>{adverbs})"
    readers = []
    for (_, relations), patterns in PATTERNS.items():
        slots |= {name: _build_mention_regex(name, with_position=not relations) for name in "abcx"}
        for index, pattern in enumerate(patterns):
            for tail in ("", ADDED, ALONE):
                text = (pattern + tail).format(**slots)
                readers.append((index, tail == ALONE, re.compile(text + r"\.")))
    return tuple(readers)


def _parse_relation(groups: dict[str, str | None], subject: str) -> Relation | None:
    """Return the relation that the groups of a match state between a name and the second, if any."""
    predicates = {v: k for words in (PREPOSITION, ADVERB) for k, v in words.items()}
    position = "abc".index(subject)
    for group in (f"{subject}b", f"its_{subject}b"):
        if word := groups.get(group):
            return Relation(position, predicates[word], 1)
    if word := groups.get(f"its_b{subject}"):
        return Relation(position, INVERSE[predicates[word]], 1)
    return None


@functools.lru_cache(maxsize=65536)
def parse_caption(caption: str) -> Reading | None:
    """Return the reading of the caption, or None if it is not a sentence of this language."""
    text = caption[:1].lower() + caption[1:]
    positions: dict[str | None, str] = {words: position for position, words in POSITION_PHRASE.items()}
    for index, alone, reader in _compile_patterns():
        match = reader.fullmatch(text)
        if match is None:
            continue
        groups = match.groupdict()
        mentions = {
            n: Mention(
                str(groups[f"{n}_noun"]),
                groups[f"{n}_colour"],
                groups[f"{n}_size"],
                positions.get(groups.get(f"{n}_position")),
            )
            for n in "abcx"
            if f"{n}_noun" in groups
        }
        added = mentions.pop("x", None)
        relations = (_parse_relation(groups, "a"), _parse_relation(groups, "c"))
        meaning = Meaning(tuple(mentions.values()), tuple(r for r in relations if r))
        return Reading(meaning, index, added, alone)
    return None
