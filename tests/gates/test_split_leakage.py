"""No text of one split stands in another, by its words or, in the world, by what it says."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from caramel.errors import GateError
from caramel.gates.split_leakage import list_text_uses, parse_meaning
from caramel.gates.suite_summaries import ExpectationResult
from caramel.gates.suites import validate_table
from caramel.sources.world.grammar import PATTERNS, Reading, get_pattern_key, parse_caption, realise_caption
from caramel.sources.world.scenes import sample_meaning, sample_scene
from caramel.utils.text import extract_words

SUITE = Path(__file__).parents[2] / "expectations/text_uses.json"
Texts = tuple[str, str, str]  # caption, paraphrase, negative

TRAIN: Texts = (
    "A red ball is above a blue box.",
    "A blue box with a red ball above it.",
    "A cup and a boat.",
)


def uses(train: Texts, test: Texts, *, scene: str | None = "{}") -> pd.DataFrame:
    """Return the uses of the texts of two pairs, one of train and one of test."""
    rows = pd.DataFrame(
        [(f"p {split}", split, scene, *texts) for split, texts in (("train", train), ("test", test))],
        columns=["pair_id", "split", "scene", "caption", "caption2", "negative_caption"],
    )
    pairs, paraphrases, negatives = (
        rows[["pair_id", *columns]]
        for columns in (["split", "scene", "caption"], ["caption2"], ["negative_caption"])
    )
    return list_text_uses(pairs, negatives, paraphrases)


def met(found: pd.DataFrame, column: str) -> list[tuple[str, str, str]]:
    """Return which uses stand in another split too: split, column and what is there."""
    rows = found[found[column].notna()]
    return sorted(zip(rows["split"], rows["used_in"], rows[column], strict=True))


def findings(found: pd.DataFrame, folder: Path) -> dict[str, ExpectationResult]:
    """Return what the suite found, by severity and column; no GateError is expected."""
    return {
        f"{f.severity} {f.columns[0]}": f for f in validate_table(found, SUITE, docs_folder=folder).findings
    }


def test_splits_that_share_no_text_and_no_meaning_pass(tmp_path: Path) -> None:
    clean = uses(TRAIN, ("A red ball is below a blue box.", "There is a tree.", "A red cup and a boat."))
    assert met(clean, "same_words_in") == met(clean, "same_meaning_in") == []
    assert all(finding.success for finding in findings(clean, tmp_path).values())


def test_what_stands_twice_in_one_split_is_no_fault(tmp_path: Path) -> None:
    clean = uses((TRAIN[0], TRAIN[1], TRAIN[0]), ("A tree.", "There is a tree.", "Here is a tree."))
    assert met(clean, "same_words_in") == met(clean, "same_meaning_in") == []


def test_a_text_of_equal_meaning_in_other_words_stops_the_pipeline(tmp_path: Path) -> None:
    found = uses(TRAIN, ("A blue box is below a red ball.", "A tree.", "A house."))
    there = "train: A red ball is above a blue box."
    assert met(found, "same_words_in") == []
    assert met(found, "same_meaning_in") == [
        ("test", "caption", there),
        ("train", "caption", "test: A blue box is below a red ball."),
        ("train", "caption2", "test: A blue box is below a red ball."),
    ]
    with pytest.raises(GateError) as stopped:
        findings(found, tmp_path)
    said = str(stopped.value)
    assert "fails 1 of 3 expectations" in said
    assert "same_meaning_in: 3 of 6 rows fail" in said
    row = "pair_id='p test', used_in='caption', split='test', text='A blue box is below a red ball.'"
    assert f"{row}, same_meaning_in='{there}'" in said


def test_a_paraphrase_that_is_a_negative_of_another_split_stops_the_pipeline(tmp_path: Path) -> None:
    found = uses(TRAIN, ("A tree.", "There is a boat and a cup.", "A house."))
    assert met(found, "same_words_in") == []
    assert met(found, "same_meaning_in") == [
        ("test", "caption2", "train: A cup and a boat."),
        ("train", "negative_caption", "test: There is a boat and a cup."),
    ]
    with pytest.raises(GateError, match="same_meaning_in: 2 of 6 rows fail"):
        findings(found, tmp_path)


@pytest.mark.parametrize("same", ["Two dogs run.", "two dogs run", "Two  dogs, run!"])
def test_a_text_that_cannot_be_read_stops_the_pipeline_by_its_words(same: str, tmp_path: Path) -> None:
    found = uses(("Two dogs run.", *TRAIN[1:]), ("A tree.", same, "A house."))
    assert met(found, "same_meaning_in") == []
    with pytest.raises(GateError, match="same_words_in: 2 of 6 rows fail") as stopped:
        findings(found, tmp_path)
    assert "fails 1 of 3 expectations" in str(stopped.value)


def test_of_captions_that_are_none_of_the_world_a_shared_text_is_a_warning(tmp_path: Path) -> None:
    found = uses(TRAIN, ("A red ball is above a blue box.", "A tree.", "A boat and a cup."), scene=None)
    assert met(found, "same_meaning_in") == [], "that they can be read is chance"
    by_name = findings(found, tmp_path)
    assert by_name["critical same_words_in"].success
    warned = by_name["warning same_words_in"]
    assert not warned.success
    assert warned.failing_rows == 2
    assert "split='test'" in warned.examples[1]
    assert "same_words_in='train: A red ball is above a blue box.'" in warned.examples[1]


def test_text_of_no_pair_is_in_no_split() -> None:
    pairs = pd.DataFrame({"pair_id": ["a"], "caption": ["A tree."], "split": ["train"], "scene": ["{}"]})
    lost = pd.DataFrame({"pair_id": ["a", "b"], "negative_caption": ["A cup.", "A tree."]})
    none = pd.DataFrame({"pair_id": [], "caption2": []}, dtype="object")
    assert list_text_uses(pairs, lost, none)["text"].tolist() == ["A tree.", "A cup."]


def test_captions_have_equal_meanings_where_they_are_true_of_the_same() -> None:
    assert parse_meaning("A red ball is above a blue box.") == parse_meaning(
        "Below a red ball is a blue box."
    )
    assert parse_meaning("A ball.") == parse_meaning("A ball along with nothing else.")
    assert parse_meaning("A ball.") != parse_meaning("A red ball.")
    assert parse_meaning("Two dogs run.") is None


def test_what_is_found_is_what_comparing_each_text_with_each_finds() -> None:
    rng = np.random.default_rng(3)
    made = []
    while len(made) < 240:  # of few scenes, so that much recurs
        said = sample_meaning(
            rng,
            sample_scene(np.random.default_rng(len(made) % 30), num_objects=2, typical_color_prob=0).things,
        )
        made.append(realise_caption(Reading(said, int(rng.integers(len(PATTERNS[get_pattern_key(said)]))))))
    splits = rng.choice(["train", "val", "test"], size=80)
    names = [str(i) for i in range(80)]
    pairs = pd.DataFrame({"pair_id": names, "caption": made[:80], "split": splits, "scene": "{}"})
    pairs.loc[::5, "scene"] = None
    paraphrases = pd.DataFrame({"pair_id": names, "caption2": made[80:160]})
    found = list_text_uses(
        pairs, pd.DataFrame({"pair_id": names, "negative_caption": made[160:]}), paraphrases
    )
    rows = [
        (i, row.split, row.scene_known, extract_words(row.text), parse_caption(row.text))
        for i, row in zip(found.index, found.itertuples(), strict=True)
    ]
    by_words, by_meaning = [], []
    for (i, split, known, words, said), (_, split2, known2, words2, said2) in itertools.product(rows, rows):
        if split == split2:
            continue
        assert said
        assert said2
        if words == words2:
            by_words.append(i)
        if known and known2 and said.whole.canonicalise() == said2.whole.canonicalise():
            by_meaning.append(i)
    assert 0 < len(set(by_words)) < len(set(by_meaning)) < len(found)
    assert sorted(set(by_words)) == found.index[found["same_words_in"].notna()].tolist()
    assert sorted(set(by_meaning)) == found.index[found["same_meaning_in"].notna()].tolist()
