"""Compose the text of a change by editing the caption at one place, or by exchanging two of its phrases.

What a model proposes often fits, while the sentence that it composes often changes something else, or nothing.
A spaCy model, where one is named, tells heads, compounds and insertion points.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from caramel.sources.captions import words
from caramel.sources.captions.llm.changes import Change, is_symmetric, normalise_words
from caramel.sources.captions.llm.checks import REASONS
from caramel.sources.captions.llm.determiners import PREPOSITIONS, fit_determiner, is_without_article
from caramel.sources.captions.noun_phrases import find_noun_phrase
from caramel.sources.captions.phrase_types import fit_phrase
from caramel.sources.captions.phrases import is_plural, iter_spans, match_number, strip_determiner
from caramel.sources.captions.relation_synonyms import AUXILIARIES, PLACING, get_base_form, parse_relation
from caramel.sources.captions.spacy_models import parse_caption
from caramel.sources.captions.tokenization import Edit, apply_edits
from caramel.utils.text import build_word_pattern

MISSING = "the caption does not contain what is changed"
OVERLAP = "the two phrases overlap"
NUMBER = "the two phrases differ in number"
DETERMINER = "the new noun does not fit the article or the number before it"
SYMMETRIC = "the exchange does not change the meaning"
LISTED = "the object is in a list, so nothing can be added to it alone"
VERB_FORM = "the new relation has another form of verb"
# "a glass of white wine" is one thing: another drink in it would still be in a glass.
CONTAINERS = (
    "glass|cup|mug|bottle|bowl|plate|pot|pan|can|jar|basket|box|bag|slice|piece|loaf|tray|pitcher|bucket"
)
_IN_CONTAINER = re.compile(rf"\b(?:{CONTAINERS})(?:e?s)? of (?:[\w'-]+ ){{0,2}}$", re.IGNORECASE)
_CONTAINER = re.compile(rf"(?:^|.*\s)(?:{CONTAINERS})(?:e?s)?", re.IGNORECASE)
FINITE_TAGS = frozenset(("VBZ", "VBP", "VBD"))  # tags of the Penn Treebank
_BEHIND_WITH = re.compile(r"\bwith (?:[\w'-]+ ){0,2}$", re.IGNORECASE)  # "with a small mirror"
_LIST = re.compile(r"\s*(?:[,&/]|(?:and|or)\b)", re.IGNORECASE)


@dataclass(frozen=True)
class CaptionEditor:
    """Composes texts by edits; ``spacy_model`` is the name or folder of a spaCy model, None for the word lists."""

    spacy_model: str | None

    def apply_change(self, caption: str, change: Change) -> tuple[Change, str] | str:
        """Return the change as it was applied and the text, or why the change cannot be applied.

        ``old`` loses its determiner and may become longer (a whole compound), and ``new`` may change its number.
        """
        change = change._replace(old=strip_determiner(change.old))
        if change.subtype.startswith("swap"):
            return self._swap_phrases(caption, change)
        span = next(iter_spans(caption, change.old), None)
        if span is None:
            return MISSING
        edit: Callable[[str, tuple[int, int], Change], tuple[Change, str] | str] = {
            "replace_obj": self._replace_object,
            "replace_att": self._replace_attribute,
            "replace_rel": self._replace_relation,
            "add_obj": self._insert_object,
            "add_att": self._insert_attribute,
        }[change.subtype]
        part = change.subtype.partition("_")[2]
        edited = edit(caption, span, change)
        if isinstance(edited, str):
            return edited
        applied, text = edited
        fitted = self.fit_phrase(text, applied.new, part)
        if fitted and fitted != applied.new.lower():
            edited = edit(caption, span, change._replace(new=fitted))
            if isinstance(edited, str):
                return edited
            applied, text = edited
            fitted = self.fit_phrase(text, applied.new, part)
        if not fitted:
            return REASONS["subtype"]
        if self.spacy_model and change.subtype == "replace_rel":
            before, after = (_is_finite(one, span[0], self.spacy_model) for one in (caption, text))
            if after and not before:
                return VERB_FORM
        return applied, text

    def fit_phrase(self, text: str, phrase: str, part: str) -> str:
        """Return the part of a phrase that has a type, see ``phrase_types.fit_phrase``."""
        return fit_phrase(text, phrase, part, self.spacy_model)

    def _is_content(self, caption: str, phrase: str, part: str) -> bool:
        """Return whether a phrase may be exchanged: it has the type, and is more than a function word."""
        little = words.FUNCTION_WORDS | words.DETERMINERS | PREPOSITIONS
        return phrase.lower() not in little and bool(self.fit_phrase(caption, phrase, part))

    def _replace_object(
        self, caption: str, span: tuple[int, int], change: Change
    ) -> tuple[Change, str] | str:
        """Replace a noun with its whole compound, and with what it is in or what is in it."""
        phrase = find_noun_phrase(caption, *span, self.spacy_model)
        start, end = (span[0], phrase.end) if span[1] == phrase.end else (phrase.start, phrase.end)
        if _CONTAINER.fullmatch(caption[phrase.start : phrase.end]):
            end = phrase.outer_end
        plural = phrase.plural
        if held := _IN_CONTAINER.search(caption[:start]):
            start, plural = held.start(), is_plural(held.group().partition(" ")[0])
        new = match_number(change.new, plural)
        fitted = fit_determiner(caption, Edit(start, end, new))
        if fitted is None:
            return DETERMINER
        text = apply_edits(caption, [fitted])
        return Change(change.subtype, caption[start:end], new), text

    def _replace_relation(self, caption: str, span: tuple[int, int], change: Change) -> tuple[Change, str]:
        """Replace a relation; auxiliaries stay where the new one fits them, and a verb alone gets a preposition."""
        new, start = change.new, span[0]
        if _may_follow_auxiliary(new):
            start += _measure_auxiliaries(caption[slice(*span)])
        old = caption[start : span[1]]
        new = f"{new} {preposition}" if (preposition := _select_preposition(old, new)) else new
        return Change(change.subtype, old, new), apply_edits(caption, [Edit(start, span[1], new)])

    def _replace_attribute(self, caption: str, span: tuple[int, int], change: Change) -> tuple[Change, str]:
        return change, apply_edits(caption, [Edit(*span, change.new)])

    def _insert_attribute(self, caption: str, span: tuple[int, int], change: Change) -> tuple[Change, str]:
        """Insert an attribute before the whole compound."""
        start = find_noun_phrase(caption, *span, self.spacy_model).start
        first = _take_within_sentence(caption, start, span[1])
        return change, apply_edits(caption, [Edit(start, span[1], f"{change.new} {first}")])

    def _insert_object(self, caption: str, span: tuple[int, int], change: Change) -> tuple[Change, str] | str:
        """Insert an object behind the noun phrase: with "with", which suits a subject as well as an object.

        Within a list, it would belong to one part alone.
        """
        phrase = find_noun_phrase(caption, *span, self.spacy_model)
        end = phrase.outer_end
        if _LIST.match(caption, end):
            return LISTED
        followed = caption[end:].lstrip().lower().startswith("with ")
        joint = "and" if followed or _BEHIND_WITH.search(caption[: phrase.start]) else "with"
        article = "" if is_without_article(change.new) else f"{words.choose_article(change.new)} "
        return change, apply_edits(caption, [Edit(end, end, f" {joint} {article}{change.new}")])

    def _swap_phrases(self, caption: str, change: Change) -> tuple[Change, str] | str:
        """Exchange two phrases as they are written; each place keeps its determiner."""
        change = change._replace(new=strip_determiner(change.new))
        spans = [next(iter_spans(caption, phrase), None) for phrase in (change.old, change.new)]
        if spans[0] is None or spans[1] is None:
            return MISSING
        part = change.subtype.partition("_")[2]
        if not all(self._is_content(caption, phrase, part) for phrase in (change.old, change.new)):
            return REASONS["subtype"]
        (start, end), (other_start, other_end) = sorted([spans[0], spans[1]])
        if end > other_start:
            return OVERLAP
        first, second = _take_within_sentence(caption, start, end), caption[other_start:other_end]
        if change.subtype == "swap_obj":
            heads = [_cut_complement(caption, *span) for span in spans if span]
            phrases = [find_noun_phrase(caption, *head, self.spacy_model) for head in heads]
            if phrases[0].plural != phrases[1].plural:
                return NUMBER
            if is_symmetric(normalise_words(caption), change):
                return SYMMETRIC
        return change, apply_edits(caption, [Edit(start, end, second), Edit(other_start, other_end, first)])


def _cut_complement(caption: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a noun phrase without what follows "of": the head of "plate of donuts" is "plate"."""
    return start, start + len(caption[start:end].partition(" of ")[0])


