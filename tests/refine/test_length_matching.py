from collections import Counter

import numpy as np
import pandas as pd

from caramel.refine.length_matching import compute_length_gaps
from caramel.refine.tradeoff import build_candidates


def rows(lengths) -> pd.DataFrame:
    """Return rows whose captions and negatives have the given numbers of words."""
    texts = [[" ".join(["word"] * n) + "." for n in pair] for pair in lengths]
    return pd.DataFrame(
        {
            **{"pair_id": [f"p{i}" for i in range(len(texts))], "subtype": "add_obj", "caption2": None},
            **{"caption": [t[0] for t in texts], "negative_caption": [t[1] for t in texts]},
        }
    )


def select_length_matched(data: pd.DataFrame, within: str):
    (_, matched) = build_candidates(
        data, methods=["length"], scorers=["length"], folds=2, within=within, seed=1
    )
    return matched.keep_mask


def test_lengths_are_counted_in_words():
    assert compute_length_gaps(rows([(3, 5), (4, 4), (6, 1)])).tolist() == [-2, 0, 5]
    with_paraphrase = rows([(3, 5), (3, 5)]).assign(caption2=["one two three four five", None])
    assert compute_length_gaps(with_paraphrase).tolist() == [-1, -2]


def test_differences_in_length_are_symmetric_afterwards():
    rng = np.random.default_rng(0)
    data = rows(rng.integers([3, 4], [9, 10], (300, 2)))
    kept = select_length_matched(data, "subtype")
    gaps = Counter(compute_length_gaps(data[kept]).tolist())
    assert len(gaps) > 5
    assert all(gaps[-gap] == number for gap, number in gaps.items())
    assert kept[compute_length_gaps(data) == 0].all()


def test_subtypes_are_matched_by_themselves_or_together():
    data = rows([(3, 5), (5, 3)]).assign(subtype=["add_obj", "add_att"])
    assert select_length_matched(data, "subtype").tolist() == [False, False]
    assert select_length_matched(data, "all").tolist() == [True, True]
