"""Find words that exclude each other: nouns by WordNet's hypernyms (Ma et al. 2023, 4.1), others by kept lists.

A cousin is a word that shares the grand-hypernym with another. Most cousins are no foils: they are rare, are
meant in another sense, are still true, or demean people. ``docs/crepe.md`` lists what is left out and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from caramel.crepe import foil_words
from caramel.crepe.excluded_words import COMMON, DEMEANING, is_offensive_gloss
from caramel.crepe.predicate_contraries import list_contraries
from caramel.crepe.wordnet_files import PARTS, PartOfSpeechReader
from caramel.errors import DataError
from caramel.interfaces.scene_graph import Atom, AtomType
from caramel.sources.captions.words import NOUNS, SAME, get_plural

ANTONYM, HYPERNYM, HYPONYM = "!", "@", "~"
# Lexicographer files (manual page lexnames(5WN)) of what a photograph shows: animals, artifacts, parts of bodies,
# food, natural objects, places, plants and substances. A foil is in the file of the word that it replaces.
PHYSICAL = frozenset((5, 6, 8, 13, 15, 17, 20, 27))
FOOD, PERSON, PLANT = 13, 18, 20
LIVING = frozenset((5, PERSON, PLANT))
TOPS = 3  # the most general nouns
RANKS = 3  # a physical sense is searched among the first senses: later ones are rare
_WORD = re.compile(r"[\w-]+")


class WordNetThesaurus:
    """A thesaurus from WordNet's nouns and adjectives, and from kept lists of attributes and predicates."""

    def __init__(self, folder: Path, atoms: frozenset[Atom] | None = None) -> None:
        """Read the folder of WordNet's files.

        Args:
            folder: the folder.
            atoms: words of a corpus; only nouns among them replace a noun. None: any noun.
        """
        self._parts = {atom_type: PartOfSpeechReader(folder, name) for atom_type, name in PARTS.items()}
        self._nouns = self._parts["obj"]
        self._known = None if atoms is None else {word for atom_type, word in atoms if atom_type == "obj"}

    def check_files(self) -> None:
        """Raise a DataError if an index and its data are of different versions."""
        for part in self._parts.values():
            part.check_version()

    @lru_cache(262_144)  # noqa: B019  (a thesaurus lives as long as the program)
    def list_foils(self, atom_type: AtomType, word: str, owner: str = "") -> list[str]:
        """Return the words that can replace a word and are false where it is true; plurals for a plural."""
        if atom_type == "rel":
            return self._list_contraries(word, owner)
        if atom_type == "att":
            return self._list_attribute_foils(word, owner)
        head = self._find_head(word)
        single = self._nouns.find_singular(head)
        if single in foil_words.PERSONS:
            foils = list(foil_words.PERSONS[single])
        else:
            group = next((names for names in NOUNS.values() if SAME.get(single, single) in names), ())
            foils = [
                foil for foil in (*group, *self._iter_cousins(single)) if not self._may_be_same(foil, word)
            ]
        if single != head:
            foils = [self._nouns.plurals.get(foil, get_plural(foil)) for foil in foils]
        return [foil for foil in dict.fromkeys(foils) if self._known is None or foil in self._known]

    def _list_contraries(self, predicate: str, owner: str) -> list[str]:
        """Return the contraries of a predicate whose object is named ``owner``."""
        names = self._list_hypernyms(owner) if owner else frozenset[str]()
        place = owner not in foil_words.NOT_REPLACED and foil_words.NOT_OUTSIDE.isdisjoint(names)
        return list_contraries(predicate, prepositions=place)

    @lru_cache(1_048_576)  # noqa: B019
    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether ``general`` equals ``special``, or is its synonym or (nouns, verbs) its hypernym.

        The last word of a compound is more general: "sink" is true of a bathroom sink. A colour that people
        may call by another name, such as red and orange, has both names.
        """
        if general == special:
            return True
        if atom_type == "obj":
            return self._nouns.find_singular(general) in self._list_hypernyms(special)
        if atom_type == "att":
            same = foil_words.SAME_COLOUR
            names = foil_words.COLOURS.get(same.get(special, special), ())
            if same.get(general, general) in (same.get(special, special), *names):
                return True
        elif any(general in group and special in group for group in foil_words.SAME_PREDICATES):
            return True
        part = self._parts[atom_type]
        entry = part.entries.get(special)
        return entry is not None and general in _list_closure(part, entry.offsets[:1])

    def _list_attribute_foils(self, word: str, owner: str) -> list[str]:
        """Return attributes of the same kind that exclude one; else the antonyms of its first sense."""
        colour = foil_words.SAME_COLOUR.get(word, word)
        if colour in foil_words.COLOURS:
            near = (colour, *foil_words.COLOURS[colour])
            return [other for other in foil_words.COLOURS if other not in near]
        if word in foil_words.BY_OWNER:
            living, rest = foil_words.BY_OWNER[word]
            return list(living if self._is_upright(owner) else rest)
        foils = [other for group in foil_words.GROUPS if word in group for other in group if other != word]
        foils += foil_words.OPPOSITES.get(word, ())
        return list(dict.fromkeys(foils or self._iter_antonyms(word)))

    def _is_upright(self, owner: str) -> bool:
        """Return whether an object is a person, an animal or a plant."""
        sense = self._find_sense(self._nouns.find_singular(self._find_head(owner)))
        return sense is not None and self._nouns.read_synset(sense).field in LIVING

    def _iter_antonyms(self, word: str) -> Iterator[str]:
        """Yield the direct antonyms of an adjective's first sense that texts use."""
        part = self._parts["att"]
        entry = part.entries.get(word)
        for sense in entry.offsets[:1] if entry and entry.tagged else ():
            synset = part.read_synset(sense)
            number = synset.words.index(word) + 1
            for symbol, other, part_of_speech, words in synset.pointers:
                if symbol == ANTONYM and part_of_speech in "as" and int(words[:2], 16) in (0, number):
                    antonym = part.read_synset(other).words[max(int(words[2:], 16) - 1, 0)]
                    if self._is_printable(part, antonym) and part.entries[antonym].tagged:
                        yield antonym

    def _find_head(self, word: str) -> str:
        """Return the longest end of a compound that WordNet has: "sink" for "bathroom sink"."""
        parts = word.split(" ")
        ends = (" ".join(parts[i:]) for i in range(len(parts)))
        return next((end for end in ends if self._nouns.find_singular(end) in self._nouns.entries), word)

    def _find_sense(self, single: str) -> int | None:
        """Return the synset that a noun means in a caption; None if WordNet lacks the noun.

        It is the first sense that a photograph shows. A person stays a person, and a plant that is eaten is food.
        """
        entry = self._nouns.entries.get(single)
        if entry is None or not entry.offsets:
            return None
        if kind := foil_words.MEANT.get(single):
            for sense in entry.offsets:
                if kind in _list_closure(self._nouns, (sense,)):
                    return sense
        fields = {self._nouns.read_synset(sense).field: sense for sense in reversed(entry.offsets[:RANKS])}
        first = self._nouns.read_synset(entry.offsets[0]).field
        if first == PLANT:
            return fields.get(FOOD, entry.offsets[0])
        if first in (PERSON, TOPS):
            return entry.offsets[0]
        return next(
            (sense for field, sense in reversed(fields.items()) if field in PHYSICAL), entry.offsets[0]
        )

    def _iter_cousins(self, single: str) -> Iterator[str]:
        """Yield words that are first a cousin of a noun, and that texts use in this sense."""
        sense, nouns = self._find_sense(single), self._nouns
        if (
            sense is None
            or single in foil_words.NOT_REPLACED
            or nouns.read_synset(sense).field not in PHYSICAL
        ):
            return
        for cousin in dict.fromkeys(self._iter_cousin_senses(sense)):
            synset = nouns.read_synset(cousin)
            if synset.field == nouns.read_synset(sense).field:
                for word in synset.words:
                    entry = nouns.entries.get(word)
                    if entry and entry.tagged and self._find_sense(word) == entry.offsets[0] == cousin:
                        if self._is_printable(nouns, word):
                            yield word

    def _iter_cousin_senses(self, sense: int) -> Iterator[int]:
        """Yield the synsets two levels below a grand-hypernym, or one below a hypernym if the former is too general."""
        nouns = self._nouns
        for parent in nouns.follow_pointers(sense, HYPERNYM):
            if self._is_general(parent):
                continue
            yield from nouns.follow_pointers(parent, HYPONYM)
            for grand in nouns.follow_pointers(parent, HYPERNYM):
                if not self._is_general(grand, foil_words.GENERAL_GRANDS):
                    for aunt in nouns.follow_pointers(grand, HYPONYM):
                        yield from nouns.follow_pointers(aunt, HYPONYM)

    def _is_general(self, sense: int, also: frozenset[str] = frozenset()) -> bool:
        return self._nouns.read_synset(sense).words[0] in foil_words.GENERAL | also

    def _is_printable(self, part: PartOfSpeechReader, word: str) -> bool:
        """Return whether a word names something of its own, and has no meaning that demeans people."""
        if word in foil_words.NOT_REPLACED or word in DEMEANING:
            return False
        glosses = (part.read_synset(sense).gloss for sense in part.entries[word].offsets)
        return word in COMMON or not any(map(is_offensive_gloss, glosses))

    def _may_be_same(self, foil: str, word: str) -> bool:
        """Return whether a foil may be true of what a noun names, in any sense of both.

        That is the case for synonyms and hypernyms, if one is a part of the other compound, and if a definition
        uses the other word ("jacket: a short coat").
        """
        nouns = self._nouns
        single, other = (nouns.find_singular(self._find_head(name)) for name in (word, foil))
        if {foil, other} & {*word.split(" "), single} or single in foil.split(" "):
            return True
        known = [nouns.entries.get(name) for name in (single, other)]
        senses, others = (entry.offsets if entry else () for entry in known)
        if {foil, other} & _list_closure(nouns, senses) or single in _list_closure(nouns, others):
            return True
        glosses = [
            nouns.read_synset(all_senses[0]).gloss if all_senses else "" for all_senses in (senses, others)
        ]
        words = [_WORD.findall(gloss.partition('"')[0]) for gloss in glosses]
        return other in words[0] or single in words[1]

    @lru_cache(65_536)  # noqa: B019
    def _list_hypernyms(self, word: str) -> frozenset[str]:
        """Return the ends of a compound, the synonyms of a noun's sense, and all their hypernyms."""
        head = self._find_head(word)
        single = self._nouns.find_singular(head)
        sense = self._find_sense(single)
        parts = word.split(" ")
        ends = {self._nouns.find_singular(" ".join(parts[i:])) for i in range(len(parts))}
        return frozenset(ends) | _list_closure(self._nouns, () if sense is None else (sense,))


