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
    countable_mass: frozenset[str]
    people: frozenset[str]
    swapped: tuple[frozenset[str], ...]


@functools.cache
def load_word_lists() -> WordLists:
    """Return the lists of the file."""
    raw = read_yaml(FILE, "Install caramel again.")

    def read_lists(name: str) -> dict[str, tuple[str, ...]]:
        return {key: tuple(members) for key, members in raw[name].items()}

    def read_sets(name: str) -> dict[str, frozenset[str]]:
        return {key: frozenset(members.split()) for key, members in raw[name].items()}

    return WordLists(
        further_nouns=raw["further_nouns"],
        replacements=read_lists("replacements"),
        bound=read_sets("bound"),
        companions=read_lists("companions"),
        added=read_lists("added"),
        fitting=read_sets("fitting"),
        fixed_colour=frozenset(raw["fixed_colour"].split()),
        never_sized=frozenset(raw["never_sized"].split()),
        colours_of_animals=frozenset(raw["colours_of_animals"].split()),
        further_colours=frozenset(raw["further_colours"].split()),
        materials=frozenset(raw["materials"].split()),
        countable_mass=frozenset(raw["countable_mass"].split()),
        people=frozenset(raw["people"].split()),
        swapped=tuple(frozenset(line.split()) for line in raw["swapped"]),
    )
