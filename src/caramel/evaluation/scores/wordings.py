"""Multiple choice in words: how a question is put, and which option a reply names.

SugarCrepe++ (Dumpala et al. 2024, 3.3 and G.1) shows the image, two true captions and the negative, and asks
which one does not match; with two captions the question is which one is true. The wordings are our own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

Form = Literal["odd", "true"]  # find the caption that is not true of the image, or the one that is
LETTERS = "ABCD"
NONE = "none of these captions"  # the option that may stand last

WORDINGS: Mapping[Form, Mapping[str, str]] = {
    "odd": {
        "plain": "Here are {count} captions of this image. Which caption is not true of it?",
        "fit": "Which of these captions does not fit the picture?",
        "check": (
            "Compare each caption with what can be seen here. Which one says something that the image "
            "does not show?"
        ),
    },
    "true": {
        "plain": "Here are {count} captions. Which caption is true of this image?",
        "fit": "Which of these captions fits the picture?",
        "check": (
            "Compare each caption with what can be seen here. Which one says nothing but what the image shows?"
        ),
    },
}

# What may stand before the letter. "The right caption is B" is no such lead: asked for the caption that is
# *not* true, it could mean either.
_LEAD = r"""(?:
    (?:(?:the|my)\s+)?(?:(?:(?:correct|right|best|final)\s+)?(?:answer|option|choice)|caption|letter)
    (?:\s+is)?(?:\s*:\s*|\s+)(?:(?:option|caption|letter)\s+)?
)?"""
_NAMED = re.compile(
    _LEAD
    + r"""["'(\[{<]? (?P<letter>[A-D]) (?P<rest>
        ["')\]}>.,;:!]*\s*                      # nothing more
        | ["'\]}>]*[):] .*                      # B) text, B: text
        | ["')\]}>]*[.,;!]?\s*\n.*              # text on the next line
        | ["')\]}>]*(?:[.,;!]|\s+[-–—]|,?\s+because)\s.*
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_NONE = re.compile(
    _LEAD + r"(?:none|neither)(?:\s+of\s+(?:them|the|these|those))?(?:\s+(?:above|captions|options))?[.!]?",
    re.IGNORECASE | re.VERBOSE,
)


def prompt(form: Form, wording: str, captions: Sequence[str], *, none: bool) -> str:
    """Return the question with the captions as lettered options, and ``none`` of them as the last one."""
    options = [" ".join(caption.split()) for caption in captions] + [NONE] * none
    letters = LETTERS[: len(options)]
    lines = [f"{letter}. {option}" for letter, option in zip(letters, options, strict=True)]
    return "\n".join(
        [
            WORDINGS[form][wording].format(count=len(captions)),
            "",
            *lines,
            "",
            f"Reply with the letter of your option alone: {', '.join(letters[:-1])} or {letters[-1]}.",
        ]
    )


def chosen(reply: str, captions: Sequence[str], *, none: bool) -> int | None:
    """Return the place of the option that a reply names; None if it names no single one.

    A reply is understood that starts with a letter, as in ``B``, ``(b)``, ``Option B.``, ``The answer is B
    because …`` or ``B) caption``; the captions themselves may be cut. It is not understood where it names
    two options, an option that there is not, or an option by the caption of another.

    Args:
        reply: what the model said.
        captions: options, in order.
        none: whether ``none`` is the last option.
    """
    text = re.sub(r"[*`#]+", "", reply).strip()  # Markdown
    if none and _NONE.fullmatch(text):
        return len(captions)
    options = [_words(caption) for caption in [*captions, *[NONE] * none]]
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    place, rest = LETTERS.index(found["letter"].upper()), re.findall(r"\w+", found["rest"])
    if place >= len(options) or (rest and found["letter"].islower()):  # "a" may be an article
        return None
    said, own = " ".join(rest).lower(), " ".join(options[place])
    others = [" ".join(option) for option in options if option != options[place]]
    if said in others:
        return None
    if _words(found["rest"])[: len(options[place])] == options[place]:
        rest = rest[len(options[place]) :]
    elif len(rest) > 1 and own.startswith(said):  # one word could be another letter
        rest = []
    elif any(said.startswith(other) for other in others):
        return None
    named = {word for word in rest if word in LETTERS[: len(options)]}
    return place if named <= {found["letter"]} else None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
