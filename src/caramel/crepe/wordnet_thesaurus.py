"""A thesaurus from WordNet's nouns and adjectives, and from kept lists of attributes and predicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from caramel.crepe import noun_lists
from caramel.crepe.attribute_kinds import (
    AGES,
    COMMON_ATTRIBUTES,
    SIZES,
    UNREPLACED,
    is_colour,
    list_attribute_foils,
    may_be_called,
)
from caramel.crepe.excluded_words import is_printable
from caramel.crepe.foil_fits import Meaning, can_say, may_replace_noun
from caramel.crepe.noun_cousins import NounCousins, list_closure
from caramel.crepe.predicate_contraries import (
    INSIDE,
    ON_TOP,
    PREPOSITIONS,
    SLOPES,
    is_same_predicate,
    list_contraries,
)
from caramel.interfaces.scene_graph import Atom, AtomType
from caramel.sources.captions.wordnet_files import ANTONYM, PartOfSpeechReader, open_wordnet

GROWN = frozenset(("adult", "adults"))  # nobody says "a little adult"


class WordNetThesaurus:
    """The thesaurus of a folder of WordNet's files."""

    def __init__(
        self, parts: Mapping[AtomType, PartOfSpeechReader], atoms: frozenset[Atom] | None = None
    ) -> None:
        """Use some files; ``atoms``: words of a corpus, whose nouns alone are foils of nouns; None: any noun."""
        self._parts = parts
        self._cousins = NounCousins(parts["obj"])
        self._known = None if atoms is None else {word for atom_type, word in atoms if atom_type == "obj"}

    @lru_cache(262_144)  # noqa: B019  (a thesaurus lives as long as the program)
    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        """Return the words that can replace a word and are false where it is true."""
        if atom_type == "rel":
            return self._list_contraries(word, owners)
        if atom_type == "att":
            owner = next(iter(owners), "")
            is_living = self._cousins.is_living(owner)
            if is_colour(word):
                colours = list_attribute_foils(word, owner, is_living=is_living)
                return [colour for colour in colours if self._cousins.may_have_colour(owner, colour)]
            foils = list_attribute_foils(word, self._cousins.find_single(owner), is_living=is_living)
            return foils or (list(self._iter_antonyms(word)) if word not in AGES | SIZES | UNREPLACED else [])
        if not may_replace_noun(relations, self._find_meaning(word), COMMON_ATTRIBUTES):
            return []
        has_attribute = any(predicate == "is" for _, predicate, _ in relations)
        return [
            foil
            for foil in self._cousins.list_foils(word)
            if (self._known is None or foil in self._known) and not (has_attribute and foil in GROWN)
        ]

    def _list_contraries(self, predicate: str, owners: tuple[str, ...]) -> list[str]:
        if not owners:
            return list_contraries(predicate)
        subject, other = owners
        if other in noun_lists.NOT_REPLACED or not self._cousins.is_physical(other):
            return []
        protected = self._list_protected_prepositions(other)
        ends = (self._find_meaning(subject), self._find_meaning(other))
        return list_contraries(
            predicate,
            protected,
            has_posture=ends[0].is_living,
            can_say=lambda contrary: can_say(contrary, *ends),
        )

    def _find_meaning(self, noun: str) -> Meaning:
        names = self._cousins.list_hypernyms(noun)
        is_person = "person" in names or bool(names & noun_lists.CROWDS)
        return Meaning(names, self._cousins.is_living(noun), is_person, self._cousins.is_activity(noun))

    @lru_cache(1_048_576)  # noqa: B019
    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether ``general`` equals ``special``, or is its synonym or (nouns, verbs) its hypernym.

        The last word of a compound is more general: "sink" is true of a bathroom sink. So are colours and
        predicates that people may say instead, such as "orange" for red and "near" for next to.
        """
        if general == special:
            return True
        part = self._parts[atom_type]
        if atom_type == "obj":
            return part.find_singular(general) in self._cousins.list_hypernyms(special)
        if atom_type == "att" and may_be_called(general, special):
            return True
        if atom_type == "rel" and is_same_predicate(general, special):
            return True
        entry = part.entries.get(special)
        return entry is not None and general in list_closure(part, entry.offsets[:1])

    def _list_protected_prepositions(self, owner: str) -> frozenset[str]:
        """Return the prepositions that have no contrary before an object, because it is no place of that form."""
        names = self._cousins.list_hypernyms(owner)
        if names & noun_lists.NOT_PLACES:
            return frozenset(PREPOSITIONS)
        wanted = (
            (noun_lists.ENCLOSING, INSIDE),
            (noun_lists.SUPPORTING, ON_TOP),
            (noun_lists.SLOPING, SLOPES),
        )
        return frozenset[str]().union(*(protected for needed, protected in wanted if not names & needed))

    def _iter_antonyms(self, word: str) -> Iterator[str]:
        """Yield the direct antonyms of an adjective's first sense, if texts use both."""
        part = self._parts["att"]
        entry = part.entries.get(word)
        for sense in entry.offsets[:1] if entry and entry.tagged else ():
            synset = part.read_synset(sense)
            number = synset.words.index(word) + 1
            for symbol, other, part_of_speech, words in synset.pointers:
                if symbol == ANTONYM and part_of_speech in "as" and int(words[:2], 16) in (0, number):
                    antonym = part.read_synset(other).words[max(int(words[2:], 16) - 1, 0)]
                    is_negation = word in antonym or antonym in word  # "impersonal" only denies "personal"
                    if part.entries[antonym].tagged and not is_negation and is_printable(part, antonym):
                        yield antonym


def load_wordnet_thesaurus(
    target: str, read_atoms: Callable[[], frozenset[Atom]] | None = None
) -> WordNetThesaurus:
    """Return the thesaurus of the folder of WordNet's files, ``index.noun``, ``data.noun`` …

    Args:
        target: the folder.
        read_atoms: returns the words of a corpus, whose nouns alone replace a noun; it is called once the files
            are checked. None: any noun.

    Raises:
        DataError: the folder lacks a file, or its files are of different versions.
    """
    parts = open_wordnet(target)
    return WordNetThesaurus(parts, None if read_atoms is None else read_atoms())
