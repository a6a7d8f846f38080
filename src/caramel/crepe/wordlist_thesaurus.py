"""Use the word lists of the rule-based negatives as a thesaurus: few words, and no files."""

from __future__ import annotations

from collections.abc import Callable

from caramel.errors import ConfigError
from caramel.interfaces.scene_graph import Atom, AtomType
from caramel.sources.captions import words

_SAME = {**words.SAME, **words.SAME_ADJECTIVE}


class WordListThesaurus:
    """A thesaurus in which words of one group of the lists exclude each other."""

    def list_foils(
        self,
        atom_type: AtomType,
        word: str,
        owners: tuple[str, ...] = (),
        relations: tuple[tuple[str, str, str], ...] = (),
    ) -> list[str]:
        """Return the other words of the word's group; for a relation, the one that excludes it."""
        if atom_type == "rel":
            return [words.CONTRARY[word]] if word in words.CONTRARY else []
        same, groups = (
            (words.SAME, words.NOUNS) if atom_type == "obj" else (words.SAME_ADJECTIVE, words.ADJECTIVES)
        )
        meant = same.get(word, word)
        return [other for group in groups.values() if meant in group for other in group if other != meant]

    def is_more_general(self, atom_type: AtomType, general: str, special: str) -> bool:
        """Return whether both are the same word of the lists."""
        return _SAME.get(general, general) == _SAME.get(special, special)


def list_words(target: str, read_atoms: Callable[[], frozenset[Atom]] | None = None) -> WordListThesaurus:
    """Return the thesaurus of the lists, whose words are all common: a corpus does not change it.

    Raises:
        ConfigError: a target is given.
    """
    if target:
        raise ConfigError(f"The thesaurus 'lists' takes no target, but {target!r} is given: write lists.")
    return WordListThesaurus()
