"""Format captions: the first step of every pipeline, as step 1 of BiVLC (Miranda et al. 2024, 3.1)."""

from __future__ import annotations

STOPS = ".,;:!…"
CLOSERS = "\"”’')]"


def format_caption(text: str) -> str:
    """Return the caption with an upper-case first letter and one final stop; everything else is unchanged.

    - A caption in capitals alone is lower-cased. In public sets such captions are written by people, so
      capitals in the positive alone would give it away.
    - White space is collapsed.
    - The first letter is the first letter of the first word, also after an opening quote. A caption that
      starts with a number stays as it is.
    - Any ending (none, several stops, an exclamation mark, a comma) becomes one stop. A question keeps its
      question mark, so that it can be told from a statement. Closing quotes and brackets stay before the
      stop.
    - A text without words becomes the empty string.

    The function is idempotent.
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
    """Return a prompt: the caption with the suffix in place of its final stop.

    Without a suffix, the prompt is the caption.
    """
    return caption.removesuffix(".") + suffix if suffix else caption
