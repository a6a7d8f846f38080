"""Counts of terms are those of one text at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caramel.blind.text.ngram_counts import Terms

TEXTS = st.lists(st.text("abc ", max_size=12), max_size=8)


@given(TEXTS, st.data())
def test_counts_are_those_of_each_text(texts, data) -> None:
    found = Terms.from_items(texts, str.split)
    assert found.names == sorted({word for text in texts for word in text.split()})
    which = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    counts = found.count_terms(np.array(which, dtype=np.int64))
    assert counts.shape == (len(which), len(found.names))
    assert counts.dtype == np.float64
    assert counts.has_sorted_indices
    expected = [[texts[i].split().count(name) for name in found.names] for i in which]
    assert counts.toarray().tolist() == (expected or np.zeros(counts.shape).tolist())
    recounted = found.sort_ids().count_terms(np.array(which, dtype=np.int64))
    for part in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(recounted, part), getattr(counts, part))


@given(TEXTS)
def test_sorted_ids_are_those_of_each_text_in_ascending_order(texts) -> None:
    terms = Terms.from_items(texts, str.split).sort_ids()
    assert terms.flat.dtype == np.int32
    assert [terms.names[i] for i in terms.flat] == [word for text in texts for word in sorted(text.split())]


@given(TEXTS, st.data())
def test_the_ids_of_some_texts_name_their_terms_in_order(texts, data) -> None:
    terms = Terms.from_items(texts, str.split)
    items = np.array([data.draw(st.booleans()) for _ in texts], dtype=bool)
    ids, lengths = terms.select_ids(items)
    expected = [text.split() for text, use in zip(texts, items, strict=True) if use]
    assert [terms.names[i] for i in ids] == [word for words in expected for word in words]
    assert lengths.tolist() == [len(words) for words in expected]


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_items_may_have_no_terms(texts) -> None:
    assert Terms.from_items(texts, str.split).count_terms(np.arange(len(texts))).shape == (len(texts), 0)
