"""Hard negatives and paraphrases on the embedded world, from exact scene graphs.

The seven subtypes of SugarCrepe (``obj`` nouns, ``att`` adjectives, ``rel`` spatial
relations) and ``only_obj``, each one change away from the caption and false of the scene by the
exact check; a paraphrase says the same in another sentence form. What cannot be made is a reject
with its reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from caramel import tables
from caramel.errors import DataError
from caramel.kinds.writer import Written
from caramel.sources.world.compounds import (
    Compound,
    belongs,
    compounds_of_meaning,
    seen_and_tested,
    split_of,
)
from caramel.sources.world.language import PATTERNS, Reading, read, realise, shape
from caramel.sources.world.planning import can_be_shown, layouts
from caramel.sources.world.scenes import (
    COLOURS,
    MAX_OBJECTS,
    NOUNS,
    RELATIONS,
    SIZES,
    Mention,
    Scene,
    holds,
)

Rng = np.random.Generator
NAME = "world_rules"
ATTRIBUTES = {"colour": COLOURS, "size": SIZES}
STILL_TRUE = "still true of the scene after all attempts"
IMPOSSIBLE = "no picture of the world can show it"
ELSEWHERE = "no draft of which words and picture may stand in the split"


Rule = Callable[
    [Reading, Rng], Reading | str
]  # another caption in the same form, or the reason why there is none


def _pick(rng: Rng, choices: list[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _with_mentions(said: Reading, mentions: Mapping[int, Mention]) -> Reading:
    """Return the caption with some of its mentions, but not its tail, replaced."""
    new = tuple(mentions.get(i, m) for i, m in enumerate(said.meaning.mentions))
    return replace(said, meaning=replace(said.meaning, mentions=new))


def _new_noun(said: Reading, rng: Rng) -> str:
    known = {m.noun for m in said.whole.mentions}
    return _pick(rng, [n for n in NOUNS if n not in known])


def replace_obj(said: Reading, rng: Rng) -> Reading | str:
    """Replace one noun by one that the caption does not hold."""
    mentions = said.meaning.mentions
    index = int(rng.integers(len(mentions)))
    return _with_mentions(said, {index: replace(mentions[index], noun=_new_noun(said, rng))})


def replace_att(said: Reading, rng: Rng) -> Reading | str:
    """Replace one colour or size by another."""
    mentions = said.meaning.mentions
    options = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if getattr(m, k)]
    if not options:
        return "no attribute in the caption"
    index, kind = options[int(rng.integers(len(options)))]
    new = _pick(rng, [w for w in ATTRIBUTES[kind] if w != getattr(mentions[index], kind)])
    return _with_mentions(said, {index: _with_attribute(mentions[index], kind, new)})


def replace_rel(said: Reading, rng: Rng) -> Reading | str:
    """Replace one spatial relation by another."""
    relations = list(said.meaning.relations)
    if not relations:
        return "no relation in the caption"
    index = int(rng.integers(len(relations)))
    kind = _pick(rng, [k for k in RELATIONS if k != relations[index].kind])
    relations[index] = replace(relations[index], kind=kind)
    return replace(said, meaning=replace(said.meaning, relations=tuple(relations)))


def swap_obj(said: Reading, rng: Rng) -> Reading | str:
    """Exchange the two objects of one relation, attributes and all."""
    mentions, relations = said.meaning.mentions, said.meaning.relations
    if not relations:
        return "no relation in the caption"
    relation = relations[int(rng.integers(len(relations)))]
    a, b = relation.subject, relation.object
    return _with_mentions(said, {a: mentions[b], b: mentions[a]})


def swap_att(said: Reading, rng: Rng) -> Reading | str:
    """Exchange attributes of one kind between two objects."""
    mentions = said.meaning.mentions
    options = [
        (a, b, kind)
        for a in range(len(mentions))
        for b in range(a)
        for kind in ATTRIBUTES
        if getattr(mentions[a], kind)
        and getattr(mentions[b], kind)
        and getattr(mentions[a], kind) != getattr(mentions[b], kind)
    ]
    if not options:
        return "no two objects with different attributes of one kind"
    a, b, kind = options[int(rng.integers(len(options)))]
    first, second = getattr(mentions[a], kind), getattr(mentions[b], kind)
    swapped = {a: _with_attribute(mentions[a], kind, second), b: _with_attribute(mentions[b], kind, first)}
    return _with_mentions(said, swapped)


def add_obj(said: Reading, rng: Rng) -> Reading | str:
    """Add one more object, said in a tail."""
    if said.added or said.alone:
        return "the caption has a tail already"
    if len(said.meaning.mentions) >= MAX_OBJECTS:
        return f"the caption has {MAX_OBJECTS} objects already"
    colour = _pick(rng, list(COLOURS)) if rng.random() < 0.85 else None
    size = _pick(rng, list(SIZES)) if rng.random() < 0.35 else None
    return replace(said, added=Mention(_new_noun(said, rng), colour, size))


def add_att(said: Reading, rng: Rng) -> Reading | str:
    """Add a colour or a size to an object that has none in the caption."""
    mentions = said.meaning.mentions
    unsaid = [(i, k) for i, m in enumerate(mentions) for k in ATTRIBUTES if not getattr(m, k)]
    if not unsaid:
        return "every object has all its attributes"
    index, kind = unsaid[int(rng.integers(len(unsaid)))]
    new = _pick(rng, list(ATTRIBUTES[kind]))
    return _with_mentions(said, {index: _with_attribute(mentions[index], kind, new)})


def only_obj(said: Reading, rng: Rng) -> Reading | str:
    """Say of what is there that nothing else is, or one object more in as many words; both ways are as frequent.

    What *add* is meant to test without what gives it away: neither caption is longer, and neither is true of both pictures.
    """
    if said.alone:
        return replace(said, alone=False, added=Mention(_new_noun(said, rng)))
    if said.added and said.added == Mention(said.added.noun):
        return replace(said, added=None, alone=True)
    return "no tail that says what else is there"


def _with_attribute(mention: Mention, kind: str, word: str | None) -> Mention:
    return replace(mention, colour=word) if kind == "colour" else replace(mention, size=word)


RULES: dict[str, Rule] = {
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
    "add_obj": add_obj,
    "add_att": add_att,
    "only_obj": only_obj,
}


def write_negative(
    said: Reading,
    scene: Scene,
    subtype: str,
    rng: Rng,
    *,
    attempts: int,
    further_objects: bool,
    may_stand: Callable[[Reading], bool],
) -> tuple[Reading, int] | str:
    """Return (what the negative says, attempts), or the reason why there is none.

    The caption is read back and checked against the scene: it is false of it.

    Args:
        said: the positive caption.
        scene: what its picture shows.
        subtype: of the negative.
        rng: of the draws.
        attempts: draws at most.
        further_objects: a caption may leave objects out, if it does not say that nothing else is there.
        may_stand: whether a caption may stand in the pair's split.
    """
    reason = STILL_TRUE
    for attempt in range(1, attempts + 1):
        draft = RULES[subtype](said, rng)
        if isinstance(draft, str):
            return draft
        if holds(draft.whole, scene.things, exactly=draft.alone or not further_objects):
            reason = STILL_TRUE
        elif not layouts(len(draft.whole.mentions), draft.whole.relations):
            reason = IMPOSSIBLE
        elif not may_stand(draft):
            reason = ELSEWHERE
        else:
            assert read(realise(draft)) == draft, draft
            return draft, attempt
    return reason


def write_paraphrase(said: Reading, rng: Rng) -> str:
    """Return the same meaning in another sentence form."""
    others = [p for p in range(len(PATTERNS[shape(said.meaning)])) if p != said.pattern]
    other = replace(said, pattern=others[int(rng.integers(len(others)))])
    caption = realise(other)
    assert read(caption) == other, caption
    return caption


def _may_stand(said: Reading, split: str, tested: frozenset[Compound]) -> bool:
    """Return whether a caption may stand in a split: its words do, and a picture of it."""
    if split_of(said.whole.mentions) != split:
        return False
    if split != "test" and compounds_of_meaning(said.whole, exactly=True) & tested:
        return False  # soon told: can_be_shown would try all that is not said
    return can_be_shown(said.whole, partial(belongs, split=split, kept_out=tested))


def _compounds(said: Reading, *, further_objects: bool) -> frozenset[Compound]:
    return compounds_of_meaning(said.whole, exactly=said.alone or not further_objects)


def world_negatives(
    pairs: pd.DataFrame, *, files: str, seed: int, attempts: int, further_objects: bool
) -> Written:
    """Return hard negatives of all subtypes and one paraphrase for each pair of the world.

    A negative is of its pair's split, and so is a picture of it at least (``compounds.belongs``), which shows, but in
    test, nothing that pictures of test compose and none of train does.

    Args:
        pairs: table ``pairs`` with scenes.
        files: unused here; backends that read a folder of the user's need it.
        seed: the draw of a negative depends on this, the pair's name and the subtype alone.
        attempts: draws until the exact check agrees and the caption is of its split.
        further_objects: captions may leave objects out.

    Raises:
        DataError: a pair has no scene, or a caption is no sentence of the world's language.
    """
    negatives, paraphrases, rejects = [], [], []
    seen, tested = seen_and_tested(pairs)
    rows = pairs[["pair_id", "caption", "scene", "split"]].itertuples(index=False, name=None)
    for pair_id, caption, text, split in rows:
        said = read(caption)
        if said is None or text is None:
            raise DataError(
                f"Pair {pair_id!r} is not of the embedded world (caption {caption!r}). "
                f"Set negatives.backend to 'lexicon' or 'given' in params.yaml."
            )
        scene, name = Scene.from_json(text), zlib.crc32(pair_id.encode())
        said_compounds = _compounds(said, further_objects=further_objects)
        for number, subtype in enumerate(tables.SUBTYPES):
            rng = np.random.default_rng([seed, name, number])
            made = write_negative(
                said,
                scene,
                subtype,
                rng,
                attempts=attempts,
                further_objects=further_objects,
                may_stand=partial(_may_stand, split=split, tested=tested),
            )
            row_id = f"{pair_id}:{subtype}"
            if isinstance(made, str):
                rejects.append((row_id, "negatives", made, caption))
            else:
                kind = subtype.partition("_")[0]
                known = said_compounds | _compounds(made[0], further_objects=further_objects)
                compounds = "seen" if known <= seen else "unseen"
                negatives.append(
                    (row_id, pair_id, kind, subtype, realise(made[0]), NAME, seed, made[1], compounds)
                )
        rng = np.random.default_rng([seed, name, len(tables.SUBTYPES)])
        paraphrases.append((pair_id, write_paraphrase(said, rng), NAME, 1))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(pairs) * (len(tables.SUBTYPES) + 1)
    return Written(
        pd.DataFrame(negatives, columns=list(tables.NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(tables.PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(tables.REJECTS.columns)),
    )
