"""WordNet's database files: synonyms, antonyms and words that share a grand-hypernym (Ma et al. 2023, 4.1).

The files ``index.noun``, ``data.noun`` and so on (manual page wndb(5WN)) are read as they are meant to be: the index is
held, and a line of data is read where the index says it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from caramel.errors import DataError
from caramel.interfaces.scene_graph import AtomKind
from caramel.io.readers import text_lines
from caramel.io.validators import brief
from caramel.sources.captions.words import CONTRARY, plural

PARTS: dict[AtomKind, str] = {"obj": "noun", "att": "adj", "rel": "verb"}
# Endings of plurals and what they stand for; plurals of other forms are in noun.exc. Neither words in "ss" nor words of two
# letters have an ending (manual page morphy(7WN), and WordNet's morph.c).
ENDINGS = {"s": "", "ses": "s", "xes": "x", "zes": "z", "ches": "ch", "shes": "sh", "men": "man", "ies": "y"}
SENSES = 1  # of a word that count, the most frequent first: what is meant is not known
_PLURAL = re.compile(r"\s*\([^)]*\bplural\b")  # "(plural) …", "(used in the plural) …"
ANTONYM, HYPERNYM, HYPONYM, SIMILAR = "!", "@", "~", "&"
INSTANCE = "@i"  # of a class: the pointer of a proper name


class Synset(NamedTuple):
    """One meaning.

    Attributes:
        words: that have it.
        pointers: (pointer, place of another synset, part of speech) of those that it is related to.
        plural: whether its gloss begins with a note that the words are plurals, as that of "glasses" does.
    """

    words: tuple[str, ...]
    pointers: tuple[tuple[str, int, str], ...]
    plural: bool


class Entry(NamedTuple):
    """A word in the index.

    Attributes:
        places: of its synsets in the data file, the most frequent sense first.
        tagged: number of its senses that WordNet's authors found in texts.
    """

    places: tuple[int, ...]
    tagged: int


class Part:
    """The words of one part of speech."""

    def __init__(self, folder: Path, name: str) -> None:
        self._index, self._data = folder / f"index.{name}", folder / f"data.{name}"
        self._irregular = folder / f"{name}.exc" if name == PARTS["obj"] else None

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Word -> its entry in the index."""
        found = {}
        for line in text_lines(self._index):
            if line.startswith(" "):  # the licence
                continue
            fields = line.split()
            try:
                count, pointers = int(fields[2]), int(fields[3])
                places = tuple(int(field) for field in fields[6 + pointers : 6 + pointers + count])
                found[_spoken(fields[0])] = Entry(places, int(fields[5 + pointers]))
            except (IndexError, ValueError):
                raise DataError(f"{str(self._index)!r} is no index of WordNet: {brief(line)}.") from None
        return found

    @lru_cache(65_536)  # noqa: B019  (a part lives as long as the program)
    def synset(self, place: int) -> Synset:
        """Return the synset at a place of the data file."""
        try:
            with self._data.open("rb") as file:
                file.seek(place)
                line, _, gloss = file.readline().decode("utf-8").partition("|")
            fields = line.split()
            count = int(fields[3], 16)
            words = tuple(_spoken(fields[4 + 2 * i]) for i in range(count))
            rest = fields[5 + 2 * count :]
            assert int(fields[0]) == place, place
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
                f"{str(self._data)!r} holds no synset of WordNet at byte {place}: {error}. Take index and data of one "
                f"version of WordNet."
            ) from error

    @cached_property
    def irregular(self) -> dict[str, str]:
        """Irregular plural -> its singular."""
        if self._irregular is None:
            return {}
        rows = (line.split() for line in text_lines(self._irregular))
        return {_spoken(row[0]): _spoken(row[1]) for row in rows if len(row) > 1}

    def base(self, word: str) -> str:
        """Return the singular of a plural, and any other word as it is.

        The singular comes first, as in morphy(7WN): "men" are no work force and "shoes" no situation, though both have such
        an entry. A plural stays where WordNet notes that its first sense is one ("glasses", "pants"), where more of its
        senses than of the singular's are found in texts ("gas" is no plural of the symbol "Ga"), or where the singular is
        first a proper name, which has no plural ("fries", and Roger Fry).
        """
        if self._irregular is None:
            return word
        forms = [self.irregular.get(word, word)]
        if len(word) > 2 and not word.endswith("ss"):
            forms += [word.removesuffix(end) + put for end, put in ENDINGS.items() if word.endswith(end)]
        singular = next((form for form in forms if form != word and form in self.entries), word)
        return word if self._is_own_noun(word, singular) else singular

    def _is_own_noun(self, word: str, singular: str) -> bool:
        """Return whether a plural is a noun of its own, and no form of the singular."""
        entry = self.entries.get(word)
        if entry is None:
            return False
        other = self.entries[singular]
        first = [self.synset(place) for place in other.places[:1]]  # a damaged index may name none
        named = any(kind == INSTANCE for synset in first for kind, *_ in synset.pointers)
        is_plural = any(self.synset(place).plural for place in entry.places[:1])
        return is_plural or entry.tagged > other.tagged or named

    @cached_property
    def plurals(self) -> dict[str, str]:
        """Singular -> its irregular plural, the first."""
        return {single: many for many, single in reversed(self.irregular.items())}

    def senses(self, word: str) -> tuple[int, ...]:
        """Return the synsets of a word's most frequent senses, of a plural those of its singular."""
        entry = self.entries.get(self.base(word))
        return entry.places[:SENSES] if entry else ()

    def follow(self, place: int, *kinds: str) -> Iterator[int]:
        """Yield the synsets of this part of speech to which a synset points."""
        own = self._data.suffix[1]  # n, v, a
        for kind, other, part in self.synset(place).pointers:
            if kind in kinds and part.replace("s", "a") == own:
                yield other


