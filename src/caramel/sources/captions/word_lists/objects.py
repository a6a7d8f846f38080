"""Replace, exchange and add objects of a caption by word lists (subtypes ``*_obj`` of SugarCrepe)."""

from __future__ import annotations

from itertools import combinations

from caramel.sources.captions import words
from caramel.sources.captions.phrases import MASS
from caramel.sources.captions.tagged_phrases import TaggedPhrase
from caramel.sources.captions.tokenization import Edit, Sentence, WordMatch
from caramel.sources.captions.word_lists.heads import (
    ALL_SAID,
    NO_NOUN,
    NO_TWO_NOUNS,
    Rng,
    draw_item,
    has_duplicate,
    is_mentioned,
    iter_heads,
)
from caramel.sources.captions.word_lists.replacements import FEMININE, load_word_lists

PRONOUNS = frozenset(["his", "her", "hers", "its", "he", "she", "it", "him", "himself", "herself", "itself"])
HORIZONTAL = (
    "in front of",
    "behind",
    "to the left of",
    "to the right of",
    "on the left of",
    "on the right of",
)
GAZE = ("watching", "looking at", "chasing", "following", "facing")
BESIDE = ("next to", "beside", "near", "close to")
# Words after which something uses or holds a noun, so that its exchange with a noun beside it is another meaning.
USING = frozenset(
    ["on", "in", "under", "behind", "at", "inside", "holding", "carrying", "using", "riding", "eating"]
)
FIXED_PLACES = frozenset(("room", "building", "outdoors", "clothes"))


def replace_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one noun by one that the same caption may have."""
    heads = list(iter_heads(sentence))
    if not heads:
        return NO_NOUN
    caption_words = {token.word for token in sentence.tokens}
    options = [
        (noun, word)
        for noun, phrase in heads
        if caption_words.isdisjoint(load_word_lists().bound.get(noun.word, ()))
        and not has_duplicate(sentence, noun)
        and (caption_words.isdisjoint(FEMININE) or _is_only_person(sentence, noun))
        for word in load_word_lists().replacements.get(noun.word, ())
        if not is_mentioned(sentence, word)
        and (not _is_amount(noun, phrase) or word in MASS | load_word_lists().countable_mass)
    ]
    if not options:
        return ALL_SAID
    noun, word = draw_item(rng, options)
    edits = [Edit(noun.start, noun.end, words.get_plural(word) if noun.plural else word)]
    pronouns = FEMININE if word in ("woman", "girl") else {}
    edits += [
        Edit(t.start, t.end, pronouns[t.word])
        for t in sentence.tokens
        if t.start > noun.end and t.word in pronouns
    ]
    return edits


def _is_only_person(sentence: Sentence, noun: WordMatch) -> bool:
    """Return whether "his" can mean nobody but a noun; a noun for a thing passes."""
    people = [token.word for token in sentence.tokens if token.word in load_word_lists().people]
    return noun.group not in ("person", "child") or len(people) == 1


def _is_amount(noun: WordMatch, phrase: TaggedPhrase) -> bool:
    """Return whether a noun names a substance: "a slice of pizza", "eating pizza"."""
    return not noun.plural and not phrase.determiners and bool(phrase.before)


def swap_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Exchange two nouns: two that may take each other's place, or two animals or two things beside each other."""
    pairs = [
        (a, b) for (a, p), (b, q) in combinations(iter_heads(sentence), 2) if _can_swap(sentence, a, b, p, q)
    ]
    if not pairs:
        return NO_TWO_NOUNS
    a, b = draw_item(rng, pairs)
    return [
        Edit(a.start, a.end, sentence.get_written_form(b)),
        Edit(b.start, b.end, sentence.get_written_form(a)),
    ]


def _can_swap(sentence: Sentence, a: WordMatch, b: WordMatch, p: TaggedPhrase, q: TaggedPhrase) -> bool:
    """Return whether the exchange of two nouns gives another meaning that a photograph may show."""
    if a.word == b.word or a.plural != b.plural or has_duplicate(sentence, a) or has_duplicate(sentence, b):
        return False
    between = sentence.text[a.end : q.start].lower().replace(",", " ").split()
    if has_pronoun(sentence) or _is_undirected(between, q):
        return False
    living = (a.group in words.LIVING, b.group in words.LIVING)
    if any({a.word, b.word} <= line for line in load_word_lists().swapped):
        return all(living) or {"of", "above", "on"}.isdisjoint(between)
    if living[0] != living[1]:
        return False
    relation = _strip_postures(between)
    if all(living):
        return relation in (*HORIZONTAL, *GAZE)
    if a.group == b.group and relation in BESIDE and p.before and p.before[-1].word in USING:
        return True
    movable = FIXED_PLACES.isdisjoint((a.group, b.group)) and "mirror" not in (a.word, b.word)
    return movable and relation in HORIZONTAL


def _is_undirected(between: list[str], second: TaggedPhrase) -> bool:
    """Return whether nothing tells two nouns apart: "a man standing next to a woman" and no more of either."""
    described = second.after and second.after[0].word in ("in", "with", "wearing", "holding", "riding", "who")
    joined = words.DETERMINERS | {"and", "or"}
    return words.UNDIRECTED.issuperset(between) and (joined.issuperset(between) or not described)


def _strip_postures(between: list[str]) -> str:
    """Return the relation without "is" and a posture: "is standing behind" gives "behind"."""
    skipped = words.POSTURES | {"is", "are", "parked", "sits", "stands", "placed", "directly"}
    return " ".join(word for word in between if word not in skipped)


def has_pronoun(sentence: Sentence) -> bool:
    """Return whether the caption says "his", "she" and the like: they would have to agree."""
    return any(token.word in PRONOUNS for token in sentence.tokens)
