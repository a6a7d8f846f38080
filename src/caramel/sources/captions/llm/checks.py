"""Check a model's text against the caption that it was written for, without trusting the model.

A verdict is true, false, or None if it cannot be determined. Words are compared in lower case, and ``a``
equals ``an``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions import words as lists
from caramel.sources.captions.lexical_entailment import BY_LISTS, LexicalEntailment
from caramel.sources.captions.phrase_types import KINDS
from caramel.sources.captions.phrases import find_head
from caramel.utils.text import extract_words

ARTICLES = frozenset(("a", "the"))
PARTS: dict[str, AtomType] = {"obj": "obj", "att": "att", "rel": "rel"}
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
LITTLE = (
    lists.FUNCTION_WORDS | lists.DETERMINERS | {"there", "it", "who", "which", "while", "as", "be", "been"}
)
ROOM = 8  # words by which any text may exceed its length limit
_MARKUP = re.compile(r"[\n\r{}<>|]|\*\*|```|^\s*[\"“]")


@dataclass(frozen=True)
class Bounds:
    """Thresholds of the verdicts.

    Attributes:
        max_length_ratio: largest number of words, as a multiple of the caption's.
        max_similarity: similarity of characters, in [0, 1], from which on a text counts as a copy of its
            caption.
        max_extra_edits: largest number of words that one change may affect besides the named ones.
        min_overlap: smallest share of the caption's content words that a paraphrase keeps.
        entailment_threshold: probability, in [0, 1], from which on a text counts as entailed by another.
        grammar_threshold: probability, in [0, 1], from which on a text counts as a correct sentence.
    """

    max_length_ratio: float
    max_similarity: float
    max_extra_edits: int
    min_overlap: float
    entailment_threshold: float
    grammar_threshold: float


class Change(NamedTuple):
    """The change that a model claims: ``old`` became ``new``. For *add*, ``old`` is what ``new`` stands beside."""

    subtype: str
    old: str
    new: str


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
    "one_change": "more than one change",
    "edit_location": "changed elsewhere than asked",
    "subtype": "another kind of word than asked",
    "novel_word": "says anew what is said of the image",
    "not_implied": "still true: a synonym or a more general word",
    "overlap": "too few words in common",
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
CLASSES = (REASONS["not_copy"], *PROBLEMS.values(), REASONS["single_sentence"])  # all five


def evaluate_negative(
    caption: str,
    text: str,
    change: Change,
    image_words: frozenset[str],
    bounds: Bounds,
    lexical: LexicalEntailment = BY_LISTS,
) -> Verdict:
    """Return all verdicts on a negative except the validator's.

    Args:
        caption: the positive.
        text: the negative.
        change: the intended change.
        image_words: words in the captions of the image, in lower case.
        bounds: thresholds.
        lexical: tells synonyms and more general words.
    """
    one_change, at_location = _evaluate_change(
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
        not_implied=not is_still_true(caption, change, image_words, lexical),
    )


def is_still_true(
    caption: str, change: Change, image_words: frozenset[str], lexical: LexicalEntailment
) -> bool:
    """Return whether a changed caption says what the caption says, or less, as far as word lists and WordNet know.

    Args:
        caption: the positive.
        change: *replace* by a synonym or a more general word, *add* of what an image's caption says in another word,
            or *swap* around "and" or a symmetric relation.
        image_words: words in the captions of the image, in lower case.
        lexical: tells synonyms and more general words.
    """
    operation, _, part = change.subtype.partition("_")
    atom_type = PARTS[part]
    if operation == "replace":
        return lexical.is_still_true(atom_type, change.old, change.new)
    if operation == "add":
        return any(lexical.is_synonym(atom_type, word, change.new) for word in image_words)
    return lexical.is_synonym(atom_type, change.old, change.new) or _is_symmetric(
        normalise_words(caption), change
    )


def _is_symmetric(tokens: list[str], change: Change) -> bool:
    """Return whether two phrases that are exchanged have nothing but a symmetric relation between them.

    What stands before the first belongs to it, unless it is a determiner: "a red cat and a dog" says something else
    than "a red dog and a cat".
    """
    allowed = {"and", "or"} if change.subtype == "swap_att" else lists.SYMMETRIC | lists.DETERMINERS
    first, second = normalise_words(change.old), normalise_words(change.new)
    for one, other in ((first, second), (second, first)):
        for i, j in product(_find_positions(tokens, one), _find_positions(tokens, other)):
            between = tokens[i + len(one) : j]
            bare = change.subtype == "swap_att" or i == 0 or tokens[i - 1] in lists.DETERMINERS
            if i + len(one) < j and bare and set(between) <= allowed:
                return True
    return False


def evaluate_paraphrase(caption: str, text: str, bounds: Bounds) -> Verdict:
    """Return all verdicts on a paraphrase except the validator's."""
    content = set(normalise_words(caption)) - LITTLE
    overlap = len(content & set(normalise_words(text))) / len(content) if content else 1.0
    return Verdict(
        statement=not _is_question(text),
        complete=_is_finished(text),
        single_sentence=_is_plain(caption, text, bounds.max_length_ratio),
        not_copy=not _is_copy(caption, text, bounds.max_similarity),
        overlap=overlap >= bounds.min_overlap,
    )


