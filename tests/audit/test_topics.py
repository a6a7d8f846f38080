import os
from pathlib import Path

import pandas as pd
import pytest

from caramel.audit.topics import find_topics
from caramel.errors import DataError
from caramel.sources.sugarcrepe_files import read_captions


def rows(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"subtype": "s", "caption": texts})


def test_texts_on_two_subjects_have_two_topics_with_their_words_and_shares() -> None:
    kitchen = [f"A pan and a stove in kitchen {n}" for n in range(30)]
    sea = [f"A surfer rides waves near beach {n}" for n in range(10)]
    found = find_topics(rows(kitchen + sea), topics=2, seed=0)
    assert found["share"].tolist() == [0.75, 0.25]
    assert {*found["words"][0].split()[:3]} == {"pan", "stove", "kitchen"}
    assert {"surfer", "waves", "beach"} <= {*found["words"][1].split()[:5]}
    assert found["topic"].tolist() == [1, 2]


def test_topics_repeat_with_a_seed() -> None:
    texts = rows(
        [f"A {a} near a {b}" for a in ("cat", "dog", "car", "bus") for b in ("tree", "lake", "road", "cat")]
    )
    first, second = (find_topics(texts, topics=3, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("texts", [["A cat."], ["The of and", "to the"], ["cat dog", "cat dog"]])
def test_too_few_texts_or_words_say_so(texts: list[str]) -> None:
    with pytest.raises(DataError, match=r"'s' has .* captions with .* words .* for 3 topics"):
        find_topics(rows(texts), topics=3, seed=0)


@pytest.mark.skipif("CARAMEL_DATA" not in os.environ, reason="CARAMEL_DATA names no folder of public files")
def test_the_topics_of_the_released_captions_cover_most_of_them() -> None:
    captions = read_captions(Path(os.environ["CARAMEL_DATA"]) / "sugarcrepe_pp")
    found = find_topics(captions[captions["subtype"] == "swap_obj"], topics=4, seed=0)
    assert len(found) == 4
    assert found["share"].sum() > 0.95
    assert found["share"].is_monotonic_decreasing
    assert found["words"].str.split().str.len().eq(8).all()
