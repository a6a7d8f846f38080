"""Find the phrases of captions that a method trains on: noun phrases, and the phrases that a negative changes.

Noun phrases are those of the word lists (``tagged_phrases``): a determiner, adjectives and nouns. The authors
of C2LIP and CS-CLIP take their phrases from a parser or a language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from caramel.sources.captions.tagged_phrases import find_tagged_phrases, tag_by_lists
from caramel.utils.text import build_word_pattern

Span = tuple[int, int]
# Nouns that say where something is: "to the left of a cat" has one noun phrase.
PLACES = frozenset(
    ("left", "right", "top", "bottom", "side", "front", "back", "middle", "center", "background")
)


def find_noun_phrases(caption: str) -> list[str]:
    """Return the noun phrases of a caption without repetitions, from left to right."""
    return list(dict.fromkeys(caption[start:end] for start, end in _find_spans(caption)))


def find_changed_phrases(caption: str, negative: str) -> tuple[str, str]:
    """Return the shortest phrases that say what a negative changes: the unit of the caption, and its foil.

    Both begin with the noun phrase at or before the first word that differs, and end with the noun phrase at
    or behind the last one, in either text:

    - "A red cat on a mat" and "A black cat on a mat" give "A red cat" and "A black cat", an entity.
    - "A cat on a mat" and "A cat under a mat" give the whole relation, and so do swapped phrases.
    - If both texts have the same words, they end with one noun phrase more: "a cat with a dog" and "a dog with
      a cat" are both true where "to its left" follows.

    Pronouns are not resolved. Without a noun phrase there, the text is taken from its beginning, or to its
    end. Equal texts, and texts without a word, are returned whole.
    """
    texts = (caption, negative)
    spans = [[match.span() for match in build_word_pattern(text).finditer(text)] for text in texts]
    words = [
        [text[a:b].lower() for a, b in word_spans] for text, word_spans in zip(texts, spans, strict=True)
    ]
    if words[0] == words[1] or not all(words):
        return caption, negative
    same = _count_equal(*words)
    same_end = min(_count_equal(words[0][::-1], words[1][::-1]), min(map(len, words)) - same)
    further = sorted(words[0]) == sorted(words[1])
    edges = [
        _find_edges(text, word_spans, (same, len(word_spans) - same_end), further=further)
        for text, word_spans in zip(texts, spans, strict=True)
    ]
    first = min(before for before, _ in edges)
    behind = min(after for _, after in edges)
    unit, foil = (
        text[word_spans[first][0] : word_spans[len(word_spans) - behind - 1][1]]
        for text, word_spans in zip(texts, spans, strict=True)
    )
    return unit, foil


def _count_equal(words: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the beginning are equal."""
    pairs = zip(words, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _find_edges(text: str, words: Sequence[Span], changed: Span, *, further: bool) -> tuple[int, int]:
    """Return how many words precede and follow the ``changed`` ones, widened to noun phrases.

    ``further``: up to the next noun phrase, or the end of the text.
    """
    first, last = changed
    begin = words[first][0] if first < len(words) else len(text)
    end = words[last - 1][1] if last > first else begin
    phrases = _find_spans(text)
    start = max((a for a, _ in phrases if a <= begin), default=0)
    stops = [*(b for _, b in phrases if b >= end), len(text), len(text)]
    stop = stops[further]
    return sum(b <= start for _, b in words), sum(a >= stop for a, _ in words)


def _find_spans(text: str) -> list[Span]:
    phrases = find_tagged_phrases(text, tag_by_lists(text))
    return [(phrase.start, phrase.end) for phrase in phrases if phrase.nouns[-1].word not in PLACES]
