from __future__ import annotations

from math import nan

import pandas as pd

from caramel.evaluation.results.forgetting import RETAINED_COLUMNS
from caramel.report.sections.retained_sections import _build_cells


def test_what_the_base_lacks_has_no_change_and_one_seed_has_no_spread() -> None:
    rows = [
        ("base", "base", "i2t_1", 0.5, nan, nan, nan),
        ("infonce-1", "infonce", "i2t_1", 0.4, -0.1, -0.15, -0.05),
        ("infonce-1", "infonce", "zero_shot", 0.3, nan, nan, nan),
    ]
    cells = _build_cells(pd.DataFrame(rows, columns=list(RETAINED_COLUMNS)), ["i2t_1", "zero_shot"])
    assert cells["infonce"][0].text == "40.0"
    assert cells["infonce"][0].note == "−10.0 [−15.0, −5.0]"
    assert (cells["base"][0].text, cells["base"][0].note) == ("50.0", "")
    assert (cells["infonce"][1].text, cells["infonce"][1].note) == ("30.0", "")
