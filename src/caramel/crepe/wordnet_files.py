"""A thesaurus from WordNet: synonyms, antonyms and words with the same grand-hypernym (Ma et al. 2023, 4.1)."""

from __future__ import annotations

from functools import lru_cache

from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions.wordnet_files import (
    ANTONYM,
    HYPERNYM,
    HYPONYM,
    SIMILAR,
    PartOfSpeechReader,
    open_wordnet,
)
from caramel.sources.captions.words import CONTRARY, get_plural

SENSES = 1  # senses of a word that count, the most frequent first: the intended sense is unknown


class WordNetThesaurus:
    """A thesaurus from WordNet's files; relations that WordNet lacks, such as "on top of", come from a list."""

    def __init__(self, parts: dict[AtomType, PartOfSpeechReader]) -> None:
        self._parts = parts

    def list_foils(self, atom_type: AtomType, word: str) -> list[str]:
        """Return antonyms, and words that share a grand-hypernym with the word.

        Synonyms, and words that cover the word or are covered by it, are left out.

        Adjectives have no hypernyms; those of the noun with the same form are used, as for colours. Foils of
        plurals are plurals.
        """
        candidates = dict.fromkeys([CONTRARY[word]] if atom_type == "rel" and word in CONTRARY else [])
        part = self._parts[atom_type]
        for sense in _list_senses(part, word):
            near = [sense, *part.follow_pointers(sense, SIMILAR)]
            candidates |= dict.fromkeys(
                w for s in near for o in part.follow_pointers(s, ANTONYM) for w in part.read_synset(o).words
            )
        tree = self._parts["obj"] if atom_type == "att" else part
        for sense in _list_senses(tree, word):
            for parent in tree.follow_pointers(sense, HYPERNYM):
                for grand in tree.follow_pointers(parent, HYPERNYM):
                    for aunt in tree.follow_pointers(grand, HYPONYM):
                        for cousin in tree.follow_pointers(aunt, HYPONYM):
                            candidates |= dict.fromkeys(tree.read_synset(cousin).words)
        many = atom_type == "obj" and part.find_singular(word) != word
        return [
            part.plurals.get(foil, get_plural(foil)) if many else foil
            for foil in candidates
            if not self.is_more_general(atom_type, foil, word)
            and not self.is_more_general(atom_type, word, foil)
            and (atom_type != "att" or foil in part.entries)
        ]

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether ``general`` equals ``special``, or is its synonym or (nouns, verbs) its hypernym."""
        part = self._parts[atom_type]
        return general == special or part.find_singular(general) in _list_hypernyms(part, special)


@lru_cache(65_536)
def _list_hypernyms(part: PartOfSpeechReader, word: str) -> frozenset[str]:
    """Return the synonyms of a word's senses, and all their hypernyms."""
    words: set[str] = set()
    todo, visited = list(_list_senses(part, word)), set[int]()
    while todo:
        offset = todo.pop()
        if offset not in visited:
            visited.add(offset)
            words.update(part.read_synset(offset).words)
            todo += part.follow_pointers(offset, HYPERNYM)
    return frozenset(words)


def wordnet_words(target: str) -> WordNetThesaurus:
    """Return the thesaurus of the folder of WordNet's files, ``index.noun``, ``data.noun`` …

    Raises:
        DataError: the folder lacks a file, or its files are of different versions.
    """
    return WordNetThesaurus(open_wordnet(target))


def _list_senses(part: PartOfSpeechReader, word: str) -> tuple[int, ...]:
    """Return the synsets of a word's most frequent senses; for a plural, those of its singular."""
    entry = part.entries.get(part.find_singular(word))
    return entry.offsets[:SENSES] if entry else ()
