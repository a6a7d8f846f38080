"""Build the prompts of multiple-choice questions; ``choice_parser`` parses the responses.

SugarCrepe++ (Dumpala et al. 2024, 3.3 and G.1) shows the image, two true captions and the negative, and asks which
one does not match. With two captions the question is which one is true. The wordings are our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Form = Literal["odd", "true"]  # find the caption that is not true of the image, or the one that is
LETTERS = "ABCD"
NONE = "none of these captions"  # the optional last option
# Orders of true captions (P) and the negative (N); the first P is always the first true caption.
ORDERS: Mapping[Form, tuple[str, ...]] = {"odd": ("NPP", "PNP", "PPN"), "true": ("PN", "NP")}

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


def list_captions(order: str, true: Iterable[str], negative: str) -> tuple[str, ...]:
    """Return the captions in an order of ``ORDERS``; a 0 at its end, for ``NONE``, has no caption."""
    rest = iter(true)
    return tuple(next(rest) if sign == "P" else negative for sign in order.strip("0"))


def build_prompt(form: Form, wording: str, captions: Sequence[str], *, none: bool) -> str:
    """Return the question with the captions as lettered options; with ``none``, ``NONE`` is the last option."""
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
