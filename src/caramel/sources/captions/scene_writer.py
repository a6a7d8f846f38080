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
from caramel.interfaces.writer import WrittenCaption
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.rules import RULES, Rng
from caramel.sources.world.compounds import (
    Compound,
    assign_split,
    list_meaning_compounds,
    list_split_compounds,
)
from caramel.sources.world.grammar import PATTERNS, Reading, get_pattern_key, parse_caption, realise_caption
from caramel.sources.world.planning import can_be_shown, find_layouts
from caramel.sources.world.scenes import Meaning, Scene, is_true_of_objects

NAME = "world_rules"
STILL_TRUE = "still true of the scene after all attempts"
IMPOSSIBLE = "no picture of the world can show it"
ELSEWHERE = "no draft of which words and picture may stand in the split"


def write_negative(
    reading: Reading,
    scene: Scene,
    subtype: str,
    rng: Rng,
    *,
    max_attempts: int,
    allow_unmentioned_objects: bool,
    may_stand: Callable[[Meaning], bool],
) -> tuple[Reading, int] | str:
    """Return (what the negative says, attempts), or the reason why there is none.

    The caption is read back and checked against the scene: it is false of it.

    Args:
        reading: the positive caption.
        scene: what its picture shows.
        subtype: of the negative.
        rng: of the draws.
        max_attempts: draws at most.
        allow_unmentioned_objects: a caption may leave objects out, if it does not say that nothing else is there.
        may_stand: whether a caption may stand in the pair's split.
    """
    reason = STILL_TRUE
    may_be_said = cache(may_stand)  # a rule has few drafts for a caption, and they come again
    for attempt in range(1, max_attempts + 1):
        draft = RULES[subtype](reading, rng)
        if isinstance(draft, str):
            return draft
        if is_true_of_objects(
            draft.whole, scene.things, exactly=draft.alone or not allow_unmentioned_objects
        ):
            reason = STILL_TRUE
        elif not find_layouts(draft.whole):
            reason = IMPOSSIBLE
        elif not may_be_said(draft.whole):
            reason = ELSEWHERE
        else:
            assert parse_caption(realise_caption(draft)) == draft, draft
            return draft, attempt
    return reason


def write_paraphrase(reading: Reading, rng: Rng) -> str:
    """Return the same meaning in another sentence form."""
    others = [p for p in range(len(PATTERNS[get_pattern_key(reading.meaning)])) if p != reading.pattern]
    other = replace(reading, pattern=others[int(rng.integers(len(others)))])
    caption = realise_caption(other)
    assert parse_caption(caption) == other, caption
    return caption


def _may_stand(meaning: Meaning, split: str, tested: frozenset[Compound], unless: Meaning | None) -> bool:
    """Return whether a caption may stand in a split: its words do, and a picture of it of which ``unless`` is false."""
    if assign_split(meaning.mentions) != split:
        return False
    if split != "test" and list_meaning_compounds(meaning, exactly=True) & tested:
        return False  # soon told: can_be_shown would try all that is not said
    return can_be_shown(meaning, split, tested, unless)


def _list_compounds(reading: Reading, *, allow_unmentioned_objects: bool) -> frozenset[Compound]:
    return list_meaning_compounds(reading.whole, exactly=reading.alone or not allow_unmentioned_objects)


def world_negatives(
    pairs: pd.DataFrame,
    *,
    data_dir: str,
    seed: int,
    max_attempts: int,
    allow_unmentioned_objects: bool,
    **unused: object,
) -> WrittenCaption:
    """Return hard negatives of all subtypes and one paraphrase for each pair of the world.

    A negative is of its pair's split, and so is a picture of it at least (``compounds.belongs``): one that shows, but in
    test, nothing that pictures of test compose and none of train does. The positive is false of it, but for *add_att*.

    Args:
        pairs: table ``pairs`` with scenes.
        data_dir: unused here; backends that read a folder of the user's need it.
        seed: the draw of a negative depends on this, the pair's name and the subtype alone.
        max_attempts: draws until the exact check agrees and the caption is of its split.
        allow_unmentioned_objects: captions may leave objects out.
        unused: what language models need.

    Raises:
        DataError: a pair has no scene, or a caption is no sentence of the world's language.
    """
    negatives, paraphrases, rejects = [], [], []
    seen_compounds, tested = list_split_compounds(pairs)
    rows = pairs[["pair_id", "caption", "scene", "split"]].itertuples(index=False, name=None)
    for pair_id, caption, text, split in rows:
        reading = parse_caption(caption)
        if reading is None or text is None:
            raise DataError(
                f"Pair {pair_id!r} is not of the embedded world (caption {caption!r}). "
                f"Set negatives.backend to 'lexicon' or 'given' in params.yaml."
            )
        scene, name = Scene.from_json(text), zlib.crc32(pair_id.encode())
        said_compounds = _list_compounds(reading, allow_unmentioned_objects=allow_unmentioned_objects)
        for number, subtype in enumerate(SUBTYPES):
            rng = np.random.default_rng([seed, name, number])
            result = write_negative(
                reading,
                scene,
                subtype,
                rng,
                max_attempts=max_attempts,
                allow_unmentioned_objects=allow_unmentioned_objects,
                may_stand=partial(
                    _may_stand,
                    split=split,
                    tested=tested,
                    unless=None
                    if subtype == "add_att"
                    else reading.whole,  # of which every picture shows the positive
                ),
            )
            row_id = f"{pair_id}:{subtype}"
            if isinstance(result, str):
                rejects.append((row_id, "negatives", result, caption))
            else:
                negative_type = subtype.partition("_")[0]
                known = said_compounds | _list_compounds(
                    result[0], allow_unmentioned_objects=allow_unmentioned_objects
                )
                compounds = "seen" if known <= seen_compounds else "unseen"
                negatives.append(
                    (
                        row_id,
                        pair_id,
                        negative_type,
                        subtype,
                        realise_caption(result[0]),
                        NAME,
                        seed,
                        result[1],
                        compounds,
                    )
                )
        rng = np.random.default_rng([seed, name, len(SUBTYPES)])
        paraphrases.append((pair_id, write_paraphrase(reading, rng), NAME, 1))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(pairs) * (len(SUBTYPES) + 1)
    return WrittenCaption(
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(paraphrases, columns=list(PARAPHRASES.columns)),
        pd.DataFrame(rejects, columns=list(REJECTS.columns)),
    )
