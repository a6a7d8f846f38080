import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from stored_images import Taken

from caramel.errors import DataError
from caramel.interfaces.writer import WrittenCaption
from caramel.schemas.columns import SUBTYPES
from caramel.sources.captions import scene_writer
from caramel.sources.captions.rules import RULES
from caramel.sources.captions.scene_writer import IMPOSSIBLE, world_negatives, write_negative
from caramel.sources.world.compounds import is_allowed_in_split, list_meaning_compounds, list_split_compounds
from caramel.sources.world.grammar import parse_caption, realise_caption
from caramel.sources.world.planning import find_layouts, plan_scene
from caramel.sources.world.sampling import sample_pairs
from caramel.sources.world.scenes import POSITIONS, Scene, SceneObject, is_true_of_objects


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    counts = {"train": 600, "val": 40, "test": 200}
    return sample_pairs(
        counts=counts,
        num_objects=(1, 2, 3),
        allow_unmentioned_objects=False,
        unseen_frac=0.125,
        typical_color_prob=0.5,
        absolute_positions=0.5,
        group_size=2,
        seed=3,
        put=Taken(),
    ).pairs


@pytest.fixture(scope="module")
def written(pairs: pd.DataFrame) -> WrittenCaption:
    return world_negatives(pairs, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False)


