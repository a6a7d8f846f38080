"""Tell whether a caption stays true when a phrase is replaced: synonyms and more general words.

The word lists decide what they know. WordNet, where its folder is given, knows the others: nouns by their
synonyms and hypernyms, adjectives by their synonyms. Only the first sense of a word counts, because the
intended one is unknown and a good negative must not be refused for a rare one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions import words
from caramel.sources.captions.phrases import canonicalise_phrase
from caramel.sources.captions.relation_synonyms import is_weaker_relation
from caramel.sources.captions.wordnet_files import SIMILAR, PartOfSpeechReader, open_wordnet

# British spelling -> American spelling, of words in captions.
SPELLINGS = {
    **{"grey": "gray", "colour": "color", "coloured": "colored", "colourful": "colorful", "tyre": "tire"},
    **{"aeroplane": "airplane", "pyjamas": "pajamas", "moustache": "mustache", "jewellery": "jewelry"},
    **{"kerb": "curb", "theatre": "theater", "centre": "center", "plough": "plow", "yoghurt": "yogurt"},
    **{
        "harbour": "harbor",
        "armour": "armor",
        "parlour": "parlor",
        "neighbour": "neighbor",
        "storey": "story",
    },
    **{
        "licence": "license",
        "catalogue": "catalog",
        "fibre": "fiber",
        "doughnut": "donut",
        "ageing": "aging",
    },
}
# Words of one line are names of the same things in captions, though WordNet tells them apart.
SAME_NAMES = (
    ("man", "guy", "gentleman", "dude", "fellow"),
    ("woman", "lady"),
    ("boy", "lad"),
    ("child", "kid"),
    ("person", "human", "individual", "someone", "somebody"),
    ("picture", "photo", "photograph", "image"),
    ("road", "street"),
    ("rock", "stone"),
    ("ocean", "sea"),
    ("cup", "mug"),
    ("rug", "carpet"),
    ("trash can", "garbage can", "dustbin"),
)
# Groups of the word lists whose name is one of their words' names: a dog is an animal, but a spoon no kitchen.
GROUPS = frozenset(
    ("person", "child", "vehicle", "animal", "food", "furniture", "appliance", "room", "building")
)
# WordNet's numbers of the fields of what images show: animals, artefacts, body parts, food, natural objects,
# persons, plants and substances (manual page lexnames(5WN)).
VISIBLE = frozenset((5, 6, 8, 13, 17, 18, 20, 27))
_COMPOUNDS = frozenset(name for members in words.NOUNS.values() for name in members if " " in name)


@dataclass(frozen=True)
class LexicalEntailment:
    """Compares phrases by the word lists, and by WordNet: ``wordnet`` is its folder, None for the lists alone."""

    wordnet: str | None

    def check_files(self) -> None:
        """Raise a DataError if the folder lacks a file of WordNet, or its files are of different versions."""
        if self.wordnet is not None:
            _load_wordnet(self.wordnet)

    def is_still_true(self, atom_type: AtomType, old: str, new: str) -> bool:
        """Return whether a caption that is true with a phrase stays true with another one in its place.

        Args:
            atom_type: what the phrases name.
            old: a thing, an attribute or a relation.
            new: what replaces it.
        """
        if atom_type == "rel":
            return is_weaker_relation(old, new)
        before, after = _canonicalise(old), _canonicalise(new)
        if not before or not after:
            return False
        if atom_type == "att":
            return before == after or self._is_same_attribute(" ".join(before), " ".join(after))
        return self._is_more_general(before, after)

    def is_synonym(self, atom_type: AtomType, first: str, second: str) -> bool:
        """Return whether two phrases say the same."""
        return self.is_still_true(atom_type, first, second) and self.is_still_true(atom_type, second, first)

    def _is_more_general(self, before: tuple[str, ...], after: tuple[str, ...]) -> bool:
        """Return whether a thing's name is one of another thing's, after the modifiers that both have are left out."""
        names = set(self._list_names(before))
        for length in range(1, len(after) + 1):
            if set(after[:-length]) <= set(before[:-1]) and " ".join(after[-length:]) in names:
                return True
        return False

    def _list_names(self, phrase: tuple[str, ...]) -> Iterator[str]:
        """Yield the name of a thing, that without its modifiers, their synonyms and more general names.

        A known compound is not cut: a hot dog is no dog.
        """
        for start in range(len(phrase)):
            name = " ".join(phrase[start:])
            others = {other for line in SAME_NAMES if name in line for other in line}
            others |= {group for group in GROUPS if name in words.NOUNS[group]}
            others |= _list_hypernyms(self.wordnet, name) if self.wordnet is not None else set()
            yield from (name, *others)
            if others or name in _COMPOUNDS:
                return

    def _is_same_attribute(self, before: str, after: str) -> bool:
        """Return whether an adjective is a synonym of another one, or the head of its cluster: crimson is red."""
        if self.wordnet is None:
            return False
        part = _load_wordnet(self.wordnet)["att"]
        first, second = _find_first_sense(part, before), _find_first_sense(part, after)
        if first is None or second is None:
            return False
        heads = part.follow_pointers(first, SIMILAR) if part.read_synset(first).satellite else ()
        return first == second or second in heads


BY_LISTS = LexicalEntailment(None)


@functools.cache
def _load_wordnet(folder: str) -> dict[AtomType, PartOfSpeechReader]:
    return open_wordnet(folder)


def _find_first_sense(part: PartOfSpeechReader, word: str) -> int | None:
    """Return the synset of a word's most frequent sense; for a plural, that of its singular."""
    entry = part.entries.get(part.find_singular(word))
    return next(iter(entry.offsets), None) if entry else None


@functools.lru_cache(65_536)
def _list_hypernyms(folder: str, name: str) -> frozenset[str]:
    """Return the synonyms and hypernyms that a noun has in all its senses that texts use, or in all if they use none.

    A word counts only in its own first sense. Nouns whose first sense is nothing visible have none.
    """
    part = _load_wordnet(folder)["obj"]
    entry = part.entries.get(part.find_singular(name))
    if entry is None or part.read_synset(entry.offsets[0]).field not in VISIBLE:
        return frozenset()
    senses = [o for o in entry.offsets[: entry.tagged or None] if part.read_synset(o).field in VISIBLE]
    common = frozenset.intersection(*(part.list_hypernyms([sense]) for sense in senses))
    return frozenset(
        word
        for offset in common
        for word in part.read_synset(offset).words
        if _find_first_sense(part, word) == offset
    )


@functools.lru_cache(65_536)
def _canonicalise(phrase: str) -> tuple[str, ...]:
    """Return the words of a phrase, without articles, in one form for spellings, both numbers and listed synonyms."""
    spelled = (SPELLINGS.get(word, word) for word in phrase.lower().split())
    return canonicalise_phrase(" ".join(spelled))
