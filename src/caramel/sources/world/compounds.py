"""What is composed in a scene or a caption, and which of it the train split never shows.

A compound is two or more atoms put together: a noun and its colour, two nouns and how one lies to the other, a noun and
the number of objects; a noun and its position is none, as in train every noun stands in every cell. CREPE (3.2) calls a
caption *seen* if the training corpus holds each of its compounds.

Besides, what is said and shown is split: all captions and pictures of the same words, in whatever order and bound in
whatever way, stand in one split. So swaps stay there by themselves, and no caption, negative or paraphrase is another
split's in other words, no picture another's on another background.
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
SPLITS = ("train",) * 12 + ("val",) * 3 + ("test",) * 5  # by the hash of the words


def list_scene_compounds(scene: Scene) -> frozenset[Compound]:
    """Return all that is composed in the picture, said or not."""
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
    """Return what the caption composes; ``exactly``: it names all that is there, so that it says a number as well."""
    mentions = meaning.mentions
    compounds: list[Compound] = [(m.noun, m.colour) for m in mentions if m.colour]
    if exactly:
        compounds += [(m.noun, str(len(mentions))) for m in mentions]
    for r in meaning.relations:
        a, predicate, b = mentions[r.subject].noun, r.predicate, mentions[r.object].noun
        compounds.append((a, predicate, b) if predicate in ("left", "above") else (b, INVERSE[predicate], a))
    return frozenset(compounds)


def list_split_compounds(pairs: pd.DataFrame) -> tuple[frozenset[Compound], frozenset[Compound]]:
    """Return what pictures of train compose, and what those of test do besides; of a table ``pairs`` with scenes."""
    compounds = {
        split: frozenset().union(*(list_scene_compounds(Scene.from_json(text)) for text in rows.dropna()))
        for split, rows in pairs.groupby("split")["scene"]
    }
    train_compounds: frozenset[Compound] = compounds.get("train", frozenset())
    return train_compounds, compounds.get("test", frozenset()) - train_compounds


def draw_held_out_compounds(share: float, *, numbers: Sequence[int], seed: int) -> frozenset[Compound]:
    """Return the compounds that no scene of the train split has.

    Of each kind a share is drawn, spread over the nouns. A noun's typical colour stays, as the typical colour is what
    makes text tell; and each noun keeps a number of objects to stand among.

    Args:
        share: of each kind, in [0, 0.5].
        numbers: numbers of objects that scenes have.
        seed: of the draw.
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
    """Return each noun with each of its choices, a random one of every noun first, then a second one …"""
    order = rng.permutation(len(NOUNS)).tolist()
    shuffled = {n: [choices[n][i] for i in rng.permutation(len(choices[n])).tolist()] for n in order}
    rounds = range(max(len(c) for c in choices))
    return [(NOUNS[n], shuffled[n][turn]) for turn in rounds for n in order if turn < len(shuffled[n])]


def build_mentions(objects: Iterable[SceneObject]) -> tuple[Mention, ...]:
    """Return the things with all that can be said of each."""
    return tuple(Mention(t.noun, t.colour, t.size) for t in objects)


def assign_split(mentions: Iterable[Mention]) -> str:
    """Return the split of what is said: a function of its words alone, bound in whatever way."""
    words = sorted(w for m in mentions for w in (m.noun, m.colour, m.size) if w)
    return SPLITS[zlib.crc32(" ".join(words).encode()) % len(SPLITS)]


def is_allowed_in_split(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether a picture may stand in a split: its words are of that split, and only test shows what is kept out."""
    return assign_split(build_mentions(scene.things)) == split and has_only_allowed_compounds(
        scene, split, kept_out
    )


def has_only_allowed_compounds(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether a picture of a split shows nothing that is kept out of it; test shows all."""
    return split == "test" or not list_scene_compounds(scene) & kept_out
