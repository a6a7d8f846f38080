"""Parse which option a response in words chooses, with a small grammar that rejects unclear responses.

Reasoning, Markdown and repeated captions are removed first. The rest is a sequence of statements, separated by
periods, commas, colons and line ends:

    reply      one of
               [ANSWER] LETTER [explanation]        opening:  "B", "(b).", "B) a cat", "The answer is B, because …"
               explanation ANSWER LETTER            final:    "The mat is empty. Answer: B"
               statement …                          verdicts: "A is wrong, B", "A: false. B: true"
               none of them                         if ``none`` is an option
    ANSWER     "answer", "option", "choice", "caption", "letter", optionally with "the", "correct", "is", ":" …
    statement  LETTER alone                         a mention, and the subject of a following "this is …"
               [LETTER | this | it] is [not] VERDICT
               not LETTER
    VERDICT    true, correct, matches … or false, wrong …

A verdict is about a caption, not about the choice. If the question asks for the true caption, "A) is incorrect" does
not choose A. If it asks for the false caption, it does; "correct" and "right" are then ambiguous and decide nothing.
A letter is not chosen if a verdict contradicts it, or if another letter without a verdict is mentioned. A response
that only calls all other options wrong chooses nothing: the model must name its choice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from caramel.evaluation.scores.prompt_templates import LETTERS, NONE, Form
from caramel.utils.text import split_words, strip_reasoning

# Text that may come before the letter. "The right caption is B" is excluded, because it is ambiguous if the question
# asks for the caption that is *not* true.
_LEAD = r"""(?:
    (?:(?:so|therefore|thus|hence),?\s+)?
    (?:(?:the|my)\s+)?(?:(?:(?:correct|right|best|final)\s+)?(?P<noun>answer|option|choice)|caption|letter)
    (?:\s+is)?(?:\s*:\s*|\s+)(?:(?:option|caption|letter)\s+)?
)"""
_OPENING = re.compile(
    _LEAD
    + r"""?["'(\[{<]? (?P<letter>[A-D]) (?P<rest>
        ["')\]}>.,;:!]*\s*                      # nothing more
        | ["'\]}>]*[):] .*                      # B) text, B: text
        | ["')\]}>]*[.,;!]?\s*\n.*              # text on the next line
        | ["')\]}>]*(?:[.,;!]|\s+[-–—]|,?\s+because)\s.*
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_FINAL = re.compile(
    r"(?:^|[\n.!?;:,]\s*|\s)" + _LEAD + r"""["'(\[{<]?(?P<letter>[A-D])["')\]}>.!]*\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_NONE = re.compile(
    _LEAD + r"?(?:none|neither)(?:\s+of\s+(?:them|the|these|those))?(?:\s+(?:above|captions|options))?[.!]?",
    re.IGNORECASE | re.VERBOSE,
)
_MARKDOWN = re.compile(r"[*`#]+|^[ \t]*[-•][ \t]+", re.MULTILINE)
_TAGGED = re.compile(  # the format of models that were trained to mark their answer
    r"""\\boxed\{(?:\\text\{)?\(?([A-D])\)?\}\}?|<answer>\s*\(?([A-D])\)?\.?\s*</answer>
    |\{\s*["']answer["']\s*:\s*["']([A-D])["']\s*\}""",
    re.IGNORECASE | re.VERBOSE,
)
_STATEMENTS = re.compile(r"[.,;:!?]+(?=\s|$)|\n|\s[-–—]+\s|\b(?:but|while|whereas|because)\b")
_START = re.compile(r"(?:(?:so|and|because|since|as|therefore|thus|hence|then|however)\b\s*)+", re.IGNORECASE)
_SUBJECT = re.compile(
    r"""(?i:(?:the\s+)?(?:option|caption|statement|choice|letter)\s+)?["'(\[{<]?([A-D])["')\]}>]*(?![\w'’])(.*)""",
    re.DOTALL | re.VERBOSE,
)
_NOT = re.compile(
    r"(?:it'?s\s+|it\s+is\s+)?not\s+(?:option\s+|caption\s+)?[(\[]?([A-D])[)\]]?", re.IGNORECASE
)
_SEVERAL = re.compile(
    r"(?:none|neither|both|either|all|any)\s+(?:of\s+)?(?:(?:them|these|those|the|options|captions|statements|of)\b"
    r"|(?:is|are|do|does|can|could|would|seem|fit|match|true|correct|wrong|false)\b)",
    re.IGNORECASE,
)
_ECHO = "…"

_NEGATIONS = frozenset(
    ["not", "isn't", "aren't", "doesn't", "don't", "never", "cannot", "can't", "isnt", "doesnt"]
)
_FILLERS = frozenset(
    [
        "is",
        "are",
        "was",
        "be",
        "does",
        "do",
        "seems",
        "appears",
        "looks",
        "would",
        "must",
        "can",
        "to",
        "a",
        "an",
        "the",
        "clearly",
        "definitely",
        "obviously",
        "completely",
        "partly",
        "only",
        "one",
        "that",
        "which",
        "also",
        "this",
        "it",
        "its",
        "caption",
        "option",
        "statement",
        "sentence",
        "description",
        "so",
        "very",
        "just",
    ]
)
_TRUE = frozenset(
    ["true", "accurate", "matches", "match", "fits", "fit", "describes", "describe", "matching"]
)
_RIGHT = frozenset(["correct", "right", "best", "valid"])  # may mean true of the image, or the right answer
_FALSE = frozenset(
    [
        "false",
        "incorrect",
        "wrong",
        "untrue",
        "inaccurate",
        "invalid",
        "mismatched",
        "mismatches",
        "contradicts",
    ]
)
_OF_THE_ANSWER = frozenset(("answer", "choice", "option"))


@dataclass
class _ReplyVerdicts:
    """Verdicts on the options' letters in the statements of a response."""

    verdicts: dict[str, set[int]] = field(default_factory=dict)  # 1: true of the image, -1: false
    alone: set[str] = field(default_factory=set)  # letters that are a statement by themselves
    mentioned: set[str] = field(default_factory=set)  # letters inside other statements
    unclear: bool = False  # a verdict is about several options, or could be about the caption or the answer

    def add_verdict(self, letter: str, verdict: int) -> None:
        self.verdicts.setdefault(letter, set()).add(verdict)


def parse_choice(reply: str, captions: Sequence[str], *, form: Form, none: bool) -> int | None:
    """Return the index of the option that a response chooses; None unless it chooses exactly one.

    Args:
        reply: the complete response; a truncated one must not be given, because its verdict may be missing.
        captions: options, in order.
        form: whether the question asks for the true caption or for the one that is not true.
        none: whether ``none`` is the last option.
    """
    text = _TAGGED.sub(lambda match: f"\nAnswer: {match[match.lastindex or 1]}", strip_reasoning(reply))
    text = unicodedata.normalize("NFC", _MARKDOWN.sub("", text).strip())
    if none and _NONE.fullmatch(text):
        return len(captions)
    options = [_split_lower_words(caption) for caption in [*captions, *[NONE] * none]]
    letters = LETTERS[: len(options)]
    stated, wanted = (
        _read_statements(_mask_captions(text, options), letters, form),
        1 if form == "true" else -1,
    )
    letter = _find_final_letter(text)
    if letter is None:
        opening = _OPENING.fullmatch(text)
        if opening is None:
            return _choose_by_verdicts(stated, letters, wanted)
        letter, named = opening["letter"], _find_further_letters(opening["letter"], opening["rest"], options)
        if named is None:
            return None
        rejected = {name for name, verdicts in stated.verdicts.items() if verdicts == {-wanted}}
        others = {name for name, verdicts in stated.verdicts.items() if wanted in verdicts} - {letter.upper()}
        if stated.unclear or others or letter.upper() in rejected:
            return _choose_by_verdicts(stated, letters, wanted)
        if named - rejected - {letter.upper()}:
            return None
    if letter.upper() not in letters or -wanted in stated.verdicts.get(letter.upper(), ()):
        return None
    return letters.index(letter.upper())


def _find_final_letter(text: str) -> str | None:
    """Return the letter of the answer that ends a response.

    Return None if there is none, or if it is the opening letter or contradicts an opening answer.
    """
    final, opening = _FINAL.search(text), _OPENING.fullmatch(text)
    if (
        final is None
        or final["noun"] is None
        or final.start("letter") == (opening and opening.start("letter"))
    ):
        return None
    opens = opening is not None and opening["noun"] is not None
    return (
        None
        if opens and opening and opening["letter"].upper() != final["letter"].upper()
        else final["letter"]
    )


def _find_further_letters(letter: str, rest: str, options: Sequence[Sequence[str]]) -> set[str] | None:
    """Return the letters in the text after the first letter.

    Return None if the first letter is not an option's letter, or if the caption of another option follows it.
    """
    words = split_words(rest)
    index = LETTERS.index(letter.upper())
    if index >= len(options) or (words and letter.islower()):  # "a" may be an article
        return None
    rest_text, option_text = " ".join(words).lower(), " ".join(options[index])
    others = [" ".join(option) for option in options if option != options[index]]
    if rest_text in others:
        return None
    if _split_lower_words(rest)[: len(options[index])] == list(options[index]):
        words = words[len(options[index]) :]
    elif len(words) > 1 and option_text.startswith(rest_text):  # one word could be another letter
        words = []
    elif any(rest_text.startswith(other) for other in others):
        return None
    return {word for word in words if word in LETTERS[: len(options)]}


def _choose_by_verdicts(stated: _ReplyVerdicts, letters: str, wanted: int) -> int | None:
    """Return the only option that verdicts accept or that is a bare letter.

    Return None if there is not exactly one, or if another mentioned letter has no verdict.
    """
    chosen_letters = {name for name, verdicts in stated.verdicts.items() if verdicts == {wanted}}
    chosen_letters |= stated.alone - set(stated.verdicts)
    open_letters = stated.mentioned - set(stated.verdicts) - chosen_letters
    if stated.unclear or open_letters or len(chosen_letters) != 1:
        return None
    return letters.index(chosen_letters.pop())


def _read_statements(text: str, letters: str, form: Form) -> _ReplyVerdicts:
    """Return the verdicts on the options in the statements of a response whose repeated captions are masked."""
    stated, subject = _ReplyVerdicts(), ""
    for part in _STATEMENTS.split(text):
        statement = _START.sub("", part.strip(" \t\"'“”()[]"), count=1).strip()
        if not statement:
            continue
        if (negated := _NOT.fullmatch(statement)) and negated[1].upper() in letters:
            stated.add_verdict(negated[1].upper(), -1 if form == "true" else 1)
            continue
        if _SEVERAL.match(statement):
            stated.unclear = True
            continue
        match = _SUBJECT.fullmatch(statement)
        named = match[1] if match and match[1] in letters else ""
        rest = match[2] if match and named else statement
        verdict = _parse_verdict(rest, form)
        if named and not rest.strip(_ECHO + " .)"):
            stated.alone.add(named)
            subject = named
        elif verdict is not None and (named or subject):
            subject = named or subject
            if verdict:
                stated.add_verdict(subject, verdict)
            else:
                stated.unclear = True
        else:
            stated.mentioned |= {word for word in re.findall(r"\b[A-D]\b", statement) if word in letters}
    return stated


def _parse_verdict(text: str, form: Form) -> int | None:
    """Return the verdict at the start of a statement without its subject: 1, -1, 0 if unclear; None if there is none."""
    spelled = re.findall(r"[\w'’]+", text)
    words = [
        word if word in LETTERS else word.lower().replace("’", "'") for word in spelled
    ]  # capital A is an option, not an article
    if words in (["yes"], ["no"]):
        return 0  # may refer to the statement before or after
    sign = 1
    for number, word in enumerate(words):
        of_the_answer = bool(_OF_THE_ANSWER & set(words[number + 1 : number + 2]))
        if word in _NEGATIONS:
            sign = -sign
        elif word in _FALSE:
            return 0 if form == "odd" and (of_the_answer or sign < 0) else -sign
        elif word in _TRUE or word in _RIGHT:
            doubtful = word in _RIGHT and (sign > 0 or of_the_answer)
            return 0 if form == "odd" and doubtful else sign
        elif word not in _FILLERS:
            return None
    return None


def _mask_captions(text: str, options: Sequence[Sequence[str]]) -> str:
    """Return a text with the options' captions masked, because their words are not statements.

    A letter before a caption stays, even if it equals a word of the caption: "A. a cat" begins with the letter, not
    with a caption "a a cat".
    """
    opening = _OPENING.fullmatch(text)
    if opening is not None and any(
        words and _split_lower_words(opening["rest"])[: len(words)] == list(words) for words in options
    ):
        letter_end = opening.end("letter")
        return text[:letter_end] + _replace_captions(text[letter_end:], options)
    return _replace_captions(text, options)


def _replace_captions(text: str, options: Sequence[Sequence[str]]) -> str:
    for words in sorted(options, key=len, reverse=True):
        if words:
            text = re.sub(
                r"(?<!\w)" + r"[\W_]+".join(map(re.escape, words)) + r"(?!\w)",
                _ECHO,
                text,
                flags=re.IGNORECASE,
            )
    return text


def _split_lower_words(text: str) -> list[str]:
    return split_words(text.lower())