def _take_within_sentence(caption: str, start: int, end: int) -> str:
    """Return caption[start:end] as it is written behind other words: without the capital of a sentence's first one."""
    phrase = caption[start:end]
    begins = not caption[:start].strip() and phrase[1:2].islower()
    return phrase[:1].lower() + phrase[1:] if begins else phrase


def _may_follow_auxiliary(new: str) -> bool:
    """Return whether a relation may stand behind "is": one that begins with a participle or a preposition."""
    first = (new.lower().split() or [""])[0]
    return first not in AUXILIARIES and (first.endswith(("ing", "ed")) or _is_preposition(new))


def _is_preposition(relation: str) -> bool:
    first = (relation.lower().split() or [""])[0]
    return first in PREPOSITIONS or not parse_relation(relation).verb


def _measure_auxiliaries(old: str) -> int:
    """Return the number of characters before a relation's first word that is no auxiliary; 0 if it has none else."""
    matches = build_word_pattern(old).finditer(old)
    return next((match.start() for match in matches if match.group().lower() not in AUXILIARIES), 0)


def _select_preposition(old: str, new: str) -> str:
    """Return the preposition that a new verb takes over from an old relation; "" if it takes none.

    A verb's preposition stays. A preposition alone stays behind a verb that tells where something is ("next to"
    becomes "sitting next to"), not behind one with an object ("holding").
    """
    verbs = [word for word in new.lower().split() if word not in AUXILIARIES]
    if len(verbs) != 1 or _is_preposition(verbs[0]):
        return ""
    old_words = [word for word in old.split() if word.lower() not in AUXILIARIES]
    if not _is_preposition(" ".join(old_words)):
        return " ".join(old_words[1:]) if old_words[1:] and old_words[1].lower() in PREPOSITIONS else ""
    preposition = parse_relation(old).preposition
    # One may eat or ride what one is "with".
    is_placing = get_base_form(verbs[0]) in PLACING and (preposition != "with" or verbs[0] in words.POSTURES)
    return " ".join(old_words) if preposition and is_placing else ""


def _is_finite(text: str, start: int, model: str) -> bool:
    """Return whether the word at a place is a finite verb."""
    return any(token.idx == start and token.tag_ in FINITE_TAGS for token in parse_caption(text, model))
