import itertools

import numpy as np
import pandas as pd
import pytest

from caramel.utils.grouping import ALIKE, EXACT, IMAGE, NEAR, find_near_duplicates, group_rows
from caramel.utils.text import extract_words

LONG = "a man in a red shirt rides a wave on his surfboard"


def audit_rows(captions, images=None, second=None):
    return pd.DataFrame(
        {
            "image_id": images or [f"i{i}" for i in range(len(captions))],
            "caption": captions,
            "caption2": second or [None] * len(captions),
        }
    )


def texts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(300, size=9)) for _ in range(count)]


def test_rows_of_an_image_and_of_near_duplicate_captions_are_one_group():
    rows = audit_rows(
        [*texts(40), LONG, "A man in a red shirt rides a wave on his board!", "x y", "X, y."],
        [*(f"i{i // 2}" for i in range(40)), "a", "b", "c", "d"],
    )
    found = group_rows(rows)
    assert found.by == NEAR
    assert found.names == [*(f"i{i // 2}" for i in range(40)), "a", "a", "c", "c"]


def test_groups_reach_from_image_to_image():
    captions = [*texts(60), "a b c", "d e f", "d e f", "g h i"]
    rows = audit_rows(
        captions, [*(f"i{i}" for i in range(60)), "p", "q", "r", "r"], [*[None] * 61, "a b c", None, None]
    )
    assert group_rows(rows).names[60:] == ["p", "p", "p", "p"]


def test_groups_do_not_depend_on_the_order_of_rows():
    rows = audit_rows([*texts(30), *texts(30), LONG, f"{LONG} today"])
    order = np.random.default_rng(0).permutation(len(rows))
    names = np.array(group_rows(rows).names)
    assert (np.array(group_rows(rows.iloc[order]).names) == names[order]).all()


def test_where_everything_is_alike_only_equal_captions_are_tied_and_else_only_images():
    templates = [f"{LONG} with the number {i}" for i in range(40)]
    found = group_rows(audit_rows(templates * 2))
    assert (found.by, len(set(found.names))) == (EXACT, 40)
    found = group_rows(audit_rows(["a cat"] * 80, [f"i{i // 2}" for i in range(80)]))
    assert (found.by, len(set(found.names))) == (IMAGE, 40)


def test_an_image_may_be_as_large_as_it_is():
    assert group_rows(audit_rows(texts(50), ["i"] * 49 + ["j"])).by == NEAR


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_are_grouped_all_the_same(count):
    assert len(group_rows(audit_rows(texts(count))).names) == count


def test_near_duplicates_are_those_of_all_pairs_compared():
    rng = np.random.default_rng(3)
    words = [extract_words(text) for text in texts(60)]
    words += [tuple(w if rng.random() < 0.93 else "zap" for w in text) for text in words] + [(), ()]

    def pairs(text):
        return {*itertools.pairwise(text)} or {*text}

    expected = set()
    for i, a in enumerate(words):
        for j, b in enumerate(words[:i]):
            both = pairs(a) | pairs(b)
            if a and b and len(pairs(a) & pairs(b)) >= ALIKE * len(both):
                expected.add((j, i))
    found = {tuple(sorted(pair)) for pair in find_near_duplicates(words).T.tolist()}
    assert found <= expected
    assert len(found) >= 0.95 * len(expected) > 20
