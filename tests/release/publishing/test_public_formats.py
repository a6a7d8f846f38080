"""Which split of CREPE a caption is of follows from the caption alone, and from what is trained on."""

from __future__ import annotations

import pytest

from caramel.release.publishing.public_formats import assign_crepe_splits

TRAINED = ["A red car is to the left of a cup.", "A blue box.", "A caption."]


@pytest.mark.parametrize(
    ("caption", "split"),
    [
        ("There is a red car.", "sc"),
        ("A cup is to the right of a car.", "sc"),
        ("A blue car.", "uc"),
        ("A car is to the right of a cup.", "uc"),
        ("A red car is to the left of a blue cup.", "uc"),
        ("A pink car.", "ua"),
        ("A car is above a cup.", "ua"),
        ("A red car on the left.", "sc"),
        ("A red car at the bottom.", "ua"),
        ("A car.", None),
        ("A man on a horse.", None),
        ("", None),
    ],
)
def test_a_caption_is_of_the_split_that_its_atoms_and_compounds_say(caption: str, split: str | None) -> None:
    assert assign_crepe_splits([caption], TRAINED) == ({caption: split} if split else {})
    assert assign_crepe_splits([caption], ["A caption."]) == {}
