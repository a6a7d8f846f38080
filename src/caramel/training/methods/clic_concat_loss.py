"""CLIC as published: two pictures joined are described by both captions in either order, and not where a word is exchanged.

The words are the same part of speech: nouns, or attributes, of the word lists (``sources.captions.words``), in place of a tagger's.
"""

from __future__ import annotations

import numpy as np

from caramel.interfaces.method import Method
from caramel.sources.captions.tokenization import Edit, Found, apply, scan
from caramel.training.methods import clic


def exchanged(first: str, second: str, rng: np.random.Generator) -> str | None:
    """Return both texts, joined, with a noun or an attribute of one in the place of that of the other; None: there are none.

    Never is it the texts the other way round, which is no negative.
    """
    options = [
        f"{_put(first, a, second, b)} {_put(second, b, first, a)}"
        for a in scan(first)
        for b in scan(second)
        if a.kind == b.kind != "relation" and a.plural == b.plural and a.word != b.word
    ]
    options = [text for text in options if text != f"{second} {first}"]
    return options[int(rng.integers(len(options)))] if options else None


def _put(text: str, place: Found, other: str, word: Found) -> str:
    return apply(text, [Edit(place.start, place.end, other[word.start : word.end])])


METHOD = Method(
    name="clic_joined",
    help="as `clic`, without negatives of its own: it joins halves of two pictures and their captions, both ways, and exchanges a "
    "word between these.",
    source=clic.METHOD.source,
    loss=clic.loss,
    weights=clic.METHOD.weights,
    joins=exchanged,
)
