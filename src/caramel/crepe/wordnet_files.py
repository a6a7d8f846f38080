"""Read WordNet's database files: synonyms, antonyms and words with the same grand-hypernym (Ma et al. 2023, 4.1).

The files ``index.noun``, ``data.noun`` and so on (manual page wndb(5WN)) are read as they are designed: the
index is in memory, and a line of data is read at the offset that the index gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from caramel.errors import DataError
from caramel.interfaces.scene_graph import AtomType
from caramel.io.readers import iter_lines
from caramel.io.validators import format_value
from caramel.sources.captions.words import CONTRARY, get_plural

PARTS: dict[AtomType, str] = {"obj": "noun", "att": "adj", "rel": "verb"}
# Endings of plurals and their replacements; other plurals are in noun.exc. Words in "ss" and words of two
# letters have no ending (manual page morphy(7WN), and WordNet's morph.c).
ENDINGS = {"s": "", "ses": "s", "xes": "x", "zes": "z", "ches": "ch", "shes": "sh", "men": "man", "ies": "y"}
SENSES = 1  # senses of a word that count, the most frequent first: the intended sense is unknown
_PLURAL = re.compile(r"\s*\([^)]*\bplural\b")  # "(plural) …", "(used in the plural) …"
ANTONYM, HYPERNYM, HYPONYM, SIMILAR = "!", "@", "~", "&"
INSTANCE = "@i"  # class of the pointers of proper names


class Synset(NamedTuple):
    """One meaning.

    Attributes:
        words: the words with this meaning.
        pointers: (pointer, offset of another synset, part of speech) of related synsets.
        plural: whether its gloss begins with a note that the words are plurals, such as that of "glasses".
    """

    words: tuple[str, ...]
    pointers: tuple[tuple[str, int, str], ...]
    plural: bool


class IndexEntry(NamedTuple):
    """A word in the index.

    Attributes:
        offsets: offsets of its synsets in the data file, the most frequent sense first.
        tagged: number of its senses that WordNet's authors found in texts.
    """

    offsets: tuple[int, ...]
    tagged: int


class PartOfSpeechReader:
    """The words of one part of speech."""

    def __init__(self, folder: Path, name: str) -> None:
        self._index, self._data = folder / f"index.{name}", folder / f"data.{name}"
        self._irregular = folder / f"{name}.exc" if name == PARTS["obj"] else None

    @cached_property
    def entries(self) -> dict[str, IndexEntry]:
        """Return word -> its entry in the index."""
        entries = {}
        for line in iter_lines(self._index):
            if line.startswith(" "):  # the licence
                continue
            fields = line.split()
            try:
                count, pointers = int(fields[2]), int(fields[3])
                offsets = tuple(int(field) for field in fields[6 + pointers : 6 + pointers + count])
                entries[_normalise_lemma(fields[0])] = IndexEntry(offsets, int(fields[5 + pointers]))
            except (IndexError, ValueError):
                raise DataError(
                    f"{str(self._index)!r} is not an index of WordNet: {format_value(line)}."
                ) from None
        return entries

    @lru_cache(65_536)  # noqa: B019  (a part lives as long as the program)
    def read_synset(self, offset: int) -> Synset:
        """Return the synset at an offset of the data file."""
        try:
            with self._data.open("rb") as file:
                file.seek(offset)
                line, _, gloss = file.readline().decode("utf-8").partition("|")
            fields = line.split()
            count = int(fields[3], 16)
            words = tuple(_normalise_lemma(fields[4 + 2 * i]) for i in range(count))
            rest = fields[5 + 2 * count :]
            assert int(fields[0]) == offset, offset
            return Synset(
                words,
                tuple(
                    (rest[i], int(rest[i + 1]), rest[i + 2])
                    for i in range(0, 4 * int(fields[4 + 2 * count]), 4)
                ),
                _PLURAL.match(gloss) is not None,
            )
        except (OSError, IndexError, ValueError, AssertionError) as error:
            raise DataError(
                f"{str(self._data)!r} has no synset of WordNet at byte {offset}: {error}. Use index and data "
                f"of the same version of WordNet."
            ) from error

    @cached_property
    def irregular(self) -> dict[str, str]:
        """Return irregular plural -> its singular."""
        if self._irregular is None:
            return {}
        rows = (line.split() for line in iter_lines(self._irregular))
        return {_normalise_lemma(row[0]): _normalise_lemma(row[1]) for row in rows if len(row) > 1}

    def find_singular(self, word: str) -> str:
        """Return the singular of a plural; return any other word unchanged.

        The singular is preferred, as in morphy(7WN): "men" does not mean a work force and "shoes" not a
        situation, though both words have such an entry. A plural stays unchanged in three cases:

        - WordNet notes that its first sense is a plural ("glasses", "pants").
        - More of its senses than of the singular's are found in texts ("gas" is not the plural of the symbol
          "Ga").
        - The singular is first a proper name, which has no plural ("fries", and Roger Fry).
        """
        if self._irregular is None:
            return word
        forms = [self.irregular.get(word, word)]
        if len(word) > 2 and not word.endswith("ss"):
            forms += [word.removesuffix(end) + put for end, put in ENDINGS.items() if word.endswith(end)]
        singular = next((form for form in forms if form != word and form in self.entries), word)
        return word if self._is_separate_noun(word, singular) else singular

    def _is_separate_noun(self, word: str, singular: str) -> bool:
        """Return whether a plural is a noun of its own and not a form of the singular."""
        entry = self.entries.get(word)
        if entry is None:
            return False
        other = self.entries[singular]
        first = [self.read_synset(offset) for offset in other.offsets[:1]]  # a damaged index may name none
        named = any(symbol == INSTANCE for synset in first for symbol, *_ in synset.pointers)
        is_plural = any(self.read_synset(offset).plural for offset in entry.offsets[:1])
        return is_plural or entry.tagged > other.tagged or named

    @cached_property
    def plurals(self) -> dict[str, str]:
        """Return singular -> its first irregular plural."""
        return {single: many for many, single in reversed(self.irregular.items())}

    def list_senses(self, word: str) -> tuple[int, ...]:
        """Return the synsets of a word's most frequent senses; for a plural, those of its singular."""
        entry = self.entries.get(self.find_singular(word))
        return entry.offsets[:SENSES] if entry else ()

    def follow_pointers(self, offset: int, *symbols: str) -> Iterator[int]:
        """Yield the synsets of this part of speech to which a synset points."""
        part_of_speech = self._data.suffix[1]  # n, v, a
        for symbol, other, part in self.read_synset(offset).pointers:
            if symbol in symbols and part.replace("s", "a") == part_of_speech:
                yield other