class WordNet:
    """A thesaurus of WordNet's files; relations that it does not know, such as "on top of", are of a list."""

    def __init__(self, folder: Path) -> None:
        self._parts = {kind: Part(folder, name) for kind, name in PARTS.items()}

    def foils(self, kind: AtomKind, word: str) -> list[str]:
        """Return antonyms, and words that share a grand-hypernym with a word and are neither its synonyms nor cover it.

        Adjectives have no hypernyms: they share that of the noun that they are, as colours do. Of plurals they are plurals.
        """
        found = dict.fromkeys([CONTRARY[word]] if kind == "rel" and word in CONTRARY else [])
        part = self._parts[kind]
        for sense in part.senses(word):
            near = [sense, *part.follow(sense, SIMILAR)]
            found |= dict.fromkeys(
                w for s in near for o in part.follow(s, ANTONYM) for w in part.synset(o).words
            )
        tree = self._parts["obj"] if kind == "att" else part
        for sense in tree.senses(word):
            for parent in tree.follow(sense, HYPERNYM):
                for grand in tree.follow(parent, HYPERNYM):
                    for aunt in tree.follow(grand, HYPONYM):
                        for cousin in tree.follow(aunt, HYPONYM):
                            found |= dict.fromkeys(tree.synset(cousin).words)
        many = kind == "obj" and part.base(word) != word
        return [
            part.plurals.get(foil, plural(foil)) if many else foil
            for foil in found
            if not self.covers(kind, foil, word)
            and not self.covers(kind, word, foil)
            and (kind != "att" or foil in part.entries)
        ]

    def covers(self, kind: AtomKind, general: str, special: str) -> bool:
        """Return whether a word is the other one, its synonym, or, of nouns and verbs, above it."""
        part = self._parts[kind]
        return general == special or part.base(general) in _above(part, special)


@lru_cache(65_536)
def _above(part: Part, word: str) -> frozenset[str]:
    """Return the synonyms of a word's senses, and all words above these."""
    words: set[str] = set()
    todo, seen = list(part.senses(word)), set[int]()
    while todo:
        place = todo.pop()
        if place not in seen:
            seen.add(place)
            words.update(part.synset(place).words)
            todo += part.follow(place, HYPERNYM)
    return frozenset(words)


def wordnet_words(target: str) -> WordNet:
    """Return the thesaurus of the folder of WordNet's files, ``index.noun``, ``data.noun`` …

    Raises:
        DataError: the folder lacks a file.
    """
    folder = Path(target)
    lacking = [
        f"{kind}.{name}"
        for name in PARTS.values()
        for kind in ("index", "data")
        if not (folder / f"{kind}.{name}").is_file()
    ]
    lacking += [] if (folder / "noun.exc").is_file() else ["noun.exc"]
    if lacking:
        raise DataError(
            f"{target!r} lacks {', '.join(lacking)}: give the folder dict of WordNet 3.0 or 3.1 (wordnet.princeton.edu)."
        )
    return WordNet(folder)


def _spoken(lemma: str) -> str:
    """Return a lemma as it is said: without underscores and the marker of an adjective's place."""
    return lemma.partition("(")[0].replace("_", " ").lower()
