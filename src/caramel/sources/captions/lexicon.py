"""Write hard negatives and paraphrases of free captions by small word lists, without a model or a scene graph.

Negatives are of the seven subtypes of SugarCrepe, and each differs from its caption by one change. Text alone
cannot prove that a negative is false of the image. Therefore a new word is one that no caption of the image
contains and, as far as the lists tell, one that excludes the old word. A text that cannot be written is a
reject.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from caramel.interfaces.writer import WrittenCaption
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions import words
from caramel.sources.captions.tagged_phrases import Tagger, load_spacy_tagger, tag_by_lists
from caramel.sources.captions.tokenization import Sentence, apply_edits, list_plurals, parse_sentence
from caramel.sources.captions.word_lists.rules import RULES

NAME = "lexicon"
PAIRS = 20_000  # pairs that are processed at a time

QUESTION = "the caption is a question"
NO_FORM = "no known sentence form"


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
    pairs: pd.DataFrame, *, seed: int, spacy_model: str | None = None, **unused: object
) -> WrittenCaption:
    """Return hard negatives of all subtypes and one paraphrase for each pair, where they can be written.

    Args:
        pairs: table ``pairs``; a word of any caption of an image counts as true of the image.
        seed: each draw depends only on this, the pair's name and the subtype.
        spacy_model: package or folder of a spaCy model that tags the captions; None: the lists tag them.
        unused: arguments of other backends.

    Raises:
        BackendError: the spaCy model cannot be loaded.
    """
    tag = load_spacy_tagger(spacy_model) if spacy_model else tag_by_lists
    captions = pairs.groupby("image_id")["caption"].agg(list).to_dict()
    # In portions: rows that are not in a frame yet take three times the memory.
    starts = range(0, max(1, len(pairs)), PAIRS)
    parts = [_write_captions(pairs.iloc[start : start + PAIRS], captions, seed, tag) for start in starts]
    tables_of = zip(*((part.negatives, part.paraphrases, part.rejects) for part in parts), strict=True)
    return WrittenCaption(*(pd.concat(of_parts, ignore_index=True) for of_parts in tables_of))


def _write_captions(
    pairs: pd.DataFrame, captions: Mapping[Any, list[str]], seed: int, tag: Tagger
) -> WrittenCaption:
    """Return the captions written for some pairs; ``captions`` are those of all images."""
    negatives, paraphrases, rejects = [], [], []
    for pair_id, image_id, caption in zip(pairs["pair_id"], pairs["image_id"], pairs["caption"], strict=True):
        known, name = parse_sentence(caption, captions[image_id], tag), zlib.crc32(pair_id.encode())
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
