"""Sample pairs of the embedded world: random scenes, their images, and one true caption each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from caramel.errors import DataError
from caramel.interfaces.source import SaveImage, Source
from caramel.schemas.io import build_frame
from caramel.schemas.pairs import PAIRS
from caramel.schemas.rejects import REJECTS
from caramel.sources.world.compounds import assign_split, draw_held_out_compounds, is_allowed_in_split
from caramel.sources.world.drawing import CANVAS, draw_scene, encode_png
from caramel.sources.world.grammar import PATTERNS, Reading, get_pattern_key, realise_caption
from caramel.sources.world.scenes import (
    MAX_OBJECTS,
    Meaning,
    Mention,
    Scene,
    SceneObject,
    sample_meaning,
    sample_scene,
)
from caramel.sources.world.siblings import sample_sibling

TAIL = 0.2  # probability of the ending "nothing else", and of the last noun as a tail, where possible
TRIES = 8  # captions drawn for a scene, before another scene is drawn
SCENES = 1_000_000  # largest number of scenes drawn for one pair

Tail = Literal["none", "alone", "added"]


class SplitSettings(NamedTuple):
    """Settings of the scenes and captions of one split; see ``sample_pairs``."""

    split: str
    may_stand: Callable[[Scene], bool]
    num_objects: Sequence[int]
    allow_unmentioned_objects: bool
    typical_color_prob: float
    absolute_positions: float


def sample_pairs(
    *,
    counts: Mapping[str, int],
    num_objects: Sequence[int],
    allow_unmentioned_objects: bool,
    unseen_frac: float,
    typical_color_prob: float,
    absolute_positions: float,
    group_size: int,
    seed: int,
    put: SaveImage,
    **unused: object,
) -> Source:
    """Return pairs of the world, after passing their images to ``put``.

    The scene and the caption of a pair belong to one split by their words (``compounds.assign_split``).
    Scenes of train and val have no held-out compound; scenes of test may have them.

    Args:
        counts: scenes per split.
        num_objects: numbers of objects in a scene, drawn with equal probability.
        allow_unmentioned_objects: whether captions may leave objects out.
        unseen_frac: share of the compounds of each kind that only test may show.
        typical_color_prob: probability in [0, 1] that a noun has its typical colour.
        absolute_positions: probability in [0, 1] that a caption states the column or row of each object, and
            no relation.
        group_size: largest number of consecutive scenes of train with the same objects (``siblings``); 1: no
            siblings.
        seed: each scene depends only on this, its split, the number of its group and its number in the group.
        put: called with each image as it is drawn.
        unused: arguments of sources that read a folder.
    """
    pairs = []
    kept_out = draw_held_out_compounds(unseen_frac, numbers=num_objects, seed=seed)
    for number, (split, count) in enumerate(counts.items()):
        may_stand = partial(is_allowed_in_split, split=split, kept_out=kept_out)
        settings = SplitSettings(
            split, may_stand, num_objects, allow_unmentioned_objects, typical_color_prob, absolute_positions
        )
        size = group_size if split == "train" else 1
        groups = (_iter_group([seed, number, group], size, settings) for group in itertools.count())
        rows = itertools.islice(itertools.chain.from_iterable(groups), count)
        for index, (scene, reading, rng) in enumerate(rows):
            name = f"{split}-{index:06d}"
            png = encode_png(draw_scene(scene, rng))
            put(name, png, f"{name}.png", width=CANVAS, height=CANVAS, source="world", split=split)
            pairs.append((name, name, realise_caption(reading), scene.to_json(), split, "world"))
    return Source(
        pd.DataFrame(pairs, columns=list(PAIRS.columns)),
        build_frame(REJECTS, []),
    )


def _iter_group(
    seeds: Sequence[int], size: int, settings: SplitSettings
) -> Iterator[tuple[Scene, Reading, np.random.Generator]]:
    """Yield the scenes of a group (the first and its siblings), their captions, and the random generators.

    Args:
        seeds: seeds of the first scene; for a sibling, its number in the group is appended.
        size: largest number of scenes.
        settings: settings of the split.
    """
    rng = np.random.default_rng(seeds)
    num_objects = int(rng.choice(settings.num_objects))
    num_mentioned = _sample_num_mentioned(rng, num_objects, settings)
    scene, reading = _sample_captioned_scene(
        rng, (num_objects, num_mentioned), sample_tail(rng, num_objects, num_mentioned), settings
    )
    yield scene, reading, rng
    group = [scene]
    for position in range(1, size):
        rng = np.random.default_rng([*seeds, position])
        sibling = sample_sibling(
            rng, group, settings.may_stand, partial(_sample_new_caption, rng, settings=settings)
        )
        if sibling is None:
            return
        group.append(sibling[0])
        yield *sibling, rng


def _sample_num_mentioned(rng: np.random.Generator, num_objects: int, settings: SplitSettings) -> int:
    """Return how many of the scene's objects the caption mentions."""
    if settings.allow_unmentioned_objects and rng.random() < 0.2:
        return int(rng.integers(1, num_objects + 1))
    return num_objects


