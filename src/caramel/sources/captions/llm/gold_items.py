"""Make texts with known answers from the captions of a run, to measure its validator before anything else is sent.

One half says what its caption says: a copy, or a synonym of the kept list. The other half does not: a listed word is
replaced by one that excludes it, or the text is the caption of another image. The items are easy, so that what a
validator achieves on them is an upper bound.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.sources.captions import words
from caramel.sources.captions.tokenization import Edit, WordMatch, apply_edits, scan_words
from caramel.utils.text import build_word_pattern

# Words that say the same, in both directions and in all captions.
SYNONYMS = (
    ("couch", "sofa"),
    ("bicycle", "bike"),
    ("television", "TV"),
    ("airplane", "plane"),
    ("motorcycle", "motorbike"),
    ("refrigerator", "fridge"),
    ("photo", "photograph"),
    ("big", "large"),
    ("gray", "grey"),
    ("next to", "beside"),
    ("close to", "near"),
    ("underneath", "under"),
    ("on top of", "on"),
)
_SYNONYMS = {word.lower(): other for pair in SYNONYMS for word, other in (pair, pair[::-1]) if word != "on"}
_SYNONYM = re.compile(
    rf"\b(?:{'|'.join(sorted(map(re.escape, _SYNONYMS), key=len, reverse=True))})\b", re.IGNORECASE
)
COPY, SYNONYM, OTHER_CAPTION = "copy", "synonym", "caption of another image"


class GoldItem(NamedTuple):
    """A caption, a text, how it was made, and whether it says the same of an image; if not, it does not follow."""

    caption: str
    text: str
    edit: str
    same: bool


def build_gold_items(pairs: pd.DataFrame, number: int, seed: int) -> list[GoldItem]:
    """Return up to ``number`` items, one of each half from a caption, in an order that depends on the seed alone.

    Args:
        pairs: table ``pairs``.
        number: largest number of items.
        seed: draws captions and edits.
    """
    images: dict[str, set[str]] = defaultdict(set)
    for caption, image_id in zip(pairs["caption"], pairs["image_id"], strict=True):
        if not caption.rstrip().endswith("?"):
            images[caption].add(image_id)
    order = sorted(images, key=lambda caption: (_hash_caption(caption, seed), caption))
    items: list[GoldItem] = []
    for index, caption in enumerate(order[: -(-number // 2)]):
        others = (order[(index + step) % len(order)] for step in range(1, len(order)))
        changed = _change_meaning(caption, np.random.default_rng([seed, _hash_caption(caption, seed)]))
        changed = changed or next(
            (
                (other, OTHER_CAPTION)
                for other in others
                if images[other].isdisjoint(images[caption]) and _are_unlike(caption, other)
            ),
            None,
        )
        items.append(GoldItem(caption, *_keep_meaning(caption), same=True))
        if changed is not None:
            items.append(GoldItem(caption, *changed, same=False))
    return items[:number]


def _hash_caption(caption: str, seed: int) -> int:
    return zlib.crc32(f"{seed} {caption}".encode())


def _keep_meaning(caption: str) -> tuple[str, str]:
    """Return the caption with a synonym, or else a copy in other case and punctuation, and which it is."""
    match = _SYNONYM.search(caption)
    if match is None:
        text = caption.rstrip(" .!")
        return (text[:1].lower() + text[1:] if text != text.lower() else f"{text}."), COPY
    return apply_edits(caption, [Edit(*match.span(), _SYNONYMS[match.group().lower()])]), SYNONYM


def _change_meaning(caption: str, rng: np.random.Generator) -> tuple[str, str] | None:
    """Return the caption with a word replaced by one that excludes it, and the subtype; None if no word is known."""
    options = [
        (match, *option) for match in scan_words(caption) for option in _list_exclusive(caption, match)
    ]
    if not options:
        return None
    subtypes = sorted({subtype for *_, subtype in options})
    subtype = subtypes[int(rng.integers(len(subtypes)))]
    drawn = [(match, word) for match, word, name in options if name == subtype]
    match, word = drawn[int(rng.integers(len(drawn)))]
    return apply_edits(caption, [Edit(match.start, match.end, word)]), subtype


def _list_exclusive(caption: str, match: WordMatch) -> Iterator[tuple[str, str]]:
    """Yield the words that exclude a known word of a caption and are new in it, and the subtype of the change."""
    known = set(build_word_pattern(caption).findall(caption.lower()))
    if match.word_type == "noun":
        options = [(word, "replace_obj") for word in words.NOUNS[match.group]]
    elif match.word_type == "attribute":
        options = [(word, "replace_att") for word in words.ADJECTIVES[match.group]]
    else:
        options = [(words.CONTRARY[match.word], "replace_rel")]
    for word, subtype in options:
        if word != match.word and not set(word.split()) <= known:
            yield words.get_plural(word) if match.plural else word, subtype


def _are_unlike(first: str, second: str) -> bool:
    """Return whether two captions share few words besides the commonest."""
    one, other = (
        set(build_word_pattern(text).findall(text.lower())) - words.FUNCTION_WORDS - words.DETERMINERS
        for text in (first, second)
    )
    return bool(one and other) and len(one & other) <= 0.2 * min(len(one), len(other))
