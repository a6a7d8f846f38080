"""Assign parts of speech to caption words by lists and endings: good enough for shares over a set of texts.

It is not accurate for single sentences. As in the first step of Brill's tagger (1992), a word that no list
and no ending identifies is a noun. Directly after a determiner or an adjective, a form in -ing or -ed is not
a verb: before a word of an open class it is an adjective, otherwise a noun.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, get_args

from caramel.sources.captions import words as lists
from caramel.sources.world.scenes import COLOURS, SIZES

WordClass = Literal[
    "noun",
    "verb",
    "adjective",
    "adverb",
    "preposition",
    "determiner",
    "pronoun",
    "conjunction",
    "number",
]
WORD_CLASSES: tuple[WordClass, ...] = get_args(WordClass)
_CLOSED: dict[WordClass, str] = {
    "determiner": "a an the this that these those some any no every each another both several many much few more most all "
    "other his her its their my your our",
    "number": "one two three four five six seven eight nine ten dozen hundred",
    "pronoun": "i you he she it we they him them me us who which what something someone everyone itself himself herself "
    "themselves there",
    "conjunction": "and or but nor while as if because so than",
    "preposition": "of in on at to with by from for into onto over under above below behind beside besides near inside outside "
    "underneath beneath between among amongst along across around against through toward towards without within upon off out "
    "up down like past beyond about during after before",
    "adverb": "not very too also just only together apart away back here now next close far still nearby alongside outdoors "
    "indoors upside ahead almost already again forward sideways well else",
    "verb": "is are was were be been being am has have had having do does did can could will would may might should must "
    "sit sits sat stand stands stood lie lies lay lays hold holds held wear wears wore ride rides rode eat eats ate walk "
    "walks run runs look looks play plays fly flies drive drives sleep sleeps hang hangs hung go goes get gets take takes "
    "make makes show shows seen shown made taken lit stop stops jump jumps carry carries watch watches pose poses",
    "adjective": "young old small large big little tall short long high low new hot cold warm cool empty full open closed "
    "clean dirty wet dry bright dark wooden metal plastic brown gray grey white tan beige gold golden silver blond blonde "
    "male female different same various own ready great good beautiful nice fresh modern vintage ornate fancy "
    "happy sad busy wide narrow thick thin heavy light deep shallow sunny cloudy rocky grassy snowy sandy muddy rural urban "
    "huge tiny giant multiple single double colorful colourful electric public adjacent pregnant outdoor indoor",
}


@functools.cache
def _build_lexicon() -> dict[str, WordClass]:
    """Return word -> class from the lists; closed classes win over adjectives, and adjectives over nouns."""
    looks = [*COLOURS, *SIZES, *lists.SAME_ADJECTIVE, *(w for of in lists.ADJECTIVES.values() for w in of)]
    nouns = [
        form
        for of in (*lists.NOUNS.values(), tuple(lists.SAME))
        for w in of
        for form in (w, lists.get_plural(w))
    ]
    known: dict[str, WordClass] = {**dict.fromkeys(_CLOSED["adjective"].split(), "adjective")}
    known |= dict.fromkeys(looks, "adjective")
    known |= dict.fromkeys((part for noun in nouns for part in noun.split() if part not in known), "noun")
    for name in ("verb", "adverb", "preposition", "conjunction", "pronoun", "number", "determiner"):
        known |= dict.fromkeys(_CLOSED[name].split(), name)
    return known


def list_known_words() -> Mapping[str, WordClass]:
    """Return word -> class of all words that the lists know."""
    return MappingProxyType(_build_lexicon())


def assign_word_classes(words: Sequence[str]) -> list[WordClass]:
    """Return the class of each word of a text; the words are in lower case."""
    classes: list[WordClass] = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        classes.append(_infer_word_class(word, classes[-1] if classes else None, following))
    return classes


def _infer_word_class(word: str, before: WordClass | None, following: str) -> WordClass:
    known = _build_lexicon().get(word)
    if known:
        return known
    if word[0].isdigit():
        return "number"
    if word.endswith("ly") and len(word) > 4:
        return "adverb"
    if word.endswith(("ing", "ed")) and len(word) > 4:
        if before not in ("determiner", "adjective"):
            return "verb"
        open_class = following and _build_lexicon().get(following, "noun") in ("noun", "adjective")
        return "adjective" if open_class else "noun"
    return "noun"
