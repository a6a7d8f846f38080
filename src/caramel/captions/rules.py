"""Hard negatives and paraphrases on the embedded world, from exact scene graphs.

The seven subtypes of SugarCrepe (``obj`` nouns, ``att`` adjectives, ``rel`` spatial
relations), each one change away from the caption and false of the scene by the exact check;
a paraphrase says the same in another sentence form and is true of it. What cannot be made
is a reject with its reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel import tables
from caramel.errors import DataError
from caramel.kinds.writer import Written
from caramel.sources.world.language import PATTERNS, Reading, read, realise, shape
from caramel.sources.world.scenes import (
    COLOURS,
    MAX_OBJECTS,
    NOUNS,
    RELATIONS,
    SIZES,
    Meaning,
    Mention,
    Scene,
    holds,
)

Rng = np.random.Generator
NAME = "world_rules"


class Draft(NamedTuple):
    """A changed meaning in the caption's own sentence form."""

    meaning: Meaning
    added: Mention | None = None


Rule = Callable[[Meaning, Rng], Draft | str]  # a draft, or the reason why there is none


def _pick(rng: Rng, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _with_mention(meaning: Meaning, index: int, mention: Mention) -> Meaning:
    mentions = list(meaning.mentions)
    mentions[index] = mention
    return replace(meaning, mentions=tuple(mentions))


def _new_noun(meaning: Meaning, rng: Rng) -> str:
    said = {m.noun for m in meaning.mentions}
    return _pick(rng, [n for n in NOUNS if n not in said])


def replace_obj(meaning: Meaning, rng: Rng) -> Draft | str:
    """Replace one noun by one that the caption does not hold."""
    index = int(rng.integers(len(meaning.mentions)))
    new = replace(meaning.mentions[index], noun=_new_noun(meaning, rng))
    return Draft(_with_mention(meaning, index, new))


def replace_att(meaning: Meaning, rng: Rng) -> Draft | str:
    """Replace one colour or size by another."""
    said = [(i, k) for i, m in enumerate(meaning.mentions) for k in ("colour", "size") if getattr(m, k)]
    if not said:
        return "no attribute in the caption"
    index, kind = said[int(rng.integers(len(said)))]
    old = meaning.mentions[index]
    words = COLOURS if kind == "colour" else SIZES
    new = _pick(rng, [w for w in words if w != getattr(old, kind)])
    changed = replace(old, colour=new) if kind == "colour" else replace(old, size=new)
    return Draft(_with_mention(meaning, index, changed))


def replace_rel(meaning: Meaning, rng: Rng) -> Draft | str:
    """Replace one spatial relation by another."""
    if not meaning.relations:
        return "no relation in the caption"
    index = int(rng.integers(len(meaning.relations)))
    relations = list(meaning.relations)
    kind = _pick(rng, [k for k in RELATIONS if k != relations[index].kind])
    relations[index] = replace(relations[index], kind=kind)
    return Draft(replace(meaning, relations=tuple(relations)))


def swap_obj(meaning: Meaning, rng: Rng) -> Draft | str:
    """Exchange the two objects of one relation, attributes and all."""
    if not meaning.relations:
        return "no relation in the caption"
    relation = meaning.relations[int(rng.integers(len(meaning.relations)))]
    mentions = list(meaning.mentions)
    a, b = relation.subject, relation.object
    mentions[a], mentions[b] = mentions[b], mentions[a]
    return Draft(replace(meaning, mentions=tuple(mentions)))


def swap_att(meaning: Meaning, rng: Rng) -> Draft | str:
    """Exchange attributes of one kind between two objects."""
    said = meaning.mentions
    options = [
        (a, b, kind)
        for a in range(len(said))
        for b in range(a)
        for kind in ("colour", "size")
        if getattr(said[a], kind)
        and getattr(said[b], kind)
        and getattr(said[a], kind) != getattr(said[b], kind)
    ]
    if not options:
        return "no two objects with different attributes of one kind"
    a, b, kind = options[int(rng.integers(len(options)))]
    mentions = list(said)
    if kind == "colour":
        mentions[a], mentions[b] = (
            replace(said[a], colour=said[b].colour),
            replace(said[b], colour=said[a].colour),
        )
    else:
        mentions[a], mentions[b] = replace(said[a], size=said[b].size), replace(said[b], size=said[a].size)
    return Draft(replace(meaning, mentions=tuple(mentions)))


def add_obj(meaning: Meaning, rng: Rng) -> Draft | str:
    """Add one more object, said in a tail."""
    if len(meaning.mentions) >= MAX_OBJECTS:
        return f"the caption has {MAX_OBJECTS} objects already"
    colour = _pick(rng, list(COLOURS)) if rng.random() < 0.85 else None
    size = _pick(rng, list(SIZES)) if rng.random() < 0.35 else None
    return Draft(meaning, Mention(_new_noun(meaning, rng), colour, size))


def add_att(meaning: Meaning, rng: Rng) -> Draft | str:
    """Add a colour or a size to an object that has none in the caption."""
    unsaid = [(i, k) for i, m in enumerate(meaning.mentions) for k in ("colour", "size") if not getattr(m, k)]
    if not unsaid:
        return "every object has all its attributes"
    index, kind = unsaid[int(rng.integers(len(unsaid)))]
    old = meaning.mentions[index]
    new = _pick(rng, list(COLOURS if kind == "colour" else SIZES))
    changed = replace(old, colour=new) if kind == "colour" else replace(old, size=new)
    return Draft(_with_mention(meaning, index, changed))


RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
}


