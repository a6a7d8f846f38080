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
    Thing,
    related,
)

Compound = tuple[str, ...]
SPLITS = ("train",) * 12 + ("val",) * 3 + ("test",) * 5  # by the hash of the words


def compounds_of_scene(scene: Scene) -> frozenset[Compound]:
    """Return all that is composed in the picture, said or not."""
    things, number = scene.things, str(len(scene.things))
    return frozenset(
        [
            *((t.noun, t.colour) for t in things),
            *((t.noun, number) for t in things),
            *(
                (a.noun, kind, b.noun)
                for a, b in itertools.permutations(things, 2)
                for kind in ("left", "above")
                if related(a, kind, b)
            ),
        ]
    )


def compounds_of_meaning(meaning: Meaning, *, exactly: bool) -> frozenset[Compound]:
    """Return what the caption composes; ``exactly``: it names all that is there, so that it says a number as well."""
    said = meaning.mentions
    found: list[Compound] = [(m.noun, m.colour) for m in said if m.colour]
    if exactly:
        found += [(m.noun, str(len(said))) for m in said]
    for r in meaning.relations:
        a, kind, b = said[r.subject].noun, r.kind, said[r.object].noun
        found.append((a, kind, b) if kind in ("left", "above") else (b, INVERSE[kind], a))
    return frozenset(found)


def seen_and_tested(pairs: pd.DataFrame) -> tuple[frozenset[Compound], frozenset[Compound]]:
    """Return what pictures of train compose, and what those of test do besides; of a table ``pairs`` with scenes."""
    shown = {
        split: frozenset().union(*(compounds_of_scene(Scene.from_json(text)) for text in rows.dropna()))
        for split, rows in pairs.groupby("split")["scene"]
    }
    seen: frozenset[Compound] = shown.get("train", frozenset())
    return seen, shown.get("test", frozenset()) - seen


def held_out(share: float, *, numbers: Sequence[int], seed: int) -> frozenset[Compound]:
    """Return the compounds that no scene of the train split has.

    Of each kind a share is drawn, spread over the nouns. A noun's typical colour stays, as the typical colour is what
    makes text tell; and each noun keeps a number of objects to stand among.

    Args:
        share: of each kind, in [0, 0.5].
        numbers: numbers of objects that scenes have.
        seed: of the draw.
    """
    rng = np.random.default_rng([seed, zlib.crc32(b"held out")])
    colours = _dealt(rng, [[c for c in COLOURS if c != TYPICAL_COLOUR.get(n)] for n in NOUNS])
    levels = [str(n) for n in sorted(set(numbers))]
    counts = _dealt(rng, [levels for _ in NOUNS])[: len(NOUNS)] if len(levels) > 1 else []
    places = [(a, k, b) for a, b in itertools.permutations(NOUNS, 2) for k in ("left", "above")]
    drawn = [places[i] for i in rng.permutation(len(places)).tolist()]
    return frozenset(
        [
            *colours[: round(share * len(NOUNS) * len(COLOURS))],
            *counts[: round(share * len(NOUNS) * len(levels))],
            *drawn[: round(share * len(places))],
        ]
    )


def _dealt(rng: np.random.Generator, choices: Sequence[Sequence[str]]) -> list[Compound]:
    """Return each noun with each of its choices, a random one of every noun first, then a second one …"""
    order = rng.permutation(len(NOUNS)).tolist()
    own = {n: [choices[n][i] for i in rng.permutation(len(choices[n])).tolist()] for n in order}
    rounds = range(max(len(c) for c in choices))
    return [(NOUNS[n], own[n][turn]) for turn in rounds for n in order if turn < len(own[n])]


def mentions_of(things: Iterable[Thing]) -> tuple[Mention, ...]:
    """Return the things with all that can be said of each."""
    return tuple(Mention(t.noun, t.colour, t.size) for t in things)


def split_of(mentions: Iterable[Mention]) -> str:
    """Return the split of what is said: a function of its words alone, bound in whatever way."""
    words = sorted(w for m in mentions for w in (m.noun, m.colour, m.size) if w)
    return SPLITS[zlib.crc32(" ".join(words).encode()) % len(SPLITS)]


def belongs(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether a picture may stand in a split: its words are of that split, and only test shows what is kept out."""
    return split_of(mentions_of(scene.things)) == split and shows_none(scene, split, kept_out)


def shows_none(scene: Scene, split: str, kept_out: frozenset[Compound]) -> bool:
    """Return whether a picture of a split shows nothing that is kept out of it; test shows all."""
    return split == "test" or not compounds_of_scene(scene) & kept_out
