"""What joins a benchmark's rows for their suites."""

from __future__ import annotations

import pandas as pd

from caramel.gates import benchmark_tables


def test_rows_that_share_a_picture_or_a_caption_are_tied() -> None:
    rows = pd.DataFrame(
        {
            "negative_id": ["a", "b", "c", "d", "e"],
            "type": "swap",
            "image_id": ["1", "2", "3", "4", "5"],
            "negative_image_id": ["6", "7", "7", "9", "0"],
            "caption": ["A cat.", "A dog.", "A bus.", "A cat.", "A key."],
        }
    )
    scores = pd.DataFrame({"negative_id": list("abcd"), "scorer": "network", "positive_score": 0.5})
    found = benchmark_tables.build_image_attack_tables(rows, scores.assign(negative_score=0.5))
    assert found["blind_images"]["tied"].tolist() == ["1", "2", "2", "1"]
    assert found["attacked_images"]["attacked"].isna().tolist() == [False] * 4 + [True]
