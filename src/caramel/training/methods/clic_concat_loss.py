"""CLIC as published: two pictures joined are described by both captions in either order, and not where a word is exchanged.

The words are the same part of speech: nouns, or attributes, of the word lists (``sources.captions.words``), in place of a tagger's.
"""

from __future__ import annotations

import numpy as np

from caramel.interfaces.method import Method
from caramel.sources.captions.tokenization import Edit, WordMatch, apply_edits, scan_words
from caramel.training.methods import clic


def swap_words(first: str, second: str, rng: np.random.Generator) -> str | None:
    """Return both texts, joined, with a noun or an attribute of one in the place of that of the other; None: there are none.

    Never is it the texts the other way round, which is no negative.
    """
    options = [
        f"{_replace_word(first, a, second, b)} {_replace_word(second, b, first, a)}"
        for a in scan_words(first)
        for b in scan_words(second)
        if a.word_type == b.word_type != "relation" and a.plural == b.plural and a.word != b.word
    ]
    options = [text for text in options if text != f"{second} {first}"]
    return options[int(rng.integers(len(options)))] if options else None


def _replace_word(text: str, match: WordMatch, other: str, word: WordMatch) -> str:
    return apply_edits(text, [Edit(match.start, match.end, other[word.start : word.end])])


METHOD = Method(
    name="clic_joined",
    help="as `clic`, without negatives of its own: it joins halves of two pictures and their captions, both ways, and exchanges a "
    "word between these.",
    source=clic.METHOD.source,
    loss=clic.compute_loss,
    weights=clic.METHOD.weights,
    joins=swap_words,
)
