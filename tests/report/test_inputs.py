"""What the report reads of the stages."""

from pathlib import Path

import pandas as pd

from caramel.report.inputs import read_csv


def test_names_that_pandas_takes_for_missing_are_names(tmp_path: Path) -> None:
    names = ["NA", "None", "null", "nan"]
    path = tmp_path / "variants.csv"
    pd.DataFrame({"variant": names, "value": [0.5, None, 1.0, 0.0]}).to_csv(path, index=False)
    rows = read_csv(path, ["variant", "value"])
    assert list(rows["variant"]) == names
    assert rows["value"].isna().tolist() == [False, True, False, False]
