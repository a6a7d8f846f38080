import os
from pathlib import Path

import pytest

from caramel.audit.coco_categories import CATEGORIES, STUFF, THINGS, find_categories
from caramel.sources.sugarcrepe_files import read_captions


def named(text: str) -> set[str]:
    return {f"{category.category_type} {category.name}" for category in find_categories(text)}


def test_coco_has_80_things_in_12_and_stuff_in_15_super_categories() -> None:
    things = [name for names in THINGS.values() for name in names]
    stuff = [name for names in STUFF.values() for name in names]
    assert (len(things), len(set(things)), len(THINGS), len(STUFF)) == (80, 80, 12, 15)
    assert len(stuff) == len(set(stuff))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two men ride bikes.", {"thing person", "thing bicycle"}),
        ("A HOT DOG beside a dog", {"thing hot dog", "thing dog"}),
        ("A potted plant and a plant", {"thing potted plant", "stuff plant"}),
        ("Snowy mountains under the sky; benches", {"stuff mountain", "stuff sky", "thing bench"}),
        ("A carpet in a carriage", {"stuff carpet"}),
        ("", set()),
    ],
)
def test_categories_are_found_in_singular_and_plural_and_as_whole_words(
    text: str, expected: set[str]
) -> None:
    assert named(text) == expected


@pytest.mark.skipif("CARAMEL_DATA" not in os.environ, reason="CARAMEL_DATA names no folder of public files")
def test_the_released_captions_name_most_of_the_categories() -> None:
    found = {
        c
        for caption in read_captions(Path(os.environ["CARAMEL_DATA"]) / "sugarcrepe_pp")["caption"]
        for c in find_categories(caption)
    }
    counts = {kind: sum(category.category_type == kind for category in found) for kind in CATEGORIES}
    assert counts == {"thing": 76, "stuff": 69}
