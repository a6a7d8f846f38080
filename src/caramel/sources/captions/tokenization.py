"""Where the words of the lists stand in a free caption, and how to change them there."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from caramel.sources.captions import words
from caramel.utils.text import build_character_class, build_word_pattern

Kind = Literal["noun", "attribute", "relation"]


class Found(NamedTuple):
    """A word of the lists in a text: text[start:end]."""

    start: int
    end: int
    kind: Kind
    word: str  # as in the lists: singular, and one word for all that mean the same
    group: str
    plural: bool


class Edit(NamedTuple):
    """Put ``new`` where text[start:end] is."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Sentence:
    """A caption, the known words in it, and all words that are said of its image."""

    text: str
    nouns: tuple[Found, ...]
    attributes: tuple[Found, ...]
    relations: tuple[Found, ...]
    said: frozenset[str]

    def written(self, found: Found) -> str:
        """Return a word as it is written, in lower case if it is the first of the sentence."""
        text = self.text[found.start : found.end]
        return text if self.text[: found.start].strip() else text.lower()

    def noun_of(self, attribute: Found) -> Found | None:
        """Return the noun that an attribute stands before, with nothing but attributes between."""
        at = attribute.end
        for found in sorted((*self.nouns, *self.attributes)):
            if found.start > at and not self.text[at : found.start].strip():
                if found.kind == "noun":
                    return found
                at = found.end
        return None

    def phrase_start(self, noun: Found) -> int:
        """Return where the noun's phrase starts: its attributes and determiner come before it."""
        start = noun.start
        for word in reversed(list(build_word_pattern(self.text).finditer(self.text[: noun.start]))):
            if self.text[word.end() : start].strip():
                break
            if word.group().lower() in words.DETERMINERS:
                return word.start()
            if not any(a.start <= word.start() < a.end for a in self.attributes):
                break
            start = word.start()
        return start


@functools.cache
def _lexicon() -> dict[str, tuple[Kind, str, str, bool]]:
    """Return written form -> (kind, word, group, plural)."""
    entries: dict[str, tuple[Kind, str, str, bool]] = {}
    groups = {noun: group for group, nouns in words.NOUNS.items() for noun in nouns}
    for noun in (*groups, *words.SAME):
        meant = words.SAME.get(noun, noun)
        entries[words.plural(noun)] = ("noun", meant, groups[meant], True)
        entries[noun] = ("noun", meant, groups[meant], False)
    kinds = {word: group for group, members in words.ADJECTIVES.items() for word in members}
    for word in (*kinds, *words.SAME_ADJECTIVE):
        meant = words.SAME_ADJECTIVE.get(word, word)
        entries[word] = ("attribute", meant, kinds[meant], False)
    entries |= {word: ("relation", word, "", False) for word in (*words.CONTRARY, *words.INVERSE)}
    return entries


@functools.cache
def plurals() -> frozenset[str]:
    """Return the last words of all plurals of the lists."""
    return frozenset(form.split()[-1] for form, entry in _lexicon().items() if entry[3])


@functools.cache
def _pattern(characters: str) -> re.Pattern[str]:
    """Return the pattern of the words of the lists, where these characters do not make them parts of others."""
    longest_first = sorted(_lexicon(), key=lambda form: (-len(form), form))
    # Of ASCII letters alone: Unicode takes ſ for s and ı for i, which are no letters of the lists in lower case.
    forms = f"(?ai:{'|'.join(map(re.escape, longest_first))})"
    return re.compile(rf"(?<![{characters}]){forms}(?![{characters}])")


def scan(text: str) -> list[Found]:
    """Return the known words of a text, from left to right, none overlapping."""
    found = []
    for match in _pattern(build_character_class(text)).finditer(text):
        kind, word, group, plural = _lexicon()[match.group().lower()]
        behind = build_word_pattern(text).match(text[match.end() :].lstrip(" "))
        if kind == "attribute" and (behind is None or not _may_be_noun(behind.group().lower())):
            continue
        found.append(Found(match.start(), match.end(), kind, word, group, plural))
    return found


def _may_be_noun(word: str) -> bool:
    return word not in words.FUNCTION_WORDS and not word.endswith("ing")


def _heads(text: str, found: Sequence[Found]) -> list[Found]:
    """Return the words without nouns that stand right before another: of "bathroom sink", "sink"."""
    behind = [*found, None][1:]
    return [
        f
        for f, n in zip(found, behind, strict=True)
        if not (n and f.kind == n.kind == "noun" and not text[f.end : n.start].strip())
    ]


def sentence(text: str, captions: Iterable[str]) -> Sentence:
    """Return a caption with its known words; ``captions`` are all captions of its image."""
    said: set[str] = set()
    for caption in (text, *captions):
        said |= {word.lower() for word in build_word_pattern(caption).findall(caption)} | {
            f.word for f in scan(caption)
        }
    found = _heads(text, scan(text))
    nouns, attributes, relations = (
        tuple(f for f in found if f.kind == kind) for kind in ("noun", "attribute", "relation")
    )
    return Sentence(text, nouns, attributes, relations, frozenset(said))


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits made: articles before them agree, a capital first letter stays."""
    for start, end, new in sorted(edits, reverse=True):
        before, old = text[:start], text[start:end]
        new = new[:1].upper() + new[1:] if old[:1].isupper() and not before.strip() else new
        if match := re.search(rf"(?<![{build_character_class(before)}])[Aa]n? $", before):
            right = words.article(new)
            right = right.capitalize() if before[match.start()] == "A" else right
            before = f"{before[: match.start()]}{right} "
        text = before + new + text[end:]
    return text
