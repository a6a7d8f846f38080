"""Hard negatives and paraphrases on the embedded world, from exact scene graphs.

A negative is a rule's draft that the exact check finds false of the scene; a paraphrase says the same in another
sentence form. What cannot be made is a reject with its reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.writer import Written
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.rules import RULES, Rng
from caramel.sources.world.compounds import (
    Compound,
    compounds_of_meaning,
    seen_and_tested,
    split_of,
)
from caramel.sources.world.grammar import PATTERNS, Reading, read, realise, shape
from caramel.sources.world.planning import can_be_shown, layouts
from caramel.sources.world.scenes import Meaning, Scene, holds

NAME = "world_rules"
STILL_TRUE = "still true of the scene after all attempts"
IMPOSSIBLE = "no picture of the world can show it"
ELSEWHERE = "no draft of which words and picture may stand in the split"


def write_negative(
    said: Reading,
    scene: Scene,
    subtype: str,
    rng: Rng,
    *,
    attempts: int,
    further_objects: bool,
    may_stand: Callable[[Meaning], bool],
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
    may_be_said = cache(may_stand)  # a rule has few drafts for a caption, and they come again
    for attempt in range(1, attempts + 1):
        draft = RULES[subtype](said, rng)
        if isinstance(draft, str):
            return draft
        if holds(draft.whole, scene.things, exactly=draft.alone or not further_objects):
            reason = STILL_TRUE
        elif not layouts(draft.whole):
            reason = IMPOSSIBLE
        elif not may_be_said(draft.whole):
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


def _may_stand(said: Meaning, split: str, tested: frozenset[Compound], unless: Meaning | None) -> bool:
    """Return whether a caption may stand in a split: its words do, and a picture of it of which ``unless`` is false."""
    if split_of(said.mentions) != split:
        return False
    if split != "test" and compounds_of_meaning(said, exactly=True) & tested:
        return False  # soon told: can_be_shown would try all that is not said
    return can_be_shown(said, split, tested, unless)


def _compounds(said: Reading, *, further_objects: bool) -> frozenset[Compound]:
    return compounds_of_meaning(said.whole, exactly=said.alone or not further_objects)


def world_negatives(
    pairs: pd.DataFrame, *, files: str, seed: int, attempts: int, further_objects: bool, **unused: object
) -> Written:
    """Return hard negatives of all subtypes and one paraphrase for each pair of the world.

    A negative is of its pair's split, and so is a picture of it at least (``compounds.belongs``): one that shows, but in
    test, nothing that pictures of test compose and none of train does. The positive is false of it, but for *add_att*.

    Args:
        pairs: table ``pairs`` with scenes.
        files: unused here; backends that read a folder of the user's need it.
        seed: the draw of a negative depends on this, the pair's name and the subtype alone.
        attempts: draws until the exact check agrees and the caption is of its split.
        further_objects: captions may leave objects out.
        unused: what language models need.

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
        for number, subtype in enumerate(SUBTYPES):
            rng = np.random.default_rng([seed, name, number])
            made = write_negative(
                said,
                scene,
                subtype,
                rng,
                attempts=attempts,
                further_objects=further_objects,
                may_stand=partial(
                    _may_stand,
                    split=split,
                    tested=tested,
                    unless=None
                    if subtype == "add_att"
                    else said.whole,  # of which every picture shows the positive
                ),
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
        rng = np.random.default_rng([seed, name, len(SUBTYPES)])
        paraphrases.append((pair_id, write_paraphrase(said, rng), NAME, 1))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(pairs) * (len(SUBTYPES) + 1)
    return Written(
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(REJECTS.columns)),
    )
