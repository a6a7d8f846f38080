from __future__ import annotations

import pandas as pd

from caramel.interfaces.writer import WrittenCaption
from caramel.schemas.io import build_frame
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.rejects import REJECTS
from caramel.sources.captions.llm.split_filter import ELSEWHERE, filter_by_split
from caramel.sources.world.compounds import assign_split
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.scenes import COLOURS, Scene, SceneObject


def written(rows: list[tuple[str, str]]) -> WrittenCaption:
    negatives = [
        {"negative_id": f"{p}:replace_att", "pair_id": p, "negative_caption": text} for p, text in rows
    ]
    paraphrases = [{"pair_id": p, "caption2": text} for p, text in rows]
    return WrittenCaption(
        build_frame(NEGATIVES, negatives),
        build_frame(PARAPHRASES, paraphrases),
        build_frame(REJECTS, []),
    )


def test_a_text_of_the_world_is_of_the_split_of_its_words() -> None:
    captions = {colour: f"A {colour} ball." for colour in COLOURS[2:]}
    splits = {
        colour: assign_split(said.whole.mentions)
        for colour, text in captions.items()
        if (said := parse_caption(text))
    }
    first = next(iter(captions))
    scene = Scene((SceneObject("ball", first, "small", 0, 0),), "white").to_json()
    pair = {"pair_id": "p", "caption": captions[first], "scene": scene, "split": splits[first]}
    for colour, text in captions.items():
        found = filter_by_split(written([("p", text)]), pd.DataFrame([pair]))
        stays = splits[colour] == splits[first]
        assert len(found.negatives) == len(found.paraphrases) == stays
        assert found.rejects["reason"].tolist() == [ELSEWHERE] * (0 if stays else 2)
    assert len(set(splits.values())) > 1


def test_words_that_another_split_has_are_a_reject_whatever_the_source() -> None:
    pairs = [
        {"pair_id": name, "caption": caption, "scene": None, "split": split}
        for name, caption, split in (("a", "A dog.", "train"), ("b", "A cat.", "test"))
    ]
    found = filter_by_split(
        written([("a", "a cat"), ("b", "A cow."), ("a", "A cow."), ("a", "A pig.")]), pd.DataFrame(pairs)
    )
    assert found.negatives["negative_caption"].tolist() == ["A cow.", "A pig."]
    assert found.rejects["id"].tolist() == ["a:replace_att"] * 2 + ["a:paraphrase"] * 2
    assert set(found.rejects["text"]) == {"a cat", "A cow."}
