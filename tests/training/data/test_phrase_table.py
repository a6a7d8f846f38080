"""The table of phrases: each phrase once, and the rows that have it."""

import numpy as np

from caramel.training.data.phrase_table import PhraseTable


def test_rows_share_equal_phrases_and_may_have_none() -> None:
    table = PhraseTable.from_phrases(
        [["a cat", "a dog"], [], ["a dog"]], 3, lambda texts: [[len(text)] for text in texts]
    )
    assert table.positions.tolist() == [[0, 1, -1], [-1, -1, -1], [1, -1, -1]]
    assert len(table.texts) == 2
    selected = table.select_rows(np.array([2, 1]))
    assert selected["phrase_mask"].tolist() == [[True, False, False], [False, False, False]]
    assert selected["phrases"].shape == (2, 3, 1)
    assert len(PhraseTable.from_phrases([[]], 2, lambda texts: [[0] for _ in texts]).texts) == 1
