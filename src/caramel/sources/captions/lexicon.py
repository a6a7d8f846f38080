"""Write hard negatives and paraphrases of free captions by small word lists, without a model or a scene graph.

Negatives are of the seven subtypes of SugarCrepe, and each differs from its caption by one change. Text alone
cannot prove that a negative is false of the image. Therefore a new word is one that no caption of the image
contains and, as far as the lists tell, one that excludes the old word. A text that cannot be written is a
reject.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from caramel.interfaces.writer import WrittenCaption
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions import words
from caramel.sources.captions.tokenization import (
    Edit,
    Sentence,
    WordMatch,
    apply_edits,
    list_plurals,
    parse_sentence,
)

Rng = np.random.Generator
Item = TypeVar("Item")
Rule = Callable[[Sentence, Rng], list[Edit] | str]  # the edits, or the reason why none is possible
NAME = "lexicon"
PAIRS = 20_000  # pairs that are processed at a time

NO_NOUN = "no known noun in the caption"
NO_ATTRIBUTE = "no known attribute in the caption"
NO_RELATION = "no known relation in the caption"
NO_TWO_NOUNS = "no two known nouns whose order matters"
NO_TWO_ATTRIBUTES = "no two known attributes of different nouns"
ALL_DESCRIBED = "every known noun has an attribute"
ALL_SAID = "every alternative is said of the image"
QUESTION = "the caption is a question"
NO_FORM = "no known sentence form"


def _draw_item(rng: Rng, options: Sequence[Item]) -> Item:
    return options[int(rng.integers(len(options)))]


def _build_edit(match: WordMatch, word: str) -> Edit:
    return Edit(match.start, match.end, words.get_plural(word) if match.plural else word)


def _replace_word(
    sentence: Sentence, rng: Rng, matches: Sequence[WordMatch], groups: dict[str, tuple[str, ...]]
) -> list[Edit] | str:
    """Replace one of the matched words by another word of its group that no caption of the image contains."""
    options = [(f, w) for f in matches for w in groups[f.group] if w not in sentence.image_words]
    return [_build_edit(*_draw_item(rng, options))] if options else ALL_SAID


def replace_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one noun by another of its group."""
    return _replace_word(sentence, rng, sentence.nouns, words.NOUNS) if sentence.nouns else NO_NOUN


def replace_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one attribute by another of its group."""
    return (
        _replace_word(sentence, rng, sentence.attributes, words.ADJECTIVES)
        if sentence.attributes
        else NO_ATTRIBUTE
    )


def replace_rel(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Replace one relation or action by one that excludes it."""
    relations = [
        f for f in sentence.relations if f.word not in words.POSTURES or _has_living_subject(sentence, f)
    ]
    if not relations:
        return NO_RELATION
    options = [(f, words.CONTRARY[f.word]) for f in relations]
    options = [
        (f, new) for f, new in options if not set(new.split()) - words.SMALL_WORDS <= sentence.image_words
    ]
    return [_build_edit(*_draw_item(rng, options))] if options else ALL_SAID


def _has_living_subject(sentence: Sentence, posture: WordMatch) -> bool:
    """Return whether the noun before the posture is a person or an animal.

    An inanimate object that sits also stands.
    """
    before = [noun for noun in sentence.nouns if noun.end <= posture.start]
    return bool(before) and before[-1].group in words.LIVING


def swap_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Exchange two nouns of the same number, preferably of one group."""
    pairs = [(a, b) for a, b in combinations(sentence.nouns, 2) if _order_matters(sentence, a, b)]
    return _swap_pair(sentence, rng, pairs) or NO_TWO_NOUNS


def swap_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Exchange the attributes of two nouns, preferably of one group.

    Neither noun may have the other's attribute already.
    """
    holders = [(a, sentence.find_noun(a)) for a in sentence.attributes]
    has = {(noun, attribute.word) for attribute, noun in holders}
    pairs = [
        (a, b)
        for (a, n), (b, m) in combinations(holders, 2)
        if n and m and n != m and (n, b.word) not in has and (m, a.word) not in has and _can_exchange(a, b)
    ]
    return _swap_pair(sentence, rng, pairs) or NO_TWO_ATTRIBUTES


