"""Find nouns that exclude a noun: words that share its grand-hypernym in WordNet (Ma et al. 2023, 4.1), filtered.

Most of these cousins are no foils: they are rare, are meant in another sense, are still true, or demean people.
``docs/crepe.md`` lists what is left out and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from caramel.crepe import noun_lists
from caramel.crepe.attribute_kinds import NATURAL_COLOURS
from caramel.crepe.excluded_words import is_printable
from caramel.sources.captions.phrases import is_plural
from caramel.sources.captions.wordnet_files import HYPERNYM, HYPONYM, PartOfSpeechReader
from caramel.sources.captions.words import SAME, get_plural

ACT, ANIMAL, BODY, FOOD, GROUP, PLACE, NATURAL, PERSON, PLANT = 4, 5, 8, 13, 14, 15, 17, 18, 20
OWN_COLOUR = frozenset((FOOD, GROUP, PLACE, NATURAL, PERSON, PLANT, 27))  # 27: substances
# Lexicographer files (manual page lexnames(5WN)) of what a photograph shows: animals, artifacts, parts of bodies,
# food, natural objects, places, plants and substances. A foil is in the file of the word that it replaces.
PHYSICAL = frozenset((5, 6, 8, FOOD, PLACE, 17, PLANT, 27))
LIVING = frozenset((5, PERSON, PLANT))
TOPS = 3  # the most general nouns
RANKS = 3  # a physical sense is searched among the first senses: later ones are rare
_WORD = re.compile(r"[\w-]+")


class NounCousins:
    """The nouns of WordNet, in the senses that captions mean."""

    def __init__(self, nouns: PartOfSpeechReader) -> None:
        self._nouns = nouns

    def list_foils(self, word: str) -> list[str]:
        """Return the nouns that exclude a noun; plurals for a plural, and "toilet" for "bathroom sink".

        The common words of a use come first, then the cousins. A person is replaced by the kept list alone.
        """
        head = self._find_head(word)
        single = self._nouns.find_singular(head)
        if single in noun_lists.INVARIANT | noun_lists.ALONE:
            return []
        if single in noun_lists.PERSONS:
            foils = list(noun_lists.PERSONS[single])
        else:
            same = SAME.get(single, single)
            grouped = [w for names in noun_lists.NOUN_GROUPS if same in names for w in sorted(names - {same})]
            foils = [w for w in grouped or self._iter_cousins(single) if not self._is_unfit(w, word)]
        if single != head:
            foils = [self._nouns.plurals.get(foil, get_plural(foil)) for foil in foils]
        return list(dict.fromkeys(foils))

    def find_single(self, word: str) -> str:
        """Return the singular of the longest end of a compound that WordNet has: "sink" for "bathroom sinks"."""
        return self._nouns.find_singular(self._find_head(word))

    def is_living(self, word: str) -> bool:
        """Return whether a noun names persons, animals or plants."""
        single = self.find_single(word)
        return single in noun_lists.LIVING or self._is_in_fields(single, LIVING)

    def is_physical(self, word: str) -> bool:
        """Return whether a noun names what a photograph shows."""
        return self.is_living(word) or self._is_in_fields(self.find_single(word), PHYSICAL)

    def is_activity(self, word: str) -> bool:
        """Return whether a noun names first what people do, such as a game."""
        entry = self._nouns.entries.get(self.find_single(word))
        return entry is not None and any(
            self._nouns.read_synset(sense).field == ACT for sense in entry.offsets[:1]
        )

    def may_have_colour(self, word: str, colour: str) -> bool:
        """Return whether a thing may have a colour: artifacts any, animals few; food, plants and places have their own."""
        single = self.find_single(word)
        if single in noun_lists.LIVING or self._is_in_fields(single, OWN_COLOUR):
            return False
        return colour in NATURAL_COLOURS or not self._is_in_fields(single, frozenset((ANIMAL, BODY)))

    def _is_in_fields(self, single: str, fields: frozenset[int]) -> bool:
        sense = self._find_sense(single)
        return sense is not None and self._nouns.read_synset(sense).field in fields

    @lru_cache(65_536)  # noqa: B019  (a thesaurus lives as long as the program)
    def list_hypernyms(self, word: str) -> frozenset[str]:
        """Return the ends of a compound, the synonyms of a noun's sense, and all their hypernyms."""
        sense = self._find_sense(self.find_single(word))
        ends = {self._nouns.find_singular(end) for end in _list_ends(word)}
        return frozenset(ends) | list_closure(self._nouns, () if sense is None else (sense,))

    def _find_head(self, word: str) -> str:
        entries = self._nouns.entries
        return next((end for end in _list_ends(word) if self._nouns.find_singular(end) in entries), word)

    def _find_sense(self, single: str) -> int | None:
        """Return the synset that a noun means in a caption; None if WordNet lacks the noun.

        It is the first sense that a photograph shows. A person stays a person, and a plant that is eaten is food.
        """
        entry = self._nouns.entries.get(single)
        if entry is None or not entry.offsets:
            return None
        if meant := noun_lists.MEANT.get(single):
            for sense in entry.offsets:
                if meant in list_closure(self._nouns, (sense,)):
                    return sense
        fields = [(self._nouns.read_synset(sense).field, sense) for sense in entry.offsets[:RANKS]]
        first, sense = fields[0]
        if first in (PERSON, TOPS):
            return sense
        wanted = frozenset((FOOD,)) if first == PLANT else PHYSICAL
        return next((other for field, other in fields if field in wanted), sense)

    def _iter_cousins(self, single: str) -> Iterator[str]:
        """Yield single words that are first a cousin of a noun, and that texts use in this sense.

        WordNet's compounds are terms of a field: "battering ram" for meter, "long bones" for teeth.
        """
        sense, nouns = self._find_sense(single), self._nouns
        if sense is None or single in noun_lists.NOT_REPLACED:
            return
        field = nouns.read_synset(sense).field
        if field not in PHYSICAL - {
            PLACE,
            NATURAL,
        }:  # places, as a park or a slope, share neither size nor preposition
            return
        for cousin in dict.fromkeys(self._iter_cousin_senses(sense)):
            synset = nouns.read_synset(cousin)
            for word in synset.words if synset.field == field else ():
                entry = nouns.entries.get(word)
                first = entry.offsets[0] if entry and entry.tagged else None
                is_meant = first == cousin == self._find_sense(word) and word not in noun_lists.NOT_REPLACED
                if is_meant and " " not in word and is_printable(nouns, word):
                    yield word

    def _iter_cousin_senses(self, sense: int) -> Iterator[int]:
        """Yield the synsets one level below a hypernym and two below a grand-hypernym that are not too general."""
        nouns = self._nouns
        for parent in nouns.follow_pointers(sense, HYPERNYM):
            if self._is_general(parent, noun_lists.GENERAL):
                continue
            yield from nouns.follow_pointers(parent, HYPONYM)
            for grand in nouns.follow_pointers(parent, HYPERNYM):
                if not self._is_general(grand, noun_lists.GENERAL | noun_lists.GENERAL_GRANDS):
                    for aunt in nouns.follow_pointers(grand, HYPONYM):
                        yield from nouns.follow_pointers(aunt, HYPONYM)

    def _is_general(self, sense: int, general: frozenset[str]) -> bool:
        return self._nouns.read_synset(sense).words[0] in general

    def _is_unfit(self, foil: str, word: str) -> bool:
        """Return whether a foil may be true of what a noun names, in any sense of both, or lacks its articles.

        The former is the case for things that look alike, for synonyms and hypernyms, if one is a part of the other
        compound, and if a definition uses the other word ("jacket: a short coat").
        """
        nouns = self._nouns
        single, other = self.find_single(word), self.find_single(foil)
        if is_plural(foil) or is_plural(other):  # "greens", whose singular WordNet has, and "bleachers"
            return True
        if (single in noun_lists.MASS) != (other in noun_lists.MASS):
            return True
        if {foil, other} & {*word.split(" "), single} or single in foil.split(" "):
            return True
        if any(single in group and other in group for group in noun_lists.ALIKE):
            return True
        senses, others = (e.offsets if (e := nouns.entries.get(name)) else () for name in (single, other))
        if {foil, other} & list_closure(nouns, senses) or single in list_closure(nouns, others):
            return True
        glosses = [nouns.read_synset(known[0]).gloss if known else "" for known in (senses, others)]
        words = [_WORD.findall(gloss.partition('"')[0]) for gloss in glosses]
        return other in words[0] or single in words[1]


def _list_ends(word: str) -> list[str]:
    parts = word.split(" ")
    return [" ".join(parts[i:]) for i in range(len(parts))]


@lru_cache(65_536)
def list_closure(part: PartOfSpeechReader, senses: tuple[int, ...]) -> frozenset[str]:
    """Return the words of some synsets and of all their hypernyms."""
    return frozenset(
        word for offset in part.list_hypernyms(senses) for word in part.read_synset(offset).words
    )
