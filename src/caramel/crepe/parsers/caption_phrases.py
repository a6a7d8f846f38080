"""Join the words of fixed phrases before a caption is parsed, so that no parser takes them apart.

A general model of English reads "a hot dog" as a dog that is hot, and "a snow covered hill" as snow that
covered something. Captions are full of such names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from caramel.sources.captions.phrases import PLURAL

# Quantifiers, ordinals and words of comparison look like adjectives, but no image shows them in one object.
NOT_ATTRIBUTES = frozenset(
    (
        *(
            "several",
            "other",
            "many",
            "more",
            "most",
            "few",
            "fewer",
            "much",
            "various",
            "multiple",
            "numerous",
        ),
        *(
            "different",
            "same",
            "similar",
            "own",
            "such",
            "certain",
            "additional",
            "extra",
            "countless",
            "assorted",
        ),
        *(
            "next",
            "last",
            "first",
            "second",
            "third",
            "final",
            "main",
            "only",
            "entire",
            "whole",
            "respective",
        ),
        *(
            "another",
            "able",
            "ready",
            "available",
            "typical",
            "single",
            "double",
            "couple",
            "enough",
            "less",
            "all",
        ),
        *(
            "about",
            "close",
            "top",
            "looking",
            "covered",
            "filled",
            "made",
            "sized",
            "shaped",
            "multi",
            "semi",
        ),
    )
)
NAMES = (
    *("hot dog", "fire hydrant", "stop sign", "stop light", "traffic light", "street light", "street sign"),
    *(
        "cell phone",
        "smart phone",
        "parking meter",
        "parking lot",
        "living room",
        "dining room",
        "rest room",
        "bath tub",
    ),
    *(
        "teddy bear",
        "polar bear",
        "sun bear",
        "stuffed animal",
        "wild animal",
        "remote control",
        "video game",
    ),
    *("french fries", "double decker", "cutting board", "baseball bat", "tennis racket", "tennis court"),
    *("train station", "train track", "bathroom sink", "kitchen sink", "ski lift", "wine glass", "close up"),
    *("coffee table", "coffee cup", "stuffed bear", "motor bike", "surf board", "skate board", "side walk"),
)
PARTICIPLES = (
    *(
        "covered",
        "lined",
        "filled",
        "topped",
        "shaped",
        "colored",
        "coloured",
        "sized",
        "fashioned",
        "haired",
    ),
    *("legged", "handled", "wheeled", "striped", "tiled"),
)
# Nouns whose singular is another thing; a ski is one of two.
PLURAL_ONLY = PLURAL - {"skis"}
_NAMES = re.compile(rf"\b(?:{'|'.join(NAMES)})s?\b", re.IGNORECASE)
# "snow covered hill", but neither "table covered with snow" nor "a covered hill"
_PARTICIPLES = re.compile(
    rf"\b(?!(?:an?|the|his|her|its|their|is|are|was|and|with|of|in|on|very)\b)[a-z]+(?: | ?- ?)(?:{'|'.join(PARTICIPLES)})"
    r"(?= (?!in\b|with\b|by\b|of\b|on\b|up\b|to\b|and\b|at\b|for\b|from\b|like\b|a\b|the\b)[a-z])",
    re.IGNORECASE,
)


def find_fixed_phrases(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text, text[start:end], that are one word in meaning; they do not overlap."""
    end = 0
    for match in sorted(m.span() for p in (_NAMES, _PARTICIPLES) for m in p.finditer(text)):
        if match[0] >= end:
            yield match
            end = match[1]
