"""List what scenes and captions compose, and hold compounds out of the train split.

A compound combines two or more atoms: a noun and its colour, two nouns and the relation between them, or a
noun and the number of objects. A noun and its position is not a compound, because in train every noun occurs
in every cell. CREPE (3.2) calls a caption *seen* if the training corpus contains each of its compounds.

Captions and images are also split by their words. All those with the same words, in any order and any
combination, are in one split. Swaps therefore stay in their split. No caption, negative or paraphrase of a
split rewords one of another split, and no image of a split repeats one of another split on another
background.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from caramel.sources.world.scenes import (
    COLOURS,
    INVERSE,
    NOUNS,
    TYPICAL_COLOUR,
    Meaning,
    Mention,
    Scene,
    SceneObject,
    has_relation,
)

Compound = tuple[str, ...]
SPLITS = ("train",) * 12 + ("val",) * 3 + ("test",) * 5  # indexed by the hash of the words


def list_scene_compounds(scene: Scene) -> frozenset[Compound]:
    """Return all compounds of the image, whether a caption mentions them or not."""
    objects, number = scene.things, str(len(scene.things))
    return frozenset(
        [
            *((t.noun, t.colour) for t in objects),
            *((t.noun, number) for t in objects),
            *(
                (a.noun, predicate, b.noun)
                for a, b in itertools.permutations(objects, 2)
                for predicate in ("left", "above")
                if has_relation(a, predicate, b)
            ),
        ]
    )


def list_meaning_compounds(meaning: Meaning, *, exactly: bool) -> frozenset[Compound]:
    """Return the compounds of the caption.

    With ``exactly``, the caption names all objects, so the number of objects is a compound too.
    """
    mentions = meaning.mentions
    compounds: list[Compound] = [(m.noun, m.colour) for m in mentions if m.colour]
    if exactly:
        compounds += [(m.noun, str(len(mentions))) for m in mentions]
    for r in meaning.relations:
        a, predicate, b = mentions[r.subject].noun, r.predicate, mentions[r.object].noun
        compounds.append((a, predicate, b) if predicate in ("left", "above") else (b, INVERSE[predicate], a))
    return frozenset(compounds)


def list_split_compounds(pairs: pd.DataFrame) -> tuple[frozenset[Compound], frozenset[Compound]]:
    """Return the compounds in images of train, and those only in images of test.

    ``pairs`` is a table with scenes.
    """
    compounds = {
        split: frozenset().union(*(list_scene_compounds(Scene.from_json(text)) for text in rows.dropna()))
        for split, rows in pairs.groupby("split")["scene"]
    }
    train_compounds: frozenset[Compound] = compounds.get("train", frozenset())
    return train_compounds, compounds.get("test", frozenset()) - train_compounds


def draw_held_out_compounds(share: float, *, numbers: Sequence[int], seed: int) -> frozenset[Compound]:
    """Return the compounds that no scene of the train split has.

    A share of each kind is drawn, spread over the nouns. A noun keeps its typical colour, because typical
    colours are what makes text predictive. Each noun also keeps at least one number of objects.

    Args:
        share: share of each kind, in [0, 0.5].
        numbers: numbers of objects that scenes have.
        seed: random seed.
    """
    rng = np.random.default_rng([seed, zlib.crc32(b"held out")])
    colours = _deal_choices(rng, [[c for c in COLOURS if c != TYPICAL_COLOUR.get(n)] for n in NOUNS])
    levels = [str(n) for n in sorted(set(numbers))]
    counts = _deal_choices(rng, [levels for _ in NOUNS])[: len(NOUNS)] if len(levels) > 1 else []
    relations = [(a, k, b) for a, b in itertools.permutations(NOUNS, 2) for k in ("left", "above")]
    drawn = [relations[i] for i in rng.permutation(len(relations)).tolist()]
    return frozenset(
        [
            *colours[: round(share * len(NOUNS) * len(COLOURS))],
            *counts[: round(share * len(NOUNS) * len(levels))],
            *drawn[: round(share * len(relations))],
        ]
    )


def _deal_choices(rng: np.random.Generator, choices: Sequence[Sequence[str]]) -> list[Compound]:
    """Return all (noun, choice): a random choice of every noun first, then a second one of every noun …"""
    order = rng.permutation(len(NOUNS)).tolist()
    shuffled = {n: [choices[n][i] for i in rng.permutation(len(choices[n])).tolist()] for n in order}
    rounds = range(max(len(c) for c in choices))
    return [(NOUNS[n], shuffled[n][turn]) for turn in rounds for n in order if turn < len(shuffled[n])]


def build_mentions(objects: Iterable[SceneObject]) -> tuple[Mention, ...]:
    """Return the objects as mentions with all attributes."""
    return tuple(Mention(t.noun, t.colour, t.size) for t in objects)


def assign_split(mentions: Iterable[Mention]) -> str:
    """Return the split of mentions: a function of their words alone, however they are combined."""
    words = sorted(w for m in mentions for w in (m.noun, m.colour, m.size) if w)
    return SPLITS[zlib.crc32(" ".join(words).encode()) % len(SPLITS)]


def is_allowed_in_split(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether an image may be in a split.

    Its words must belong to the split, and held-out compounds are allowed in test alone.
    """
    return assign_split(build_mentions(scene.things)) == split and has_only_allowed_compounds(
        scene, split, kept_out
    )


def has_only_allowed_compounds(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether an image of a split has no compound that is held out of the split; test may have all."""
    return split == "test" or not list_scene_compounds(scene) & kept_out
