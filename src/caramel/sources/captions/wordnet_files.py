"""Read WordNet's database files: words, their meanings, and the relations between meanings.

The files ``index.noun``, ``data.noun`` and so on (manual page wndb(5WN)) are read as they are designed: the
index is in memory, and a line of data is read at the offset that the index gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from caramel.errors import DataError
from caramel.interfaces.scene_graph import AtomType
from caramel.io.readers import iter_lines
from caramel.io.validators import format_value

PARTS: dict[AtomType, str] = {"obj": "noun", "att": "adj", "rel": "verb"}
# Endings of plurals and their replacements; other plurals are in noun.exc. Words in "ss" and words of two
# letters have no ending (manual page morphy(7WN), and WordNet's morph.c).
ENDINGS = {"s": "", "ses": "s", "xes": "x", "zes": "z", "ches": "ch", "shes": "sh", "men": "man", "ies": "y"}
_PLURAL = re.compile(r"\([^)]*\bplural\b")
ANTONYM, HYPERNYM, HYPONYM, SIMILAR = "!", "@", "~", "&"
INSTANCE = "@i"  # class of the pointers of proper names


class Synset(NamedTuple):
    """One meaning.

    Attributes:
        words: the words with this meaning.
        field: number of its lexicographer file, such as 5 for animals (manual page lexnames(5WN)).
        pointers: (pointer, offset of another synset, part of speech, words) of related synsets. The words are
            the number of a word here and of one there, from 1, as four hexadecimal digits; 0000: all of them.
        gloss: its definition, comments and examples.
        satellite: whether it is an adjective that is a kind of another one, its head: "huge" of "large".
    """

    words: tuple[str, ...]
    field: int
    pointers: tuple[tuple[str, int, str, str], ...]
    gloss: str
    satellite: bool


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
                int(fields[1]),
                tuple(
                    (rest[i], int(rest[i + 1]), rest[i + 2], rest[i + 3])
                    for i in range(0, 4 * int(fields[4 + 2 * count]), 4)
                ),
                gloss.strip(),
                fields[2] == "s",
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
        # "(plural) …", "(used in the plural) …"
        is_plural = any(_PLURAL.match(self.read_synset(offset).gloss) for offset in entry.offsets[:1])
        return is_plural or entry.tagged > other.tagged or named

    @cached_property
    def plurals(self) -> dict[str, str]:
        """Return singular -> its first irregular plural."""
        return {single: many for many, single in reversed(self.irregular.items())}

    def follow_pointers(self, offset: int, *symbols: str) -> Iterator[int]:
        """Yield the synsets of this part of speech to which a synset points."""
        part_of_speech = self._data.suffix[1]  # n, v, a
        for symbol, other, part, _ in self.read_synset(offset).pointers:
            if symbol in symbols and part.replace("s", "a") == part_of_speech:
                yield other

    def list_hypernyms(self, senses: Iterable[int]) -> frozenset[int]:
        """Return some synsets and all their hypernyms."""
        todo, visited = list(senses), set[int]()
        while todo:
            offset = todo.pop()
            if offset not in visited:
                visited.add(offset)
                todo += self.follow_pointers(offset, HYPERNYM)
        return frozenset(visited)

    def check_version(self) -> None:
        """Check that the first word of the index is at its offsets in the data file.

        Raises:
            DataError: the two files are of different versions of WordNet.
        """
        word = next(iter(self.entries), "")
        for offset in self.entries[word].offsets if word else ():
            if word not in self.read_synset(offset).words:
                raise DataError(
                    f"{str(self._data)!r} has no {word!r} at byte {offset}, where {str(self._index)!r} says that "
                    f"it is. Use index and data of the same version of WordNet."
                )


def _normalise_lemma(lemma: str) -> str:
    """Return a lemma as ordinary text: without underscores and the marker of an adjective's position."""
    return lemma.partition("(")[0].replace("_", " ").lower()


def open_wordnet(target: str) -> dict[AtomType, PartOfSpeechReader]:
    """Return the readers of nouns, adjectives and verbs of a folder of WordNet's files.

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
    parts = {atom_type: PartOfSpeechReader(folder, name) for atom_type, name in PARTS.items()}
    for part in parts.values():
        part.check_version()
    return parts
