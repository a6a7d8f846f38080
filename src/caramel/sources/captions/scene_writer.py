"""Write hard negatives and paraphrases for the embedded world, from exact scene graphs.

A negative is a draft of a rule that the exact check finds false of the scene. A paraphrase has the same
meaning in another sentence form. A text that cannot be written is a reject with its reason.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.writer import WrittenCaption
from caramel.runtime.second_process import run_beside
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

Row = tuple[Any, ...]
Rows = tuple[list[Row], list[Row], list[Row]]  # of negatives, paraphrases and rejects
NAME = "world_rules"
MANY = 2000  # pairs; for fewer, a second process takes longer to start than it saves
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
    """Return (reading of the negative, attempts), or the reason why none was found.

    The negative is parsed again and checked against the scene: it is false of it.

    Args:
        reading: the positive caption.
        scene: what its image shows.
        subtype: subtype of the negative.
        rng: random generator.
        max_attempts: largest number of draws.
        allow_unmentioned_objects: whether a caption that does not say "nothing else" may leave objects out.
        may_stand: returns whether a caption is allowed in the pair's split.
    """
    reason = STILL_TRUE
    may_be_said = cache(may_stand)  # a rule has few drafts for a caption, and they recur
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
    """Return a caption with the same meaning in another sentence form."""
    others = [p for p in range(len(PATTERNS[get_pattern_key(reading.meaning)])) if p != reading.pattern]
    other = replace(reading, pattern=others[int(rng.integers(len(others)))])
    caption = realise_caption(other)
    assert parse_caption(caption) == other, caption
    return caption


def _may_stand(meaning: Meaning, split: str, tested: frozenset[Compound], unless: Meaning | None) -> bool:
    """Return whether a caption is allowed in a split.

    Its words must belong to the split, and so must some image that shows it. That image must make ``unless``
    false.
    """
    if assign_split(meaning.mentions) != split:
        return False
    if split != "test" and list_meaning_compounds(meaning, exactly=True) & tested:
        return False  # a shortcut: can_be_shown would try every completion of the caption
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

    Many pairs are divided between two processes. A negative belongs to its pair's split: its words do, and so
    does at least one image of it (``compounds.belongs``). Outside test, that image shows no compound that images of test have and images of
    train lack. The positive is false of that image, except for *add_att*.

    Args:
        pairs: table ``pairs`` with scenes.
        data_dir: unused; for backends that read a folder of the user.
        seed: each draw depends only on this, the pair's name and the subtype.
        max_attempts: draws until the exact check passes and the caption is allowed in its split.
        allow_unmentioned_objects: whether captions may leave objects out.
        unused: arguments of language models.

    Raises:
        DataError: a pair has no scene, or a caption is not a sentence of the world's language.
    """
    write = partial(
        _write_pairs,
        split_compounds=list_split_compounds(pairs),
        seed=seed,
        max_attempts=max_attempts,
        allow_unmentioned_objects=allow_unmentioned_objects,
    )
    parts = _write_in_two(write, pairs) if len(pairs) >= MANY else [write(pairs)]
    negatives, paraphrases, rejects = (
        pd.DataFrame([*itertools.chain(*rows)], columns=list(table.columns))
        for rows, table in zip(zip(*parts, strict=True), (NEGATIVES, PARAPHRASES, REJECTS), strict=True)
    )
    return WrittenCaption(negatives, paraphrases, rejects)


def _write_in_two(write: Callable[[pd.DataFrame], Rows], pairs: pd.DataFrame) -> list[Rows]:
    half = len(pairs) // 2
    with run_beside(write, pairs.iloc[half:]) as wait_for_rest:
        return [write(pairs.iloc[:half]), wait_for_rest()]


def _write_pairs(
    pairs: pd.DataFrame,
    *,
    split_compounds: tuple[frozenset[Compound], frozenset[Compound]],
    seed: int,
    max_attempts: int,
    allow_unmentioned_objects: bool,
) -> Rows:
    """Return the rows of some pairs; ``split_compounds`` are those of all pairs."""
    negatives: list[Row] = []
    paraphrases: list[Row] = []
    rejects: list[Row] = []
    seen_compounds, tested = split_compounds
    rows = pairs[["pair_id", "caption", "scene", "split"]].itertuples(index=False, name=None)
    for pair_id, caption, text, split in rows:
        reading = parse_caption(caption)
        if reading is None or text is None:
            raise DataError(
                f"Pair {pair_id!r} does not belong to the embedded world (caption {caption!r}). "
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
                    else reading.whole,  # add_att: every image of the negative shows the positive
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
    return negatives, paraphrases, rejects