def joined(rows: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    return rows.merge(pairs, on="pair_id", validate="many_to_one")


def test_every_negative_is_false_of_its_scene(written: WrittenCaption, pairs: pd.DataFrame) -> None:
    for row in joined(written.negatives, pairs).itertuples():
        said = parse_caption(row.negative_caption)
        assert said is not None
        assert not is_true_of_objects(said.whole, Scene.from_json(row.scene).things, exactly=True), row


def test_every_paraphrase_is_true_and_worded_otherwise(written: WrittenCaption, pairs: pd.DataFrame) -> None:
    rows = joined(written.paraphrases, pairs)
    assert len(rows) == len(pairs)
    assert (rows["caption2"] != rows["caption"]).all()
    for row in rows.itertuples():
        said = parse_caption(row.caption2)
        assert said is not None
        assert is_true_of_objects(said.whole, Scene.from_json(row.scene).things, exactly=True)


def test_all_subtypes_are_written_and_every_row_is_kept_or_rejected(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    assert set(written.negatives["subtype"]) == set(SUBTYPES) == set(RULES)
    made = len(written.negatives) + len(written.paraphrases) + len(written.rejects)
    assert made == len(pairs) * (len(SUBTYPES) + 1)


def test_rejects_give_reasons_from_a_small_set(written: WrittenCaption) -> None:
    reasons = set(written.rejects["reason"])
    assert "no relation in the caption" in reasons
    assert len(reasons) <= 10


def words(text: str) -> list[str]:
    return sorted(w.strip(".,") for w in text.lower().split() if w not in ("a", "an"))


def test_swaps_keep_the_words(written: WrittenCaption, pairs: pd.DataFrame) -> None:
    rows = joined(written.negatives, pairs)
    swaps = rows[rows["type"] == "swap"]
    assert len(swaps) > 50
    for row in swaps[swaps["subtype"] == "swap_att"].itertuples():
        assert words(row.caption) == words(row.negative_caption)


def test_replace_rel_replaces_one_position_of_a_caption_that_says_positions(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    rows = joined(written.negatives, pairs).query("subtype == 'replace_rel'")
    changes = set()
    for row in rows.itertuples():
        before, after = (parse_caption(text).whole.mentions for text in (row.caption, row.negative_caption))
        if not any(m.position for m in before):
            assert not any(m.position for m in after)
            continue
        assert [replace(m, position=None) for m in before] == [replace(m, position=None) for m in after]
        ((old, new),) = ((a.position, b.position) for a, b in zip(before, after, strict=True) if a != b)
        changes.add((old, new))
    assert changes == {*itertools.permutations(POSITIONS, 2)}


def test_swap_obj_exchanges_objects_and_leaves_the_positions_where_they_stand(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    rows = joined(written.negatives, pairs).query("subtype == 'swap_obj'")
    count = 0
    for row in rows.itertuples():
        before, after = (parse_caption(text).whole.mentions for text in (row.caption, row.negative_caption))
        if any(m.position for m in before):
            count += 1
            assert [m.position for m in before] == [m.position for m in after]
            assert sorted(m.noun for m in before) == sorted(m.noun for m in after)
            changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
            a, b = changed
            assert before[a].position != before[b].position
            assert replace(after[a], position=before[b].position) == before[b]
    assert count > 50


def test_a_swap_of_positions_is_written_out() -> None:
    said = parse_caption("A red car on the left and a blue house on the right.")
    scene = Scene(
        (SceneObject("car", "red", "small", 0, 0), SceneObject("house", "blue", "small", 0, 1)), "white"
    )
    written = write_negative(
        said,
        scene,
        "swap_obj",
        np.random.default_rng(0),
        max_attempts=1,
        allow_unmentioned_objects=False,
        may_stand=lambda draft: True,
    )
    assert realise_caption(written[0]) == "A blue house on the left and a red car on the right."


@pytest.mark.parametrize(
    "text", ["A red car on the left.", "A red car at the top and a blue house at the top."]
)
def test_without_two_different_positions_no_object_can_be_exchanged(text: str) -> None:
    reason = RULES["swap_obj"](parse_caption(text), np.random.default_rng(0))
    assert reason == "no two different positions in the caption"


@pytest.mark.parametrize("subtype", sorted(RULES))
def test_no_rule_but_replace_rel_changes_which_positions_are_said(subtype: str) -> None:
    said = parse_caption("A red car on the left and a blue house at the top.")
    for seed in range(20):
        tail = replace(said, alone=subtype == "only_obj")
        draft = RULES[subtype](tail, np.random.default_rng(seed))
        positions = [m.position for m in draft.meaning.mentions]
        assert (positions != ["left", "top"]) == (subtype == "replace_rel")
        assert draft.added is None or draft.added.position is None


def test_a_negative_does_not_depend_on_the_order_of_rows(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    shuffled = pairs.sample(frac=1, random_state=0)
    again = world_negatives(
        shuffled, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False
    ).negatives
    again = again.set_index("negative_id").loc[written.negatives["negative_id"]].reset_index()
    assert again[written.negatives.columns].equals(written.negatives)


def test_two_processes_write_what_one_writes(
    pairs: pd.DataFrame, written: WrittenCaption, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene_writer, "MANY", 2)
    again = world_negatives(pairs, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False)
    for alone, divided in zip(written[:3], again[:3], strict=True):
        pd.testing.assert_frame_equal(alone, divided)


def test_no_caption_negative_or_paraphrase_means_what_one_of_another_split_means(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    texts = [
        joined(written.negatives, pairs)[["split", "negative_caption"]].set_axis(["split", "text"], axis=1),
        joined(written.paraphrases, pairs)[["split", "caption2"]].set_axis(["split", "text"], axis=1),
        pairs[["split", "caption"]].set_axis(["split", "text"], axis=1),
    ]
    rows = pd.concat(texts)
    meaning = rows["text"].map(lambda text: repr(parse_caption(text).whole.canonicalise()))
    assert rows.groupby(meaning)["split"].nunique().max() == 1


def test_negatives_of_train_compose_nothing_that_only_test_shows(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    _, tested = list_split_compounds(pairs)
    assert tested
    rows = joined(written.negatives, pairs)
    for text in rows.loc[rows["split"] != "test", "negative_caption"]:
        assert not list_meaning_compounds(parse_caption(text).whole, exactly=True) & tested, text


def test_every_negative_has_a_picture_in_its_split_of_which_the_positive_is_false_but_of_add_att(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    _, tested = list_split_compounds(pairs)
    rows = joined(written.negatives, pairs).sample(300, random_state=0)
    for row in rows.itertuples():
        may_stand = partial(is_allowed_in_split, split=row.split, kept_out=tested)
        positive, scene = parse_caption(row.caption), Scene.from_json(row.scene)
        found = plan_scene(
            parse_caption(row.negative_caption), positive, scene, np.random.default_rng(0), may_stand
        )
        assert found is not None, row
        assert row.subtype == "add_att" or not is_true_of_objects(
            positive.whole, found.things, exactly=True
        ), row


def test_compounds_are_seen_where_train_shows_all_that_both_captions_compose(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    seen, _ = list_split_compounds(pairs)
    rows = joined(written.negatives, pairs)
    for row in rows.itertuples():
        both = [
            list_meaning_compounds(parse_caption(text).whole, exactly=True)
            for text in (row.caption, row.negative_caption)
        ]
        assert (row.compounds == "seen") == (both[0] | both[1] <= seen), row
    assert {*rows.loc[rows["split"] == "test", "compounds"]} == {"seen", "unseen"}


def test_only_is_as_long_as_its_caption_false_of_it_and_goes_both_ways(
    written: WrittenCaption, pairs: pd.DataFrame
) -> None:
    rows = joined(written.negatives, pairs).query("subtype == 'only_obj'")
    ways = set()
    for row in rows.itertuples():
        positive, negative = parse_caption(row.caption), parse_caption(row.negative_caption)
        assert len(row.caption.split()) == len(row.negative_caption.split())
        assert positive.alone != negative.alone
        ways.add(positive.alone)
    assert ways == {True, False}


def test_what_no_picture_of_the_world_can_show_is_a_reject(pairs: pd.DataFrame) -> None:
    said = parse_caption("A red car is above a blue cup, and a green tree is above the cup.")
    scene = Scene(
        (
            SceneObject("car", "red", "small", 0, 0),
            SceneObject("tree", "green", "small", 0, 1),
            SceneObject("cup", "blue", "small", 1, 0),
        ),
        "white",
    )
    found = [
        write_negative(
            said,
            scene,
            "replace_rel",
            np.random.default_rng(seed),
            max_attempts=1,
            allow_unmentioned_objects=False,
            may_stand=lambda draft: True,
        )
        for seed in range(30)
    ]
    assert IMPOSSIBLE in found
    made = [draft for draft in found if not isinstance(draft, str)]
    assert made
    for draft, _ in made:
        assert find_layouts(draft.meaning)


def test_a_caption_of_another_language_is_a_clear_error(pairs: pd.DataFrame) -> None:
    other = pairs.head(1).assign(caption="A dog runs.")
    with pytest.raises(DataError, match="does not belong to the embedded world"):
        world_negatives(other, data_dir="", seed=2, max_attempts=20, allow_unmentioned_objects=False)