def _whole(draft: Draft) -> Meaning:
    """Return the meaning of a draft with its tail."""
    added = (draft.added,) if draft.added else ()
    return replace(draft.meaning, mentions=draft.meaning.mentions + added)


def write_negative(
    reading: Reading, scene: Scene, subtype: str, rng: Rng, attempts: int
) -> tuple[str, int] | str:
    """Return (negative caption, attempts), or the reason why there is none.

    The caption is read back and checked against the scene: it is false of it.
    """
    for attempt in range(1, attempts + 1):
        draft = RULES[subtype](reading.meaning, rng)
        if isinstance(draft, str):
            return draft
        if not holds(_whole(draft), scene.things):
            caption = realise(draft.meaning, reading.pattern, draft.added)
            back = read(caption)
            assert back is not None
            assert not holds(back.meaning, scene.things), caption
            return caption, attempt
    return f"still true of the scene after {attempts} attempts"


def write_paraphrase(reading: Reading, scene: Scene, rng: Rng) -> tuple[str, int] | str:
    """Return (paraphrase, attempts): the same meaning in another sentence form, true of the scene."""
    others = [p for p in range(len(PATTERNS[shape(reading.meaning)])) if p != reading.pattern]
    caption = realise(reading.meaning, others[int(rng.integers(len(others)))])
    back = read(caption)
    assert back is not None
    assert back.meaning.canonical() == reading.meaning.canonical(), caption
    assert holds(back.meaning, scene.things), caption
    return caption, 1


def world_negatives(pairs: pd.DataFrame, *, files: str, seed: int, attempts: int) -> Written:
    """Return hard negatives of all subtypes and one paraphrase for each pair of the world.

    Args:
        pairs: table ``pairs`` with scenes.
        files: unused here; backends that read a folder of the user's need it.
        seed: the draw of a negative depends on this, the pair's name and the subtype alone.
        attempts: draws until the exact check agrees.

    Raises:
        DataError: a pair has no scene, or a caption is no sentence of the world's language.
    """
    negatives, paraphrases, rejects = [], [], []
    for pair_id, caption, text in zip(pairs["pair_id"], pairs["caption"], pairs["scene"], strict=True):
        reading = read(caption)
        if reading is None or text is None:
            raise DataError(
                f"Pair {pair_id!r} is not of the embedded world (caption {caption!r}). "
                f"Set negatives.backend to 'lexicon' or 'given' in params.yaml."
            )
        scene, name = Scene.from_json(text), zlib.crc32(pair_id.encode())
        for number, subtype in enumerate(tables.SUBTYPES):
            rng = np.random.default_rng([seed, name, number])
            made = write_negative(reading, scene, subtype, rng, attempts)
            row_id = f"{pair_id}:{subtype}"
            if isinstance(made, str):
                rejects.append((row_id, "negatives", made, caption))
            else:
                kind = subtype.partition("_")[0]
                negatives.append((row_id, pair_id, kind, subtype, made[0], NAME, seed, made[1]))
        said = write_paraphrase(reading, scene, np.random.default_rng([seed, name, len(tables.SUBTYPES)]))
        if isinstance(said, str):
            rejects.append((f"{pair_id}:paraphrase", "negatives", said, caption))
        else:
            paraphrases.append((pair_id, said[0], NAME, said[1]))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(pairs) * (len(tables.SUBTYPES) + 1)
    return Written(
        pd.DataFrame(negatives, columns=list(tables.NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(tables.PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(tables.REJECTS.columns)),
    )
