"""Texts as numbers: what pandas' own look-ups find, without a Python text for each row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.utils import arrays
from caramel.utils.arrays import BLOCK, TextIndex, factorize_texts, find_indices, iter_texts

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=20)


@given(NAMES, NAMES)
def test_a_place_is_the_first_that_a_search_finds(names: list[str], known: list[str]) -> None:
    expected = [known.index(name) if name in known else -1 for name in names]
    for kind in ("str", "object"):
        found = find_indices(pd.Series(names, dtype=kind), pd.Series(known, dtype=kind))
        assert (
            found.tolist()
            == TextIndex(pd.Series(known, dtype=kind)).find_indices(pd.Series(names, dtype=kind)).tolist()
        )
        assert found.tolist() == expected
        assert found.dtype == np.int64


def test_different_texts_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_hash_texts", lambda texts: texts.str.len().to_numpy(np.int64))
    known = pd.Series(["bb", "a", "c", "aa", "b", "a"], dtype="str")
    names = pd.Series(["a", "b", "c", "d", "aa", "bb", "cc", "aaa", ""], dtype="str")
    assert TextIndex(known).find_indices(names).tolist() == [1, 4, 2, -1, 3, 0, -1, -1, -1]


@given(NAMES)
def test_equal_texts_have_one_number_in_the_order_in_which_they_first_stand(texts: list[str]) -> None:
    assert factorize_texts(iter(texts)).tolist() == pd.factorize(np.array(texts, dtype=object))[0].tolist()


@pytest.mark.parametrize("rows", [BLOCK, BLOCK + 1])
def test_texts_of_different_blocks_are_compared(rows: int) -> None:
    found = factorize_texts(str(i % 7) for i in range(rows))
    assert (found == np.arange(rows) % 7).all()


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_the_values_of_a_column_come_in_its_order_from_all_blocks(dtype: str) -> None:
    texts = [f"text {i % 7}" for i in range(BLOCK + 1)]
    assert list(iter_texts(pd.Series(texts, dtype=dtype))) == texts
    assert list(iter_texts(pd.Series([], dtype=dtype))) == []