def normalise_words(text: str) -> list[str]:
    """Return the words of a text in the form in which they are compared."""
    tokens = [word.replace("’", "'") for word in extract_words(text)]
    return ["a" if word == "an" else word for word in tokens]


def _is_question(text: str) -> bool:
    return "?" in text


def _is_finished(text: str) -> bool:
    tokens = normalise_words(text)
    return (
        len(tokens) > 1
        and tokens[-1] not in DANGLING
        and not text.rstrip().endswith((",", ":", ";", "-", "…"))
    )


def _is_plain(caption: str, text: str, max_length_ratio: float) -> bool:
    return len(normalise_words(text)) <= max_length_ratio * len(
        normalise_words(caption)
    ) + ROOM and not _MARKUP.search(text)


def _is_copy(caption: str, text: str, max_similarity: float) -> bool:
    """Return whether a text is a copy of its caption.

    It is a copy if it differs only in case, spaces, stops and articles, or if almost all characters are
    equal.
    """
    first, second = ([w for w in normalise_words(t) if w not in ARTICLES] for t in (caption, text))
    return first == second or Levenshtein.normalized_similarity(caption, text) >= max_similarity


def _evaluate_change(
    old: list[str], new: list[str], change: Change, max_extra_edits: int
) -> tuple[bool, bool | None]:
    """Return whether the text differs by one change, and whether that is at the requested location.

    The second value is None if it is unknown.
    """
    if change.subtype.startswith("swap"):
        return sorted(_strip_articles(old)) == sorted(_strip_articles(new)), _strip_articles(
            new
        ) in _swap_phrases(old, change.old, change.new)
    start, gone, come = _find_changed_block(old, new)
    named, added = normalise_words(change.old), normalise_words(change.new)
    if change.subtype.startswith("replace"):
        one = len(gone) <= len(named) + max_extra_edits and len(come) <= len(added) + max_extra_edits
        return one, bool(set(gone) & set(named)) and bool(set(come) & set(added) or not added)
    small = len(come) <= len(added) + max_extra_edits + (3 if change.subtype == "add_obj" else 0)
    inserted = not set(gone) - ARTICLES and _is_subsequence(old, new)
    came = bool(set(come) & set(added))
    if change.subtype == "add_att":
        return inserted and small, came and bool(set(new[start : start + len(come) + 3]) & set(named))
    beside = bool(set(new[max(0, start - 3) : start + len(come) + 3]) & set(named))
    return inserted and small, came and (
        beside or None
    )  # an added object may be far from the one that it stands beside


def _find_changed_block(old: list[str], new: list[str]) -> tuple[int, list[str], list[str]]:
    """Return the index at which two token lists begin to differ, and the differing block of each."""
    shorter = min(len(old), len(new))
    start = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    most = shorter - start
    end = next((i for i in range(most) if old[-1 - i] != new[-1 - i]), most)
    return start, old[start : len(old) - end], new[start : len(new) - end]


def _is_subsequence(old: list[str], new: list[str]) -> bool:
    """Return whether all words of the first list occur in the second in order; articles are ignored."""
    rest = iter(new)
    return all(word in rest for word in old if word not in ARTICLES)


def _strip_articles(tokens: Sequence[str]) -> list[str]:
    return [word for word in tokens if word not in ARTICLES]


def _swap_phrases(tokens: list[str], first: str, second: str) -> list[list[str]]:
    """Return the words without articles and with two phrases exchanged.

    There is one result for every two places where the phrases occur.
    """
    a, b = normalise_words(first), normalise_words(second)
    if a == b or not a or not b:
        return []
    variants = []
    for i, j in product(_find_positions(tokens, a), _find_positions(tokens, b)):
        (one, at), (other, later) = sorted([(a, i), (b, j)], key=itemgetter(1))
        if at + len(one) <= later:
            between, rest = tokens[at + len(one) : later], tokens[later + len(other) :]
            variants.append(_strip_articles([*tokens[:at], *other, *between, *one, *rest]))
    return variants


def _find_positions(tokens: list[str], phrase: list[str]) -> list[int]:
    """Return the indices at which a phrase begins."""
    return [i for i in range(len(tokens)) if tokens[i : i + len(phrase)] == phrase]


def has_expected_type(change: Change) -> bool | None:
    """Return whether the heads of the changed phrases have the requested type, as far as the word lists know."""
    wanted = KINDS[change.subtype.partition("_")[2]]
    # For *add*, ``old`` is what the new word stands beside, and it is always a noun.
    phrases = [change.new] if change.subtype.startswith("add") else [change.old, change.new]
    known = [match.word_type for match in map(find_head, phrases) if match]
    return all(word_type == wanted for word_type in known) if known else None
