"""The words of ``replacements.yaml``: which ones may replace, join or describe a noun in a caption."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from caramel.io.safe_yaml import read_yaml

FILE = Path(__file__).with_name("replacements.yaml")
# Pronouns of a man -> of a woman; "her" has two readings, so the way back is left out.
FEMININE = {"he": "she", "his": "her", "him": "her", "himself": "herself"}


@dataclass(frozen=True)
class WordLists:
    """The lists, as the comments of the file describe them."""

    further_nouns: Mapping[str, str]
    replacements: Mapping[str, tuple[str, ...]]
    bound: Mapping[str, frozenset[str]]
    companions: Mapping[str, tuple[str, ...]]
    added: Mapping[str, tuple[str, ...]]
    fitting: Mapping[str, frozenset[str]]
    fixed_colour: frozenset[str]
    never_sized: frozenset[str]
    colours_of_animals: frozenset[str]
    further_colours: frozenset[str]
    materials: frozenset[str]
    mass: frozenset[str]
    people: frozenset[str]
    swapped: tuple[frozenset[str], ...]


@functools.cache
def load_word_lists() -> WordLists:
    """Return the lists of the file."""
    raw = read_yaml(FILE, "Install caramel again.")
    sets = (
        "fixed_colour",
        "never_sized",
        "colours_of_animals",
        "further_colours",
        "materials",
        "mass",
        "people",
    )
    return WordLists(
        **{
            name: {key: tuple(of) for key, of in raw[name].items()}
            for name in ("replacements", "companions", "added")
        },
        **{
            name: {key: frozenset(of.split()) for key, of in raw[name].items()}
            for name in ("bound", "fitting")
        },
        **{name: frozenset(raw[name].split()) for name in sets},
        further_nouns=raw["further_nouns"],
        swapped=tuple(frozenset(line.split()) for line in raw["swapped"]),
    )
