"""Tell what a claimed change of a caption is: one change at its place, of its type, that makes the caption false.

Words are compared in lower case, and ``a`` equals ``an``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from caramel.interfaces.scene_graph import AtomType
from caramel.sources.captions import words as lists
from caramel.sources.captions.lexical_entailment import LexicalEntailment
from caramel.sources.captions.phrase_types import KINDS
from caramel.sources.captions.phrases import ARTICLES, find_head, get_singular
from caramel.utils.text import extract_words

# Words before a phrase that relate it to nothing: "there is a cat next to a dog", "a photo of a cat with a dog".
NEUTRAL = frozenset(["there", "is", "are", "of", "shows", "and"])
DEPTHS = frozenset(["background", "foreground", "distance"])  # places of the second phrase alone
# Words that begin a description of the noun before them alone, as does any participle in -ing. After "and", such a
# description holds of both nouns.
DESCRIBING = frozenset(["with", "who", "that", "which", "whose"])
CLOTHES = frozenset(
    [*lists.NOUNS["clothes"], "hat", "helmet", "scarf", "suit", "uniform", "vest", "tie", "jeans", "shorts"]
)
RELATING = lists.SYMMETRIC - {"and", "or", "to"}
PARTS: dict[str, AtomType] = {"obj": "obj", "att": "att", "rel": "rel"}


class Change(NamedTuple):
    """The change that a model claims: ``old`` became ``new``. For *add*, ``old`` is what ``new`` stands beside."""

    subtype: str
    old: str
    new: str


def normalise_words(text: str) -> list[str]:
    """Return the words of a text in the form in which they are compared."""
    tokens = [word.replace("’", "'") for word in extract_words(text)]
    return ["a" if word == "an" else word for word in tokens]


def evaluate_change(
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
        added = get_singular(
            change.new.lower()
        )  # the same word in either number is what check novel_word is for
        others = (word for word in image_words if get_singular(word) != added)
        return any(lexical.is_synonym(atom_type, word, change.new) for word in others)
    return lexical.is_synonym(atom_type, change.old, change.new) or is_symmetric(
        normalise_words(caption), change
    )


def is_symmetric(tokens: list[str], change: Change) -> bool:
    """Return whether a caption says the same when two of its phrases are exchanged, by the words between them.

    Only "and", "or" or a symmetric relation stands between them, also with a posture ("is standing next to"), and what
    stands before the first belongs to both:

    - an adjective does not: "a red cat and a dog" says something else than "a red dog and a cat";
    - a relation does before "and" alone: "on a laptop next to a person" says something else than "on a person next
      to a laptop";
    - a depth is the second phrase's: "a plate with a person in the background";
    - so is a description after it, but for "and": "a cat near a man with a hat" says something else than "a man near a
      cat with a hat".
    """
    first, second = normalise_words(change.old), normalise_words(change.new)
    for one, other in ((first, second), (second, first)):
        for i, j in product(_find_positions(tokens, one), _find_positions(tokens, other)):
            between = tokens[i + len(one) : j]
            joined = set(between) <= {"and", "or"} | lists.DETERMINERS
            if change.subtype == "swap_att":
                is_same = set(between) <= {"and", "or"}
            else:
                is_same = _is_undirected(frozenset(between))
            if i + len(one) < j and is_same:
                is_apart = not joined and (
                    bool(DEPTHS & set(tokens[j:])) or _is_described(tokens[j + len(other) :])
                )
                if change.subtype == "swap_att" or (not is_apart and _is_shared_context(tokens[:i], joined)):
                    return True
    return False


def _is_undirected(between: frozenset[str]) -> bool:
    """Return whether words relate what is before and after them in no direction: "standing by a", not "walking by a"."""
    if between <= lists.SYMMETRIC | lists.DETERMINERS:
        return True
    relating = RELATING - {"by"} if "walking" in between else RELATING
    return between <= lists.UNDIRECTED | {"parked"} and not between.isdisjoint(relating)


def _is_described(after: list[str]) -> bool:
    """Return whether the words after a phrase begin with a description of it."""
    if after[:1] == ["in"]:
        return not CLOTHES.isdisjoint(after[1:5])
    return bool(after) and (after[0] in DESCRIBING or after[0].endswith("ing"))


def _is_shared_context(before: list[str], joined: bool) -> bool:
    """Return whether the words before a phrase hold of what follows it, too; ``joined``: by "and" or "or"."""
    if before and before[-1] not in lists.DETERMINERS:
        return False
    return joined or not before[:-1] or before[-2] in NEUTRAL