def _can_exchange(a: WordMatch, b: WordMatch) -> bool:
    """Return whether two attributes apply to the same nouns: anything can have a colour, few nouns an age."""
    return a.group == b.group or {a.group, b.group} <= words.PHYSICAL


def _order_matters(sentence: Sentence, a: WordMatch, b: WordMatch) -> bool:
    """Return whether two different nouns are separated by more than "and", "with" or "next to"."""
    between = sentence.text[a.end : b.start].lower().replace(",", " ").split()
    attributes = {w for f in sentence.attributes for w in sentence.text[f.start : f.end].lower().split()}
    free = words.SYMMETRIC | words.DETERMINERS | attributes
    return a.word != b.word and a.plural == b.plural and not free.issuperset(between)


def _swap_pair(sentence: Sentence, rng: Rng, pairs: list[tuple[WordMatch, WordMatch]]) -> list[Edit]:
    """Exchange the words of one pair as they are written; return no edits if there are no pairs."""
    same_group = [(a, b) for a, b in pairs if a.group == b.group]
    if not pairs:
        return []
    a, b = _draw_item(rng, same_group or pairs)
    return [
        Edit(a.start, a.end, sentence.get_written_form(b)),
        Edit(b.start, b.end, sentence.get_written_form(a)),
    ]


