"""Find the words of the word lists in a free caption, and edit the caption there."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import (
    TaggedPhrase,
    Tagger,
    Token,
    find_tagged_phrases,
    tag_by_lists,
)
from caramel.utils.text import build_character_class, build_word_pattern

WordType = Literal["noun", "attribute", "relation"]
# Words that title case may leave in lower case
_LITTLE = words.FUNCTION_WORDS | words.DETERMINERS | words.PREPOSITIONS


class WordMatch(NamedTuple):
    """A word of the lists in a text: text[start:end]."""

    start: int
    end: int
    word_type: WordType
    word: str  # the form in the lists: singular, one word for all synonyms
    group: str
    plural: bool


class Edit(NamedTuple):
    """Replace text[start:end] by ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Sentence:
    """A caption, its known words, all words in the captions of its image, its tagged words and noun phrases."""

    text: str
    nouns: tuple[WordMatch, ...]
    attributes: tuple[WordMatch, ...]
    relations: tuple[WordMatch, ...]
    image_words: frozenset[str]
    tokens: tuple[Token, ...]
    phrases: tuple[TaggedPhrase, ...]

    def get_written_form(self, match: WordMatch) -> str:
        """Return a word as it is written; in lower case if it is the first of the sentence."""
        text = self.text[match.start : match.end]
        return text if self.text[: match.start].strip() else text.lower()

    def find_phrase_start(self, noun: WordMatch) -> int:
        """Return where the noun's phrase starts, including its determiner and attributes."""
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
def _build_lexicon() -> dict[str, tuple[WordType, str, str, bool]]:
    """Return written form -> (type, word, group, plural)."""
    entries: dict[str, tuple[WordType, str, str, bool]] = {}
    groups = {noun: group for group, nouns in words.NOUNS.items() for noun in nouns}
    for noun in (*groups, *words.SAME):
        meant = words.SAME.get(noun, noun)
        entries[words.get_plural(noun)] = ("noun", meant, groups[meant], True)
        entries[noun] = ("noun", meant, groups[meant], False)
    adjective_groups = {word: group for group, members in words.ADJECTIVES.items() for word in members}
    for word in (*adjective_groups, *words.SAME_ADJECTIVE):
        meant = words.SAME_ADJECTIVE.get(word, word)
        entries[word] = ("attribute", meant, adjective_groups[meant], False)
    entries |= {word: ("relation", word, "", False) for word in (*words.CONTRARY, *words.INVERSE)}
    return entries


@functools.cache
def list_plurals() -> frozenset[str]:
    """Return the last words of all plurals of the lists."""
    return frozenset(form.split()[-1] for form, entry in _build_lexicon().items() if entry[3])


@functools.cache
def _build_pattern(characters: str) -> re.Pattern[str]:
    """Return a pattern for the lists' words, except where these characters make them part of longer words."""
    longest_first = sorted(_build_lexicon(), key=lambda form: (-len(form), form))
    # ASCII letters alone: in Unicode, ſ matches s and ı matches i, and the lists have neither.
    forms = f"(?ai:{'|'.join(map(re.escape, longest_first))})"
    return re.compile(rf"(?<![{characters}]){forms}(?![{characters}])")


def scan_words(text: str) -> list[WordMatch]:
    """Return the known words of a text from left to right, without overlaps."""
    matches = []
    for match in _build_pattern(build_character_class(text)).finditer(text):
        word_type, word, group, plural = _build_lexicon()[match.group().lower()]
        behind = build_word_pattern(text).match(text[match.end() :].lstrip(" "))
        if word_type == "attribute" and (behind is None or not _may_be_noun(behind.group().lower())):
            continue
        matches.append(WordMatch(match.start(), match.end(), word_type, word, group, plural))
    return matches


def _may_be_noun(word: str) -> bool:
    return word not in words.FUNCTION_WORDS and not word.endswith("ing")


def _select_heads(text: str, matches: Sequence[WordMatch]) -> list[WordMatch]:
    """Return the matches without nouns that directly precede another noun: "bathroom sink" gives "sink"."""
    behind = [*matches, None][1:]
    return [
        f
        for f, n in zip(matches, behind, strict=True)
        if not (n and f.word_type == n.word_type == "noun" and not text[f.end : n.start].strip())
    ]


def parse_sentence(text: str, captions: Iterable[str], tag: Tagger = tag_by_lists) -> Sentence:
    """Return a caption with its known words and its noun phrases.

    Args:
        text: the caption.
        captions: all captions of its image.
        tag: splits the caption into tagged words.
    """
    image_words: set[str] = set()
    for caption in (text, *captions):
        image_words |= {word.lower() for word in build_word_pattern(caption).findall(caption)} | {
            f.word for f in scan_words(caption)
        }
    matches = _select_heads(text, scan_words(text))
    nouns, attributes, relations = (
        tuple(f for f in matches if f.word_type == word_type)
        for word_type in ("noun", "attribute", "relation")
    )
    # A tagger reads "light" in "traffic light" as an adjective.
    spans = [(match.start, match.end) for match in matches if match.word_type == "noun"]
    tokens = [
        token._replace(tag="noun") if any(a <= token.start < b for a, b in spans) else token
        for token in tag(text)
    ]
    phrases = find_tagged_phrases(text, tokens)
    return Sentence(text, nouns, attributes, relations, frozenset(image_words), tuple(tokens), phrases)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with the edits applied: articles before them agree, and the text's capitals stay.

    The first letter of a sentence stays a capital, as do all letters of a text in capitals and each word's first
    letter in one in title case.
    """
    fit_case = _choose_case(text)
    for start, end, new in sorted(edits, reverse=True):
        before, old, fitted = text[:start], text[start:end], fit_case(new)
        if old[:1].isupper() and not before.strip():
            fitted = fitted[:1].upper() + fitted[1:]
        if match := re.search(rf"(?<![{build_character_class(before)}])(an?) $", before, re.IGNORECASE):
            article = words.choose_article(new.lower() if text.isupper() else new)
            article = article.capitalize() if match[1][0] == "A" else article
            before = f"{before[: match.start()]}{article.upper() if match[1] == 'AN' else fit_case(article)} "
        text = before + fitted + text[end:]
    return text


def _choose_case(text: str) -> Callable[[str], str]:
    """Return what fits a new phrase to a text: capitals, title case, or no change.

    In title case, each word behind the first begins with a capital, function words perhaps excepted. Acronyms tell
    nothing.
    """
    if text.isupper():
        return str.upper
    behind = [
        word for word in build_word_pattern(text).findall(text)[1:] if len(word) == 1 or not word.isupper()
    ]
    full = [word for word in behind if word.lower() not in _LITTLE]
    if not full or not all(word[0].isupper() for word in full):
        return str
    little = frozenset() if all(word[0].isupper() for word in behind) else _LITTLE
    return lambda new: build_word_pattern(new).sub(
        lambda word: word[0] if word[0] in little else word[0][:1].upper() + word[0][1:], new
    )
