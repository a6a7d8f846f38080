"""Caption formatting, before anything else: step 1 of BiVLC (Miranda et al. 2024, 3.1)."""

from __future__ import annotations

STOPS = ".,;:!…"
CLOSERS = "\"”’')]"


def format_caption(text: str) -> str:
    """Return the caption with an upper-case first letter and one final stop, the rest as written.

    A caption that is all capitals is lowered: on public sets those are written by people, so that capitals in the
    positive alone would give it away. White space is collapsed. The first letter is that of the first word, also behind an opening
    quote; a caption that starts with a number stays. Whatever ends the caption (none, several
    stops, an exclamation mark, a comma) becomes one stop; a question keeps its question mark, so
    that it can still be told from a statement. Closing quotes and brackets stay before the stop.
    A text without any word becomes the empty text. Formatting twice changes nothing more.
    """
    text = _capitalise_first_word(" ".join(text.split()))
    if text.isupper():
        text = _capitalise_first_word(text.lower())
    if not any(char.isalnum() for char in text):
        return ""
    core = text.rstrip(STOPS + CLOSERS + " ")
    closers = "".join(char for char in text[len(core) :] if char in CLOSERS)
    if core.endswith("?") and not closers:
        return core.rstrip("? ") + "?"
    return f"{core}{closers}."


def _capitalise_first_word(text: str) -> str:
    """Return the text with the first letter of its first word in upper case."""
    start = next((i for i, char in enumerate(text) if char.isalnum()), len(text))
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def append_suffix(caption: str, suffix: str) -> str:
    """Return a prompt: the caption and its suffix in place of the final stop; without a suffix the caption itself."""
    return caption.removesuffix(".") + suffix if suffix else caption
