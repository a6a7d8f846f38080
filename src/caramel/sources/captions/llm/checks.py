"""Check a model's text against the caption that it was written for, without trusting the model.

A verdict is true, false, or None if it cannot be determined. Words are compared in lower case, and ``a``
equals ``an``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from caramel.sources.captions import words as lists
from caramel.sources.captions.lexical_entailment import BY_LISTS, LexicalEntailment
from caramel.sources.captions.llm.changes import (
    Change,
    evaluate_change,
    has_expected_type,
    is_still_true,
    normalise_words,
)
from caramel.sources.captions.llm.vocabulary import Vocabulary
from caramel.sources.captions.phrases import ARTICLES

# A sentence that ends with one of these words is incomplete.
DANGLING = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "of",
        "with",
        "to",
        "in",
        "on",
        "at",
        "by",
        "from",
        "for",
        "is",
        "are",
        "its",
    ]
)
# Words that can end a sound paraphrase, as in "with its lights on".
PARTICLES = frozenset(["to", "in", "on", "at", "by", "from", "for"])
LITTLE = (
    lists.FUNCTION_WORDS | lists.DETERMINERS | {"there", "it", "who", "which", "while", "as", "be", "been"}
)
STEM = 4  # letters that two words share if they count as forms of one word
ROOM = 8  # words by which any text may exceed its length limit
_MARKUP = re.compile(r"[\n\r{}<>|]|\*\*|```|^\s*[\"“]")
# Words by which a model speaks of its task, in place of the image or after it.
_COMMENT = re.compile(
    r"\b(?:paraphras\w*|rephras\w*|reword\w*)\b"
    r"|\b(?:original|given|first|second|new|input) (?:captions?|sentences?)\b"
    r"|\b(?:same|original|overall) meaning\b"
    r"|\b(?:here(?: is|['’]s)|this is|sure|certainly|note|output|answer|caption|sentence)\b[^.]{0,40}:",
    re.IGNORECASE,
)
AUXILIARIES = frozenset(["is", "are", "was", "were", "be", "been", "being"])  # no change if only these differ


@dataclass(frozen=True)
class Bounds:
    """Thresholds of the verdicts.

    Attributes:
        max_length_ratio: largest number of words, as a multiple of the caption's.
        max_similarity: similarity of characters, in [0, 1], from which on a text counts as a copy of its
            caption.
        max_extra_edits: largest number of words that one change may affect besides the named ones.
        min_overlap: smallest share of the caption's content words that a paraphrase keeps, and of the
            paraphrase's content words that come from the caption.
        entailment_threshold: probability, in [0, 1], from which on a text counts as entailed by another.
        grammar_threshold: probability, in [0, 1], from which on a text counts as a correct sentence.
    """

    max_length_ratio: float
    max_similarity: float
    max_extra_edits: int
    min_overlap: float
    entailment_threshold: float
    grammar_threshold: float


@dataclass(frozen=True)
class Verdict:
    """The verdicts on one text, as in table ``verdicts``."""

    statement: bool | None = None
    complete: bool | None = None
    single_sentence: bool | None = None
    not_copy: bool | None = None
    one_change: bool | None = None
    edit_location: bool | None = None
    subtype: bool | None = None
    novel_word: bool | None = None
    known_words: bool | None = None
    not_implied: bool | None = None
    overlap: bool | None = None
    grammar: bool | None = None
    entailment: bool | None = None
    meaning: bool | None = None

    def find_failed_check(self, required: Sequence[str]) -> str | None:
        """Return the first required verdict that is false; None if there is none."""
        return next((name for name in required if getattr(self, name) is False), None)


REASONS = {
    "statement": "a question",
    "complete": "unfinished",
    "single_sentence": "superfluous text",
    "not_copy": "negligible change",
    "not_implied": "still true: a synonym or a more general word",
    "one_change": "more than one change",
    "edit_location": "changed elsewhere than asked",
    "subtype": "another kind of word than asked",
    "novel_word": "says anew what is said of the image",
    "known_words": "a word that no dictionary has",
    "overlap": "superfluous text",  # Algorithm 1 tells it by the words in common
    "grammar": "no sound sentence",
    "entailment": "the entailment model does not agree",
    "meaning": "the validator does not agree",
}
JUDGES = (
    "grammar",
    "entailment",
)  # verdicts of separate judge models (see ``llm.judge``), in the order in which they run
# Problem named by the validator of paraphrases -> failure class of SugarCrepe++ (C.5), in addition to those
# above.
PROBLEMS = {
    "hallucination": "hallucination",
    "spatial": "wrong spatial setting",
    "meaning": "altered meaning",
}
# Reason against a paraphrase -> what its writer shall know to correct it.
HINTS = {
    REASONS["statement"]: "write a statement",
    REASONS["complete"]: "write a whole sentence",
    REASONS["not_copy"]: "use other words or another order",
    REASONS["single_sentence"]: "write one sentence that says the caption and nothing about it",
    REASONS["grammar"]: "write a correct sentence",
    PROBLEMS["hallucination"]: "say nothing that the caption does not say",
    PROBLEMS["spatial"]: "keep each thing where the caption says that it is",
    PROBLEMS["meaning"]: "keep what the caption says, and leave nothing out",
}
CLASSES = (REASONS["not_copy"], *PROBLEMS.values(), REASONS["single_sentence"])  # all five


def evaluate_negative(
    caption: str,
    text: str,
    change: Change,
    image_words: frozenset[str],
    bounds: Bounds,
    lexical: LexicalEntailment = BY_LISTS,
    vocabulary: Vocabulary | None = None,
) -> Verdict:
    """Return all verdicts on a negative except the validator's.

    Args:
        caption: the positive.
        text: the negative.
        change: the intended change.
        image_words: words in the captions of the image, in lower case.
        bounds: thresholds.
        lexical: tells synonyms and more general words.
        vocabulary: tells which words exist; None: words are not looked up.
    """
    one_change, at_location = evaluate_change(
        normalise_words(caption), normalise_words(text), change, bounds.max_extra_edits
    )
    swapped = change.subtype.startswith("swap")
    return Verdict(
        statement=not _is_question(text),
        complete=_is_finished(text),
        single_sentence=_is_plain(caption, text, bounds.max_length_ratio),
        not_copy=not _is_copy(caption, text, bounds.max_similarity),
        one_change=one_change,
        edit_location=at_location,
        subtype=has_expected_type(change),
        novel_word=None if swapped else not set(normalise_words(change.new)) - LITTLE <= image_words,
        known_words=None if swapped else has_known_words(change, image_words, vocabulary),
        not_implied=not is_still_true(caption, change, image_words, lexical),
    )


def has_known_words(
    change: Change, image_words: frozenset[str], vocabulary: Vocabulary | None
) -> bool | None:
    """Return whether all words that a change brings in exist; None without a vocabulary."""
    return None if vocabulary is None else not vocabulary.list_unknown_words(change.new, image_words)


def evaluate_paraphrase(caption: str, text: str, bounds: Bounds) -> Verdict:
    """Return all verdicts on a paraphrase except the validator's.

    A copy is a text whose words and their order are the caption's, but for articles and forms of *be*. The
    overlap is two-sided: words that the paraphrase adds lower it as much as words that it loses.
    """
    return Verdict(
        statement=not _is_question(text),
        complete=_is_finished(text, DANGLING - PARTICLES),
        single_sentence=_is_plain(caption, text, bounds.max_length_ratio)
        and (is_comment(caption) or not is_comment(text)),
        not_copy=not _is_copy(caption, text, bounds.max_similarity, ARTICLES | AUXILIARIES),
        overlap=compute_overlap(caption, text) >= bounds.min_overlap,
    )


def is_comment(text: str) -> bool:
    """Return whether a text speaks of itself or of the task, such as "Here is the caption: …"."""
    return _COMMENT.search(text) is not None


def compute_overlap(caption: str, text: str) -> float:
    """Return the share in [0, 1] of the content words of two texts that both have, of the text with more of them.

    Words with equal first letters (``STEM``) count as one, such as *walks* and *walking*. A caption
    without content words has nothing to lose, and the overlap is 1.
    """
    first, second = ({w[:STEM] for w in normalise_words(t) if w not in LITTLE} for t in (caption, text))
    return len(first & second) / max(len(first), len(second)) if first else 1.0


def _is_question(text: str) -> bool:
    return "?" in text


def _is_finished(text: str, dangling: Collection[str] = DANGLING) -> bool:
    tokens = normalise_words(text)
    return (
        len(tokens) > 1
        and tokens[-1] not in dangling
        and not text.rstrip().endswith((",", ":", ";", "-", "…"))
    )


def _is_plain(caption: str, text: str, max_length_ratio: float) -> bool:
    return len(normalise_words(text)) <= max_length_ratio * len(
        normalise_words(caption)
    ) + ROOM and not _MARKUP.search(text)


def _is_copy(caption: str, text: str, max_similarity: float, ignored: Collection[str] = ARTICLES) -> bool:
    """Return whether a text is a copy of its caption.

    It is a copy if it differs only in case, spaces, stops and ``ignored`` words, or if almost all characters
    are equal.
    """
    first, second = ([w for w in normalise_words(t) if w not in ignored] for t in (caption, text))
    return first == second or Levenshtein.normalized_similarity(caption, text) >= max_similarity
