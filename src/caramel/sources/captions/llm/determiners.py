"""Fit what is before a noun to the noun that replaces it: "a dog" becomes "some snow", "snow" becomes "a river"."""

from __future__ import annotations

import re

from caramel.sources.captions import words
from caramel.sources.captions.phrases import MASS, is_plural
from caramel.sources.captions.tokenization import Edit, scan_words
from caramel.utils.text import build_word_pattern

PREPOSITIONS = words.PREPOSITIONS.union(
    ("of", "to", "from", "over", "across", "along", "through", "into", "onto", "above")
)
# Determiners that mass nouns have, too
_ANY_NOUN = frozenset(("a", "an", "the", "some", "his", "her", "its", "their"))
_COUNTING = (words.DETERMINERS - _ANY_NOUN).union(
    ("five", "six", "seven", "eight", "nine", "ten", "both", "few", "multiple", "numerous", "various"),
    ("each", "every", "another", "these", "those"),
)
_GROUP = re.compile(
    r"\b(?:couple|pair|group|herd|flock|crowd|team|dozens?|number|variety|set|row) of $", re.IGNORECASE
)
_PLURAL_VERB = re.compile(r"\s+(?:are|were|have)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(an?) $", re.IGNORECASE)


def fit_determiner(caption: str, edit: Edit) -> Edit | None:
    """Return the edit that replaces a noun, with an article added or replaced by "some" where the new noun needs it.

    Return None if the new noun cannot stand there: "two snow", "a white snow", "some river".
    """
    old, before = caption[edit.start : edit.end], caption[: edit.start]
    determiner = _find_determiner(caption, edit.start)
    if is_without_article(edit.new):
        return _fit_uncounted(caption, edit, determiner)
    if not _is_mass(old) or determiner in _ANY_NOUN - {"some"}:
        return edit
    # "in snow": words between the preposition and the noun belong to no article, as far as the lists know.
    last = (before.lower().split() or [""])[-1]
    if last not in PREPOSITIONS - {"of"}:
        return None
    return edit._replace(new=f"{words.choose_article(edit.new)} {edit.new}")


def _fit_uncounted(caption: str, edit: Edit, determiner: str) -> Edit | None:
    """Return the edit with "some" for "a" before a mass noun or a plural; None if these cannot stand there."""
    old, before = caption[edit.start : edit.end], caption[: edit.start]
    if _is_mass(edit.new) and not _is_mass(old):
        counted = determiner in _COUNTING or determiner.isdigit() or _GROUP.search(before)
        if counted or (is_plural(old) and _PLURAL_VERB.match(caption, edit.end)):
            return None
    if determiner not in ("a", "an") or _is_mass(old):
        return edit
    article = _ARTICLE.search(before)
    if article is None:
        return None  # an adjective is between them
    some = "Some" if article[1].istitle() and not before[: article.start()].strip() else "some"
    return Edit(article.start(), edit.end, f"{some} {edit.new}")


def is_without_article(noun: str) -> bool:
    """Return whether a noun takes no article "a": a plural or a mass noun."""
    return is_plural(noun) or _is_mass(noun)


def _is_mass(noun: str) -> bool:
    head = noun.lower().partition(" of ")[0].split()
    return bool(head) and head[-1] in MASS


def _find_determiner(caption: str, start: int) -> str:
    """Return the word before a noun and its attributes of the word lists, in lower case; "" if it has none."""
    attributes = {match.start for match in scan_words(caption) if match.word_type == "attribute"}
    for word in reversed(list(build_word_pattern(caption).finditer(caption[:start]))):
        if word.start() not in attributes:
            return word.group().lower()
    return ""
