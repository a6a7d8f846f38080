import hashlib

import pytest
from stored_images import Taken

from caramel.errors import DataError
from caramel.schemas.io import write_table
from caramel.schemas.pairs import PAIRS
from caramel.sources.world import sampling
from caramel.sources.world.compounds import (
    assign_split,
    build_mentions,
    draw_held_out_compounds,
    list_scene_compounds,
)
from caramel.sources.world.grammar import parse_caption
from caramel.sources.world.sampling import sample_pairs
from caramel.sources.world.scenes import Mention, Scene, is_true_of_objects

COUNTS = {"train": 120, "val": 30, "test": 40}


def sample(seed: int = 1, put=None, **changes):
    settings = {
        "counts": COUNTS,
        "num_objects": (1, 2, 3),
        "allow_unmentioned_objects": False,
        "unseen_frac": 0.125,
        "typical_color_prob": 0.5,
        "absolute_positions": 0.5,
        "group_size": 1,
    }
    return sample_pairs(**settings | changes, seed=seed, put=put or Taken())


def test_tables_keep_their_contracts_and_counts(tmp_path) -> None:
    taken = Taken()
    source = sample(put=taken)
    write_table(PAIRS, source.pairs, tmp_path / "pairs.parquet")
    assert [row["image_id"] for row in taken.rows] == source.pairs["image_id"].tolist()
    assert [row["split"] for row in taken.rows] == source.pairs["split"].tolist()
    assert {(row["width"], row["height"], row["source"]) for row in taken.rows} == {(48, 48, "world")}
    assert source.pairs["split"].value_counts().to_dict() == COUNTS


def test_no_scene_stands_in_two_splits() -> None:
    pairs = sample().pairs
    assert pairs.groupby("scene")["split"].nunique().max() == 1


def test_every_caption_is_true_of_its_scene() -> None:
    for further in (False, True):
        for row in sample(allow_unmentioned_objects=further).pairs.itertuples():
            said = parse_caption(row.caption)
            assert said is not None
            exactly = said.alone or not further
            assert is_true_of_objects(said.whole, Scene.from_json(row.scene).things, exactly=exactly)


def test_captions_leave_objects_out_only_where_they_may() -> None:
    def left_out(further: bool) -> int:
        rows = sample(allow_unmentioned_objects=further).pairs.itertuples()
        return sum(
            len(parse_caption(row.caption).whole.mentions) < len(Scene.from_json(row.scene).things)
            for row in rows
        )

    assert left_out(False) == 0 < left_out(True)


def test_no_scene_and_no_caption_of_equal_words_stands_in_two_splits() -> None:
    pairs = sample(counts={"train": 600, "val": 100, "test": 300}).pairs
    said = pairs["caption"].map(lambda text: parse_caption(text).whole.mentions)
    shown = pairs["scene"].map(lambda text: build_mentions(Scene.from_json(text).things))
    for words in (said, shown):
        keys = words.map(lambda ms: " ".join(sorted(w for m in ms for w in (m.noun, m.colour, m.size) if w)))
        assert pairs.groupby(keys)["split"].nunique().max() == 1


def test_what_is_held_out_is_shown_in_test_alone() -> None:
    pairs = sample(counts={"train": 600, "val": 100, "test": 300}).pairs
    kept_out = draw_held_out_compounds(0.125, numbers=(1, 2, 3), seed=1)
    shown = pairs["scene"].map(lambda text: bool(list_scene_compounds(Scene.from_json(text)) & kept_out))
    assert not shown[pairs["split"] != "test"].any()
    assert 0.2 < shown[pairs["split"] == "test"].mean() < 0.8


def test_one_caption_in_seven_or_so_says_that_nothing_else_is_there_and_one_that_one_noun_is() -> None:
    said = sample(counts={"train": 1500}).pairs["caption"].map(parse_caption)
    alone, bare = (
        said.map(lambda r: r.alone).mean(),
        said.map(lambda r: r.added is not None and r.added == Mention(r.added.noun)).mean(),
    )
    assert 0.1 < alone < 0.2
    assert 0.1 < bare < 0.2


def test_what_stands_before_a_tail_does_not_tell_which_tail_it_is() -> None:
    pairs = sample(counts={"train": 1200, "test": 1200}).pairs
    said = pairs["caption"].map(parse_caption)
    rows = pairs[said.map(lambda r: r.alone or r.added is not None)].assign(
        alone=said.map(lambda r: r.alone), before=said.map(lambda r: len(r.meaning.mentions))
    )
    share = rows.groupby(["split", "before"])["alone"].agg(["size", "mean"])
    assert set(share.index) == {(split, n) for split in ("train", "test") for n in (1, 2)}
    assert (share["size"] > 100).all()
    assert ((share["mean"] - 0.5).abs() < 0.12).all(), share


