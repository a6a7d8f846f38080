"""Tell which words of a proposal no dictionary has: small models invent words ("a quarterglass man").

WordNet has no pronouns, few prepositions and few words that are newer than it; the word lists and a spaCy model
have those. A word is known in any form of it, and a compound with hyphens by its parts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from caramel.io.readers import iter_lines, read_text
from caramel.sources.captions import words
from caramel.sources.captions.spacy_models import load_spacy_model
from caramel.sources.captions.word_classes import list_known_words
from caramel.utils.text import build_word_pattern

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
SHORT = 2  # letters up to which a word passes: "tv", "3d"
# Ending of a form -> that of the word, after the rules of detachment of morphy(7WN).
ENDINGS = (
    *(("s", ""), ("es", "e"), ("es", ""), ("ies", "y"), ("men", "man")),
    *(("ed", "e"), ("ed", ""), ("ied", "y"), ("ing", "e"), ("ing", "")),
    *(("er", "e"), ("er", ""), ("est", "e"), ("est", ""), ("ier", "y"), ("iest", "y")),
)
STEM = 2  # least letters before an ending
_CONTRACTION = ("'s", "n't", "'re", "'ll", "'")


@dataclass(frozen=True)
class Vocabulary:
    """The words of WordNet, of the word lists and of a spaCy model.

    ``wordnet`` is WordNet's folder; ``spacy_model`` the name or folder of a spaCy model, None for none.
    """

    wordnet: str
    spacy_model: str | None

    def list_unknown_words(self, phrase: str, image_words: Collection[str]) -> list[str]:
        """Return the words of a phrase that neither the dictionaries nor an image's captions have.

        A word with a capital in a phrase that is not all in capitals is a name, and passes.

        Args:
            phrase: what a model proposes.
            image_words: words in the captions of the image, in lower case.

        Raises:
            DataError: WordNet's folder lacks a file.
        """
        known = _load_words(self.wordnet, self.spacy_model)
        tokens: list[str] = build_word_pattern(phrase).findall(phrase)
        tokens = [token for token in tokens if phrase.isupper() or token == token.lower()]
        lower = (token.lower().replace("’", "'") for token in tokens)
        return [word for word in lower if word not in image_words and not _is_known(word, known)]


@functools.cache
def _load_words(wordnet: str, spacy_model: str | None) -> frozenset[str]:
    """Return all known words, in lower case."""
    known = {*list_known_words(), *words.FUNCTION_WORDS, *words.DETERMINERS, *words.PREPOSITIONS}
    for name in PARTS_OF_SPEECH:
        index, irregular = Path(wordnet, f"index.{name}"), Path(wordnet, f"{name}.exc")
        lemmas = [_read_lemma(line) for line in iter_lines(index) if not line.startswith(" ")]
        known |= {
            word for lemma in lemmas for word in (lemma, *lemma.split("_"))
        }  # "ferris" of "ferris_wheel"
        known |= {_read_lemma(line) for line in iter_lines(irregular)}
    if spacy_model is not None:
        # As published: the store in memory also learns the words of each text that is parsed.
        strings = Path(load_spacy_model(spacy_model).path, "vocab", "strings.json")
        known |= {string.lower() for string in json.loads(read_text(strings))}
    return frozenset(known)


def _read_lemma(line: str) -> str:
    return line.partition(" ")[0].strip().lower()


def _is_known(word: str, known: frozenset[str]) -> bool:
    for ending in _CONTRACTION:
        word = word.removesuffix(ending)
    parts = [part for part in word.split("-") if len(part) > SHORT]
    joined = (word.replace("-", "_"), word.replace("-", ""))
    return not known.isdisjoint((word, *joined)) or all(
        part.isdigit() or not known.isdisjoint(_iter_forms(part)) for part in parts
    )


def _iter_forms(word: str) -> Iterator[str]:
    """Yield a word and the words of which it may be a form."""
    yield word
    for ending, put in ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= STEM:
            yield stem + put
            if not put and stem[-1:] == stem[-2:-1]:  # "sitting"
                yield stem[:-1]
