from caramel import tables
from caramel.sources.world.language import read
from caramel.sources.world.sampling import sample_pairs
from caramel.sources.world.scenes import Scene, holds

COUNTS = {"train": 120, "val": 30, "test": 40}


def sample(seed: int = 1):
    return sample_pairs(counts=COUNTS, objects=(1, 2, 3), prior=0.5, seed=seed)


def test_tables_keep_their_contracts_and_counts(tmp_path) -> None:
    source = sample()
    tables.write(tables.IMAGES, source.images, tmp_path / "images.parquet")
    tables.write(tables.PAIRS, source.pairs, tmp_path / "pairs.parquet")
    assert source.pairs["split"].value_counts().to_dict() == COUNTS


def test_no_scene_stands_in_two_splits() -> None:
    pairs = sample().pairs
    assert pairs.groupby("scene")["split"].nunique().max() == 1


def test_every_caption_is_true_of_its_scene() -> None:
    for row in sample().pairs.itertuples():
        said = read(row.caption)
        assert said is not None
        assert holds(said.meaning, Scene.from_json(row.scene).things)


def test_equal_seeds_give_equal_tables_and_other_seeds_others() -> None:
    assert sample(1).pairs.equals(sample(1).pairs)
    assert not sample(1).pairs.equals(sample(2).pairs)


def test_more_scenes_leave_the_first_ones_as_they_are() -> None:
    more = sample_pairs(counts={**COUNTS, "train": 150}, objects=(1, 2, 3), prior=0.5, seed=1)
    few = sample().pairs
    kept = more.pairs[more.pairs["pair_id"].isin(few["pair_id"])].reset_index(drop=True)
    assert kept.equals(few)
