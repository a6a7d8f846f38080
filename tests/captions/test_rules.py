import pandas as pd
import pytest

from caramel import tables
from caramel.captions.rules import RULES, world_negatives
from caramel.errors import DataError
from caramel.kinds.writer import Written
from caramel.sources.world.language import read
from caramel.sources.world.sampling import sample_pairs
from caramel.sources.world.scenes import Scene, holds


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    counts = {"train": 300, "val": 20, "test": 20}
    return sample_pairs(counts=counts, objects=(1, 2, 3), prior=0.5, seed=3).pairs


@pytest.fixture(scope="module")
def written(pairs: pd.DataFrame) -> Written:
    return world_negatives(pairs, files="", seed=2, attempts=20)


def joined(rows: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    return rows.merge(pairs, on="pair_id", validate="many_to_one")


def test_every_negative_is_false_of_its_scene(written: Written, pairs: pd.DataFrame) -> None:
    for row in joined(written.negatives, pairs).itertuples():
        said = read(row.negative_caption)
        assert said is not None
        assert not holds(said.meaning, Scene.from_json(row.scene).things), row


def test_every_paraphrase_is_true_and_worded_otherwise(written: Written, pairs: pd.DataFrame) -> None:
    rows = joined(written.paraphrases, pairs)
    assert len(rows) == len(pairs)
    assert (rows["caption2"] != rows["caption"]).all()
    for row in rows.itertuples():
        said = read(row.caption2)
        assert said is not None
        assert holds(said.meaning, Scene.from_json(row.scene).things)


def test_all_subtypes_are_written_and_every_row_is_kept_or_rejected(
    written: Written, pairs: pd.DataFrame
) -> None:
    assert set(written.negatives["subtype"]) == set(tables.SUBTYPES) == set(RULES)
    made = len(written.negatives) + len(written.paraphrases) + len(written.rejects)
    assert made == len(pairs) * (len(tables.SUBTYPES) + 1)


def test_rejects_give_reasons_from_a_small_set(written: Written) -> None:
    reasons = set(written.rejects["reason"])
    assert "no relation in the caption" in reasons
    assert len(reasons) <= 7


def words(text: str) -> list[str]:
    return sorted(w.strip(".,") for w in text.lower().split() if w not in ("a", "an"))


def test_swaps_keep_the_words(written: Written, pairs: pd.DataFrame) -> None:
    rows = joined(written.negatives, pairs)
    swaps = rows[rows["type"] == "swap"]
    assert len(swaps) > 50
    for row in swaps[swaps["subtype"] == "swap_att"].itertuples():
        assert words(row.caption) == words(row.negative_caption)


def test_a_negative_does_not_depend_on_other_rows(written: Written, pairs: pd.DataFrame) -> None:
    some = world_negatives(pairs.tail(10), files="", seed=2, attempts=20).negatives
    whole = written.negatives[written.negatives["pair_id"].isin(some["pair_id"])]
    assert whole.reset_index(drop=True).equals(some.reset_index(drop=True))


def test_a_caption_of_another_language_is_a_clear_error(pairs: pd.DataFrame) -> None:
    other = pairs.head(1).assign(caption="A dog runs.")
    with pytest.raises(DataError, match="not of the embedded world"):
        world_negatives(other, files="", seed=2, attempts=20)
