"""Multiple-choice questions as SugarCrepe++ prints them, and how their replies are read.

``gpt4o_1`` to ``gpt4o_3`` are the prompts of section 3.3 (Table 8 of Dumpala et al. 2024), ``…_4shot`` and ``…_8shot``
the third after so many answered questions (Table 14), ``bakllava_…`` those of figure 7 (Table 18). A chat endpoint adds the image and
its model's own template. A published question has one order of the options, so a model asked in it gets one question for
each instance. Its options have numbers, so a reply with ``(1)`` is read as one with the first letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from caramel.evaluation.scores.prompt_templates import LETTERS, ORDERS


class PublishedWording(NamedTuple):
    """A question, with the places of its options in order, and the order: 0 at its end allows ``none``."""

    text: str
    order: str
    shots: int = 0  # answered questions that are shown before it (``demonstrations``)


_FIRST = "Do any of the following captions not match the image?"
_SECOND = "Do any of these captions fail to correspond with the image?"
_OPTIONS = "(1) {0}; (2) {1}; (3) {2}"
_ORDERED = (
    f"Which one of the three captions does not match the image? {_OPTIONS}; provide output as either (1), (2), or (3). "
    "Do not provide any explanation"
)
_THIRD = f"{_SECOND} {_OPTIONS}; provide output as (1), (2) or (3)"
PUBLISHED_WORDINGS: Mapping[str, PublishedWording] = {
    "gpt4o_1": PublishedWording(f"{_FIRST} {_OPTIONS}; provide output as (1), (2), (3) or none", "NPP0"),
    "gpt4o_2": PublishedWording(f"{_SECOND} {_OPTIONS}; provide output as (1), (2), (3) or none", "NPP0"),
    "gpt4o_3": PublishedWording(_THIRD, "NPP"),
    **{f"gpt4o_3_{shots}shot": PublishedWording(_THIRD, "NPP", shots) for shots in (4, 8)},
    **{f"bakllava_{order.lower()}": PublishedWording(_ORDERED, order) for order in ORDERS["odd"]},
}
_NUMBERED = re.compile(r"\(([1-3])\)")
_BARE = re.compile(
    r"\s*(?:(?:the\s+)?(?:answer|option|caption)(?:\s+is)?:?\s+)?([1-3])[.)]?\s*", re.IGNORECASE
)


def build_published_prompt(wording: str, captions: Sequence[str]) -> str:
    """Return the question of a published wording with its three captions in order."""
    return PUBLISHED_WORDINGS[wording].text.format(*(" ".join(caption.split()) for caption in captions))


def replace_numbers(reply: str) -> str:
    """Return a reply with letters for the numbers of options, as ``parse_choice`` reads them."""
    if bare := _BARE.fullmatch(reply):
        return LETTERS[int(bare[1]) - 1]
    return _NUMBERED.sub(lambda match: f"({LETTERS[int(match[1]) - 1]})", reply)