class WordNetThesaurus:
    """A thesaurus from WordNet's files; relations that WordNet lacks, such as "on top of", come from a list."""

    def __init__(self, folder: Path) -> None:
        self._parts = {atom_type: PartOfSpeechReader(folder, name) for atom_type, name in PARTS.items()}

    def list_foils(self, atom_type: AtomType, word: str) -> list[str]:
        """Return antonyms, and words that share a grand-hypernym with the word.

        Synonyms, and words that cover the word or are covered by it, are left out.

        Adjectives have no hypernyms; those of the noun with the same form are used, as for colours. Foils of
        plurals are plurals.
        """
        candidates = dict.fromkeys([CONTRARY[word]] if atom_type == "rel" and word in CONTRARY else [])
        part = self._parts[atom_type]
        for sense in part.list_senses(word):
            near = [sense, *part.follow_pointers(sense, SIMILAR)]
            candidates |= dict.fromkeys(
                w for s in near for o in part.follow_pointers(s, ANTONYM) for w in part.read_synset(o).words
            )
        tree = self._parts["obj"] if atom_type == "att" else part
        for sense in tree.list_senses(word):
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
    todo, visited = list(part.list_senses(word)), set[int]()
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
        DataError: the folder lacks a file.
    """
    folder = Path(target)
    lacking = [
        f"{file_type}.{name}"
        for name in PARTS.values()
        for file_type in ("index", "data")
        if not (folder / f"{file_type}.{name}").is_file()
    ]
    lacking += [] if (folder / "noun.exc").is_file() else ["noun.exc"]
    if lacking:
        raise DataError(
            f"{target!r} lacks {', '.join(lacking)}: give the folder dict of WordNet 3.0 or 3.1 "
            f"(wordnet.princeton.edu)."
        )
    return WordNetThesaurus(folder)


def _normalise_lemma(lemma: str) -> str:
    """Return a lemma as ordinary text: without underscores and the marker of an adjective's position."""
    return lemma.partition("(")[0].replace("_", " ").lower()