def add_obj(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Add an object at the end, from the group of an object in the caption."""
    if not sentence.nouns:
        return NO_NOUN
    options = [w for f in sentence.nouns for w in words.NOUNS[f.group] if w not in sentence.image_words]
    if not options:
        return ALL_SAID
    noun, end = _draw_item(rng, options), len(sentence.text.rstrip(" .!"))
    return [Edit(end, end, f" and {words.choose_article(noun)} {noun}")]


def add_att(sentence: Sentence, rng: Rng) -> list[Edit] | str:
    """Add an uncommon attribute to a noun without a known attribute."""
    if not sentence.nouns:
        return NO_NOUN
    described = {sentence.find_noun(a) for a in sentence.attributes}
    bare = [f for f in sentence.nouns if f not in described]
    if not bare:
        return ALL_DESCRIBED
    added = [(f, words.ADDED.get(f.group, words.ADDED_ELSE)) for f in bare]
    options = [(f, w) for f, members in added for w in members if w not in sentence.image_words]
    if not options:
        return ALL_SAID
    noun, word = _draw_item(rng, options)
    return [Edit(noun.start, noun.end, f"{word} {sentence.get_written_form(noun)}")]


RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
}


def write_paraphrase(sentence: Sentence) -> str | None:
    """Return a paraphrase, or None if the form of the caption is not known."""
    return _invert_relation(sentence) or _write_existential(sentence)


def _invert_relation(sentence: Sentence) -> str | None:
    """Turn "A cat on top of a box" into "A box underneath a cat", if the caption has exactly this form."""
    core = sentence.text.rstrip(" .!")
    if len(sentence.nouns) != 2:
        return None
    first, second = sentence.nouns
    starts = sentence.find_phrase_start(first), sentence.find_phrase_start(second)
    between = core[first.end : starts[1]].strip().split(" ", 1)
    verb = between.pop(0) if between[0] in ("is", "are") else ""
    relation = " ".join(between)
    if (
        starts[0] != 0
        or second.end != len(core)
        or relation not in words.INVERSE
        or starts[1] == second.start
    ):
        return None
    verb = verb and ("are" if second.plural else "is")
    subject, other = core[starts[1] :], core[: first.end]
    parts = (subject[:1].upper() + subject[1:], verb, words.INVERSE[relation], other[:1].lower() + other[1:])
    return " ".join(part for part in parts if part) + sentence.text[len(core) :]


def _write_existential(sentence: Sentence) -> str | None:
    """Turn "A man is riding a horse" into "There is a man riding a horse"."""
    if not sentence.nouns or sentence.find_phrase_start(sentence.nouns[0]) != 0:
        return None
    noun, text = sentence.nouns[0], sentence.text
    phrase, rest = text[: noun.end], text[noun.end :].split()
    rest = rest[1:] if rest[:1] in (["is"], ["are"]) else rest
    if not rest or phrase.lower().startswith(("the ", "his ", "her ", "its ", "their ")):
        return None
    verbal = rest[0].endswith("ing") or rest[0] in words.PREPOSITIONS or rest[0] in words.CONTRARY
    if not verbal or any(_can_be_finite(word.strip(".,!").lower()) for word in rest):
        return None
    start = "There are" if noun.plural else "There is"
    return f"{start} {phrase[:1].lower()}{phrase[1:]} {' '.join(rest)}"


def _can_be_finite(word: str) -> bool:
    """Return whether a word may be a second verb; if so, no paraphrase is written, to avoid broken ones."""
    if word in words.FINITE:
        return True
    return word.endswith("s") and word not in words.NOT_FINITE and word not in list_plurals()


def lexicon_negatives(
    pairs: pd.DataFrame, *, data_dir: str, seed: int, max_attempts: int, **unused: object
) -> WrittenCaption:
    """Return hard negatives of all subtypes and one paraphrase for each pair, where they can be written.

    Args:
        pairs: table ``pairs``; a word of any caption of an image counts as true of the image.
        data_dir: unused; for backends that read a folder of the user.
        seed: each draw depends only on this, the pair's name and the subtype.
        max_attempts: unused; the first draw among the possible edits is taken.
        unused: arguments of other backends.
    """
    captions = pairs.groupby("image_id")["caption"].agg(list).to_dict()
    # In portions: rows that are not in a frame yet take three times the memory.
    starts = range(0, max(1, len(pairs)), PAIRS)
    parts = [_write_captions(pairs.iloc[start : start + PAIRS], captions, seed) for start in starts]
    tables_of = zip(*((part.negatives, part.paraphrases, part.rejects) for part in parts), strict=True)
    return WrittenCaption(*(pd.concat(of_parts, ignore_index=True) for of_parts in tables_of))


def _write_captions(pairs: pd.DataFrame, captions: Mapping[Any, list[str]], seed: int) -> WrittenCaption:
    """Return the captions written for some pairs; ``captions`` are those of all images."""
    negatives, paraphrases, rejects = [], [], []
    for pair_id, image_id, caption in zip(pairs["pair_id"], pairs["image_id"], pairs["caption"], strict=True):
        known, name = parse_sentence(caption, captions[image_id]), zlib.crc32(pair_id.encode())
        question = caption.rstrip().endswith("?")
        for number, subtype in enumerate(RULES):
            rng = np.random.default_rng([seed, name, number])
            edits = QUESTION if question else RULES[subtype](known, rng)
            row_id = f"{pair_id}:{subtype}"
            if isinstance(edits, str):
                rejects.append((row_id, "negatives", edits, caption))
            else:
                negative_type = subtype.partition("_")[0]
                negatives.append(
                    (
                        row_id,
                        pair_id,
                        negative_type,
                        subtype,
                        apply_edits(caption, edits),
                        NAME,
                        seed,
                        1,
                        None,
                    )
                )
        paraphrase = None if question else write_paraphrase(known)
        if paraphrase is None:
            rejects.append((f"{pair_id}:paraphrase", "negatives", QUESTION if question else NO_FORM, caption))
        else:
            paraphrases.append((pair_id, paraphrase, NAME, 1))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(pairs) * (len(RULES) + 1)
    return WrittenCaption(
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(REJECTS.columns)),
    )
