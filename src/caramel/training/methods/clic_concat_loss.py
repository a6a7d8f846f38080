"""CLIC as published: join two images and their captions in both orders; swap two words for the negative.

The two words have the same part of speech: nouns or attributes. The word lists in ``sources.captions.words``
replace the paper's tagger.
"""

from __future__ import annotations

import numpy as np

from caramel.interfaces.method import Method
from caramel.sources.captions.tokenization import Edit, WordMatch, apply_edits, scan_words
from caramel.training.methods import clic


def swap_words(first: str, second: str, rng: np.random.Generator) -> str | None:
    """Return both texts joined, with a noun or an attribute of each swapped; None if no words can be swapped.

    The result is never ``second`` followed by ``first``, since that is not a negative.
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
    help="as `clic`, but without the rows' hard negatives: it joins halves of two images, and their captions "
    "in both orders. The negative swaps a word between the two captions.",
    source=clic.METHOD.source,
    loss=clic.compute_loss,
    weights=clic.METHOD.weights,
    joins=swap_words,
)
