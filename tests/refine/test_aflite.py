import itertools

import numpy as np
import pandas as pd
import pytest

from caramel.refine.aflite import AFLiteResult, run_aflite
from caramel.refine.rows import compute_row_gaps

NO_GAPS = np.zeros((240, 0), dtype=np.int64)


def rows(planted: float, n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Return captions of random words; a share of the negatives has a word of its own."""
    rng = np.random.default_rng(seed)
    texts = [f"A {' '.join(f'w{i}' for i in rng.integers(40, size=5))}." for _ in range(2 * n)]
    negatives = [f"{t[:-1]} purple." if i < planted * n else t for i, t in enumerate(texts[n:])]
    names = [f"p{i:03d}" for i in range(n)]
    return pd.DataFrame(
        {
            **{
                "pair_id": names,
                "image_id": [f"i{i // 2}" for i in range(n)],
                "type": "all",
                "subtype": "all",
            },
            **{"caption": texts[:n], "caption2": None, "negative_caption": negatives},
        }
    )


def test_pairs_with_a_planted_word_are_dropped_first():
    found = run_aflite(rows(0.5), NO_GAPS, level=0.5, least=0, seed=1)
    first = found.order[:60]
    assert (first < 120).mean() > 0.7  # of all pairs half have the word
    assert found.predictability[0] > 0.65
    assert found.predictability[-1] <= 0.5


def test_it_ends_at_the_level_or_at_the_number_of_rows():
    some = run_aflite(rows(0.5), NO_GAPS, level=0.6, least=0, seed=1)
    assert some.predictability[-1] <= 0.6 < some.predictability[-2]
    few = run_aflite(rows(1.0), NO_GAPS, level=0.0, least=101, seed=1)
    assert len(few.order) == len(set(few.order.tolist())) == 139
    assert few.left.tolist() == sorted(few.left.tolist(), reverse=True)


def test_what_a_lower_level_keeps_a_higher_level_keeps_as_well():
    found = run_aflite(rows(0.7), NO_GAPS, level=0.5, least=0, seed=1)
    kept = [found.build_keep_mask(level) for level in (1.0, 0.7, 0.6, 0.5)]
    assert kept[0].all()
    for more, fewer in itertools.pairwise(kept):
        assert not (fewer & ~more).any()
        assert fewer.sum() < more.sum()


def test_a_level_that_was_not_reached_keeps_what_was_left_in_the_end():
    found = AFLiteResult(5, np.array([4, 0]), np.array([5, 4, 3]), np.array([0.9, 0.8, 0.7]))
    assert found.build_keep_mask(0.8).tolist() == [True, True, True, True, False]
    assert found.build_keep_mask(0.5).tolist() == [False, True, True, True, False]


def test_the_same_pairs_are_dropped_in_the_same_order_whatever_the_order_of_the_rows():
    data = rows(0.5)
    gaps = compute_row_gaps(data, ["ngram"], folds=3, seed=2)
    mixed = data.sample(frac=1, random_state=3)
    first = run_aflite(data, gaps, level=0.5, least=0, seed=1)
    second = run_aflite(mixed, gaps[mixed.index.to_numpy()], level=0.5, least=0, seed=1)
    assert data.iloc[first.order]["pair_id"].tolist() == mixed.iloc[second.order]["pair_id"].tolist()
    assert first.predictability.tolist() == second.predictability.tolist()
    assert len(first.order)


def test_the_seed_decides_the_halvings():
    data = rows(0.5)
    first, second = (run_aflite(data, NO_GAPS, level=0.5, least=0, seed=s) for s in (1, 500))
    assert first.order.tolist() != second.order.tolist()


def test_a_gap_that_no_word_shows_is_found():
    data = rows(0.0)
    gaps = np.where(np.arange(240) < 200, 1, -1)[:, None] * 1000
    found = run_aflite(data, gaps, level=0.5, least=0, seed=1)
    assert found.predictability[0] > 0.75
    assert (found.order[:100] < 200).all()


def test_images_are_never_on_both_sides():
    data = rows(0.0).assign(image_id="one")
    data["negative_caption"] = "A purple cup."
    assert run_aflite(data, NO_GAPS, level=0.4, least=0, seed=1).predictability.tolist() == [0.5]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_next_to_no_rows_are_left_as_they_are_or_dropped(n):
    found = run_aflite(rows(1.0)[:n], NO_GAPS[:n], level=0.5, least=0, seed=1)
    assert len(found.build_keep_mask(0.5)) == n