@lru_cache(65_536)
def _list_closure(part: PartOfSpeechReader, senses: tuple[int, ...]) -> frozenset[str]:
    """Return the words of some synsets and of all their hypernyms."""
    words: set[str] = set()
    todo, visited = list(senses), set[int]()
    while todo:
        offset = todo.pop()
        if offset not in visited:
            visited.add(offset)
            words.update(part.read_synset(offset).words)
            todo += part.follow_pointers(offset, HYPERNYM)
    return frozenset(words)


def load_wordnet_thesaurus(target: str, atoms: frozenset[Atom] | None = None) -> WordNetThesaurus:
    """Return the thesaurus of the folder of WordNet's files, ``index.noun``, ``data.noun`` …

    Args:
        target: the folder.
        atoms: words of a corpus; only nouns among them replace a noun. None: any noun.

    Raises:
        DataError: the folder lacks a file, or its files are of different versions.
    """
    folder = Path(target)
    wanted = [f"{file_type}.{name}" for name in PARTS.values() for file_type in ("index", "data")]
    lacking = [name for name in [*wanted, "noun.exc"] if not (folder / name).is_file()]
    if lacking:
        what = f"{target!r} lacks {', '.join(lacking)}" if folder.is_dir() else f"{target!r} is no folder"
        raise DataError(
            f"{what}: give the folder dict of WordNet 3.0 or 3.1 as published (wordnet.princeton.edu). Some "
            f"packages of it leave out the lists of irregular forms, *.exc."
        )
    thesaurus = WordNetThesaurus(folder, atoms)
    thesaurus.check_files()
    return thesaurus
