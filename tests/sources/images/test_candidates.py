from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_images import indexed

from caramel.schemas.candidates import CANDIDATES
from caramel.schemas.negatives import NEGATIVES
from caramel.schemas.pairs import PAIRS
from caramel.sources.images import candidates
from caramel.sources.images.candidates import StopRule, build_stop_rule, derive_candidate_seed, draw_shard
from caramel.sources.images.filters import FilterSettings, filter_images
from caramel.sources.images.judges import ReadingJudge
from caramel.sources.world.drawing import draw_scene, encode_png
from caramel.sources.world.scenes import Scene, SceneObject

RED_CAR, BLUE_CAR = SceneObject("car", "red", "small", 0, 0), SceneObject("car", "blue", "small", 0, 0)
TREE = SceneObject("tree", "green", "large", 1, 1)
# Names of pictures, and of types with their captions of which these are true or not.
SHOWN = {"none": (TREE,), "red": (RED_CAR,), "blue": (BLUE_CAR,), "both": (BLUE_CAR, TREE)}
PNG = {
    name: encode_png(draw_scene(Scene(things, "white"), np.random.default_rng(0)))
    for name, things in SHOWN.items()
}
ASKED = {
    "replace": ("replace_att", "There is a red car.", "There is a blue car."),
    "add": ("add_att", "There is a car.", "There is a blue car."),
    "swap": ("swap_obj", "There is a car.", "There is a blue car."),  # never clear
}
KEPT = ["add"]
NAMES = [f"{kind}-{number}" for kind in ASKED for number in range(2)]


def shard() -> list[dict[str, str]]:
    rows = []
    for name in NAMES:
        kind = name.split("-")[0]
        _, positive, negative = ASKED[kind]
        rows.append({"negative_id": name, "type": kind, "positive": positive, "caption": negative})
    return rows


def found_by(
    monkeypatch: Any, drawn: dict[tuple[str, int], tuple[str, str | None]], until: StopRule | None
) -> Any:
    """Return the candidates of ``shard`` where these pictures are drawn, and how often it was asked for each."""
    asked: list[tuple[str, int]] = []

    def pictures(rows: Any, **unused: object) -> list[tuple[bytes, bytes | None]]:
        places = [(row["negative_id"], number) for row, number in rows]
        asked.extend(places)
        return [(PNG[n], None if p is None else PNG[p]) for n, p in (drawn[place] for place in places)]

    monkeypatch.setattr(candidates, "_draw_candidates", pictures)
    table = draw_shard(
        shard(),
        candidates=4,
        until=until,
        generator="",
        seed=7,
        guidance=2.0,
        steps=2,
        image_size=48,
        batch_size=4,
        device="cpu",
    ).to_pandas()
    return table, asked


def chosen(table: pd.DataFrame) -> list[tuple[str, int]]:
    """Return which candidates the filter chooses."""
    rows, files = [], {}
    for row in table.itertuples():
        name = f"{row.negative_id}#{row.candidate}"
        files[name] = row.png
        if row.positive_png is not None:
            files[f"{name}+"] = row.positive_png
        drawn = f"{name}+" if row.positive_png is not None else None
        rows.append((row.negative_id, row.candidate, name, row.seed, "g", "p", drawn, None))
    frame = pd.DataFrame(rows, columns=list(CANDIDATES.columns))
    pairs = [(n, n, ASKED[n.split("-")[0]][1], None, "test", "t") for n in NAMES]
    negatives = [
        (n, n, n.split("-")[0], ASKED[n.split("-")[0]][0], ASKED[n.split("-")[0]][2], "g", 0, 1, None)
        for n in NAMES
    ]
    kept = filter_images(
        frame,
        indexed(files),
        files,
        pd.DataFrame(negatives, columns=list(NEGATIVES.columns)),
        pd.DataFrame(pairs, columns=list(PAIRS.columns)),
        judge=ReadingJudge(allow_unmentioned_objects=False),
        second_judge=None,
        settings=FilterSettings(0.5, 0.0, KEPT),
    ).choices.dropna(subset="chosen_by")
    return list(zip(kept["negative_id"], kept["candidate"], strict=True))


PICTURE = st.tuples(st.sampled_from([*SHOWN]), st.sampled_from([None, "red", "none"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(PICTURE, min_size=4 * len(NAMES), max_size=4 * len(NAMES)))
def test_in_rounds_the_same_candidates_are_chosen_as_of_all_and_none_is_drawn_after_them(
    pictures: Any,
) -> None:
    drawn = dict(zip([(name, number) for name in NAMES for number in range(4)], pictures, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        whole, _ = found_by(patch, drawn, None)
        rounds, asked = found_by(patch, drawn, StopRule(allow_unmentioned_objects=False, keep_ambiguous=KEPT))
    assert chosen(rounds) == chosen(whole)
    last = dict(chosen(whole))
    expected = {(n, number) for n in NAMES for number in range(last.get(n, 3) + 1)}
    assert len(asked) == len(expected)
    assert {*asked} == expected
    common = whole.merge(rounds[["negative_id", "candidate"]], on=["negative_id", "candidate"])
    pd.testing.assert_frame_equal(common, rounds)


def test_an_ambiguous_candidate_of_another_type_than_add_ends_no_drawing(monkeypatch) -> None:
    drawn = {(name, number): ("blue", None) for name in NAMES for number in range(4)}
    kept = ["add", "swap"]
    table, _ = found_by(monkeypatch, drawn, StopRule(allow_unmentioned_objects=False, keep_ambiguous=kept))
    counts = table.groupby("negative_id").size()
    assert [int(counts[n]) for n in ("replace-0", "add-0", "swap-0")] == [1, 1, 4]


def test_only_an_exact_reading_of_which_something_is_asked_ends_the_drawing() -> None:
    how: dict[str, Any] = {"allow_unmentioned_objects": False, "keep_ambiguous": KEPT}
    assert build_stop_rule("world", faithfulness_threshold=0.5, **how) == StopRule(False, KEPT)
    for judge, least in (("clip", 0.5), ("clip", None), ("world", 0.0), ("world", None)):
        assert build_stop_rule(judge, faithfulness_threshold=least, **how) is None


def test_seeds_differ_by_negative_and_candidate() -> None:
    seeds = {derive_candidate_seed(1, name, number) for name in ("a", "b") for number in range(4)}
    assert len(seeds) == 8
