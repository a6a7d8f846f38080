"""What joins a caption's rows for their suites: captions of pairs, and gaps of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from caramel.gates import caption_tables
from caramel.gates.blind_expectation import compute_accuracies

N = 40
PAIRS = pd.DataFrame(
    {
        "pair_id": [f"p{i}" for i in range(N)],
        "image_id": [f"i{i % 8}" for i in range(N)],
        "caption": [f"A cat by {i} trees." for i in range(N)],
        "caption2": [f"By {i} trees is a cat." for i in range(N)],
        "negative_caption": [f"A dog by {i} trees." for i in range(N)],
        "type": "replace",
        "subtype": [("replace_obj", "swap_obj")[i % 2] for i in range(N)],
        "split": [("train", "test")[i % 8 > 3] for i in range(N)],
        "image_ok": True,
    }
)


def test_gaps_of_scores_stand_beside_the_rows_that_are_judged() -> None:
    rows = PAIRS.head(3).assign(negative_id=["a", "b", "c"], type=["replace", "add", "swap"])
    scores = pd.DataFrame(
        {
            "negative_id": ["c", "a", "a", "z"],
            "scorer": ["probe", "probe", "ngram", "ngram"],
            "positive_score": [0.1, 0.2, 0.3, 0.4],
            "negative_score": [0.5, 0.6, 0.7, 0.8],
        }
    )
    found = caption_tables.add_score_gaps(rows, scores, exempt=["add"])
    assert found["negative_id"].tolist() == ["a", "c"]
    assert found["probe_gap"].tolist() == [0.2 - 0.6, 0.1 - 0.5]
    assert np.isnan(found["ngram_gap"]).tolist() == [False, True]


def test_rows_get_caption_and_image_of_their_pair_and_orphans_are_named() -> None:
    rows = pd.DataFrame({"negative_id": ["a", "b"], "pair_id": ["p9", "p999"]})
    found = caption_tables.add_captions(rows, PAIRS)
    assert found["caption"].tolist()[0] == "A cat by 9 trees."
    assert found["image_id"].tolist()[0] == "i1"
    assert found["missing_pair"].isna().tolist() == [True, False]
    assert found["missing_pair"].tolist()[1] == "p999"
    assert found["caption"].isna().tolist() == [False, True]


def test_a_scorer_without_gaps_reads_captions_that_are_in_memory_once() -> None:
    rows = PAIRS.assign(negative_caption=PAIRS["negative_caption"] + " ")
    joined = caption_tables.add_captions(rows.drop(columns=["caption", "image_id"]), PAIRS)
    assert joined["caption"].dtype == "category"
    asked: dict[str, Any] = {
        "column_caption": "caption",
        "column_negative": "negative_caption",
        "column_group": None,
        "column_type": None,
        "scorers": ["ngram"],
        "folds": 5,
        "seed": 0,
    }
    found, expected = (compute_accuracies(one, **asked)[0] for one in (joined, rows))
    assert str(found) == str(expected)
    assert found.accuracy > 0.9