def sample_tail(rng: np.random.Generator, num_objects: int, num_mentioned: int) -> Tail:
    """Return the ending of a caption that mentions some of the scene's objects.

    For each n, captions of n objects end with "nothing else" as often as captions of n + 1 objects end with a
    noun. The text before the tail therefore does not predict which tail is true.
    """
    draw = rng.random()
    if draw < TAIL and num_mentioned == num_objects < MAX_OBJECTS:
        return "alone"
    return "added" if draw > 1 - TAIL and num_mentioned > 1 else "none"


def _sample_captioned_scene(
    rng: np.random.Generator,
    counts: tuple[int, int],
    tail: Tail,
    settings: SplitSettings,
) -> tuple[Scene, Reading]:
    """Return a scene that is allowed in the split, and the reading of a caption of the split.

    Args:
        rng: random generator.
        counts: number of objects in the scene, and number of objects that the caption mentions.
        tail: tail of the caption.
        settings: settings of the split.

    Raises:
        DataError: no such scene was found.
    """
    num_objects, num_mentioned = counts
    for _ in range(SCENES):
        scene = sample_scene(rng, num_objects=num_objects, typical_color_prob=settings.typical_color_prob)
        if not settings.may_stand(scene):
            continue
        reading = _sample_caption(rng, scene, num_mentioned, tail, settings)
        if reading is not None:
            return scene, reading
    raise DataError(
        f"{SCENES} draws gave no scene of {num_objects} objects with a caption for split {settings.split!r}: "
        f"too many compounds are held out. Lower scenes.unseen_frac in params.yaml."
    )


def _sample_caption(
    rng: np.random.Generator, scene: Scene, num_mentioned: int, tail: Tail, settings: SplitSettings
) -> Reading | None:
    """Return the reading of a caption of the split on the scene's first objects.

    None is returned if ``TRIES`` draws gave none.
    """
    split, may_stand = settings.split, settings.may_stand
    for _ in range(TRIES):
        meaning = sample_meaning(
            rng, scene.things[:num_mentioned], absolute_positions=settings.absolute_positions
        )
        reading = add_tail(meaning, tail)
        if assign_split(reading.whole.mentions) != split:
            continue
        if tail == "added" and not _is_allowed_without_tail(reading.meaning, scene, split, may_stand):
            continue
        return replace(reading, pattern=int(rng.integers(len(PATTERNS[get_pattern_key(reading.meaning)]))))
    return None


def _sample_new_caption(rng: np.random.Generator, scene: Scene, *, settings: SplitSettings) -> Reading | None:
    """Return the reading of a caption of a given scene, with a tail drawn for it; None if none was found."""
    num_objects = len(scene.things)
    num_mentioned = _sample_num_mentioned(rng, num_objects, settings)
    return _sample_caption(rng, scene, num_mentioned, sample_tail(rng, num_objects, num_mentioned), settings)


def add_tail(meaning: Meaning, tail: Tail) -> Reading:
    """Return the reading with a tail: the last noun without attributes, "nothing else", or none."""
    if tail != "added":
        return Reading(meaning, 0, alone=tail == "alone")
    last = len(meaning.mentions) - 1
    relations = tuple(r for r in meaning.relations if last not in (r.subject, r.object))
    before = replace(meaning, mentions=meaning.mentions[:last], relations=relations)
    return Reading(before, 0, added=Mention(meaning.mentions[last].noun))


def _is_allowed_without_tail(
    before: Meaning, scene: Scene, split: str, may_stand: Callable[[Scene], bool]
) -> bool:
    """Return whether the caption without its tail is allowed in the split too.

    The same must hold for the scene without the tail's noun.

    Captions that end with "nothing else" must meet the same condition. A condition on one tail alone would
    reveal it.
    """
    nouns = {m.noun for m in before.mentions}
    objects: tuple[SceneObject, ...] = tuple(t for t in scene.things if t.noun in nouns)
    return assign_split(before.mentions) == split and may_stand(Scene(objects, scene.background))