def test_captions_that_end_with_a_noun_may_stand_in_their_split_without_it() -> None:
    for row in sample(counts={"train": 100, "test": 100}).pairs.itertuples():
        said = parse_caption(row.caption)
        if said.added:
            rest = [t for t in Scene.from_json(row.scene).things if t.noun != said.added.noun]
            assert assign_split(said.meaning.mentions) == assign_split(build_mentions(rest)) == row.split


def test_scenes_that_nothing_allows_are_an_error_that_names_the_knob(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "SCENES", 0)
    with pytest.raises(
        DataError, match=r"0 draws gave no scene of 3 objects .* split 'train'.*scenes\.unseen"
    ):
        sample(num_objects=(3,))


def test_equal_seeds_give_equal_tables_and_other_seeds_others() -> None:
    first, again = Taken(), Taken()
    assert sample(1, first).pairs.equals(sample(1, again).pairs)
    assert first.files == again.files
    assert not sample(1).pairs.equals(sample(2).pairs)


def test_more_scenes_leave_the_first_ones_as_they_are() -> None:
    more = sample(counts={**COUNTS, "train": 150})
    few = sample().pairs
    kept = more.pairs[more.pairs["pair_id"].isin(few["pair_id"])].reset_index(drop=True)
    assert kept.equals(few)


def test_without_positions_and_groups_scenes_captions_and_pictures_are_as_they_were_frozen() -> None:
    taken = Taken()
    counts = {"train": 50, "val": 20, "test": 30}
    pairs = sample(put=taken, counts=counts, absolute_positions=0.0).pairs
    texts = "\n".join(pairs["caption"] + pairs["scene"]).encode()
    pictures = b"".join(taken.files[name] for name in pairs["image_id"])
    assert hashlib.sha256(texts).hexdigest()[:16] == "ba23c9dd5cbfa386"
    assert hashlib.sha256(pictures).hexdigest()[:16] == "4bf636fe7ba34c08"


def test_a_share_of_the_captions_of_every_split_says_positions_and_then_no_relation() -> None:
    pairs = sample(counts={"train": 400, "val": 400, "test": 400}).pairs
    said = pairs["caption"].map(lambda text: parse_caption(text).whole)
    positions = said.map(lambda m: any(mention.position for mention in m.mentions))
    assert ((positions.groupby(pairs["split"]).mean() - 0.5).abs() < 0.08).all()
    assert not said[positions].map(lambda m: m.relations).any()
    assert said[~positions].map(lambda m: bool(m.relations)).any()


def test_the_noun_of_a_tail_says_no_position() -> None:
    said = sample(counts={"train": 400}, absolute_positions=1.0).pairs["caption"].map(parse_caption)
    added = [reading.added for reading in said if reading.added]
    assert added == [Mention(mention.noun) for mention in added]
    assert len(added) > 20


def objects_of(scene: str) -> list[tuple[str, str]]:
    """Return noun and size of each object."""
    return [(t.noun, t.size) for t in Scene.from_json(scene).things]


def test_scenes_of_train_come_in_groups_of_the_same_objects_and_those_of_other_splits_do_not() -> None:
    pairs = sample(counts={"train": 400, "val": 100, "test": 100}, group_size=8).pairs
    shown = pairs["scene"].map(lambda text: repr(objects_of(text)))
    groups = (shown != shown.shift()).cumsum()
    size = groups.groupby(groups).transform("size")
    assert (size[pairs["split"] == "train"] > 1).mean() > 0.9
    assert size[pairs["split"] == "train"].mode().item() == 8
    assert (size[pairs["split"] != "train"] > 1).mean() < 0.1
    assert (
        not pairs[pairs["split"] == "train"]
        .groupby(groups)["scene"]
        .apply(lambda s: s.duplicated().any())
        .any()
    )


def test_groups_change_no_scene_of_other_splits_and_begin_with_the_scenes_that_there_are_without_them() -> (
    None
):
    alone, grouped = sample().pairs, sample(group_size=3).pairs
    assert grouped[grouped["split"] != "train"].equals(alone[alone["split"] != "train"])
    firsts = grouped.loc[grouped["split"] == "train", "scene"].isin(alone["scene"])
    assert firsts.sum() >= 120 // 3


def test_siblings_and_their_captions_are_true_of_their_split_and_show_nothing_that_is_held_out() -> None:
    kept_out = draw_held_out_compounds(0.125, numbers=(1, 2, 3), seed=1)
    for row in sample(counts={"train": 300}, group_size=8).pairs.itertuples():
        scene, said = Scene.from_json(row.scene), parse_caption(row.caption)
        assert said is not None
        assert is_true_of_objects(said.whole, scene.things, exactly=True)
        assert assign_split(said.whole.mentions) == assign_split(build_mentions(scene.things)) == "train"
        assert not list_scene_compounds(scene) & kept_out


def test_more_scenes_leave_the_first_groups_as_they_are() -> None:
    few, more = (sample(counts={"train": count}, group_size=8).pairs for count in (60, 100))
    assert more.head(60).equals(few)
