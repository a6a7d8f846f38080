"""Correct the spelling of Visual Genome's descriptions, as Ma et al. 2023 (section 5) do.

The paper names no corrector. Here a word is corrected that is not in pyspellchecker's list of English words, to one
that the descriptions themselves often have: "bluw" to "blue", and not to "blow", which photographs seldom show. Only
words with one clear correction are changed: a wrong one gives a wrong caption, a word that stays costs one region.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from caramel.errors import BackendError

CLEAR = 10  # the correction is at least so many times as frequent as the word, and as the next correction
SHORTEST = 4  # letters of a word that is corrected: shorter ones have many neighbours
_LOWER_WORD = re.compile(rf"(?<![\w'’-])[a-z]{{{SHORTEST},}}(?![\w'’-])")

Corrector = Callable[[str], str]


def create_spelling_corrector(texts: Iterable[str]) -> Corrector:
    """Return a function that corrects the misspelt words of a text.

    A word is corrected if it is lower-case, of at least ``SHORTEST`` letters and no English word, and if one English
    word at one edit from it (a letter more, less or other, or two exchanged) is ``CLEAR`` times as frequent in
    ``texts`` as the word itself and as each other such word. "ing", "ed" and a plural's "s" make no other word.

    Args:
        texts: the descriptions; read once.

    Raises:
        BackendError: pyspellchecker is not installed.
    """
    try:
        from spellchecker import SpellChecker
    except ImportError as error:
        raise BackendError(
            "Spelling is corrected with pyspellchecker, which is not installed: pip install 'caramel[spelling]', or "
            "leave the spelling as it is."
        ) from error
    checker = SpellChecker(language="en", distance=1)
    counts = Counter(word for text in texts for word in _LOWER_WORD.findall(text))

    def is_known(word: str) -> bool:
        stems = [word, *(word.removesuffix(end) for end in ("s", "es", "ing", "ed") if word.endswith(end))]
        return any(stem in checker for stem in stems)

    @lru_cache(maxsize=1 << 16)
    def correct_word(word: str) -> str:
        if is_known(word):
            return word
        ranked = sorted(checker.candidates(word) or (), key=lambda candidate: (-counts[candidate], candidate))
        if not ranked or counts[ranked[0]] < CLEAR * max(1, *(counts[w] for w in (word, *ranked[1:2]))):
            return word
        return ranked[0]

    return lambda text: _LOWER_WORD.sub(lambda match: correct_word(match.group()), text)
