import numpy as np
import pandas as pd
import pytest

from caramel.errors import DataError
from caramel.evaluation.results.common_failures import find_common_failures
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame

# (itt, tot) of three models: 1 hit, 0 failed, None without a score.
HITS = {
    "both": [(0, 0), (0, 0), (1, 0)],
    "tot_alone": [(1, 0), (1, 0), (0, 1)],
    "itt_alone": [(0, 1), (0, 1), (0, 1)],
    "half": [(0, None), (1, None), (None, None)],
    "none": [(1, 1), (1, 1), (1, 1)],
}


def similarities() -> pd.DataFrame:
    rows = []
    for name, models in HITS.items():
        for number, (itt, tot) in enumerate(models):
            row = {
                "instance_id": name,
                "model": f"m-{number}",
                "benchmark": "sugarcrepe_pp",
                "image_id": "i",
                "subsets": ["swap_obj"],
            }
            if itt is not None:
                row |= {"s_c0_i0": 0.5, "s_c2_i0": 0.5, "s_c1_i0": 0.4 if itt else 0.5}  # a failure is a tie
            if tot is not None:
                row |= {"t_p1_p2": 0.9, "t_p1_n": 0.8 if tot else 0.95, "t_p2_n": 0.8}
            rows.append(row)
    return build_frame(SIMILARITIES, rows)


def test_instances_are_told_apart_by_the_metrics_that_most_models_fail() -> None:
    found = find_common_failures(similarities(), "sugarcrepe_pp", ("itt", "tot")).set_index("instance_id")
    assert found["failed_by_most"].to_dict() == {"both": "itt tot", "itt_alone": "itt", "tot_alone": "tot"}
    assert found.index[0] == "both", "the most failed comes first"
    assert found.loc["both", ["itt_failed", "itt_models", "tot_failed"]].tolist() == [2, 3, 3]
    assert found["subsets"].eq("swap_obj").all()


def test_a_metric_without_a_score_has_no_columns_and_one_model_is_an_error() -> None:
    rows = similarities().assign(t_p1_p2=np.nan)
    found = find_common_failures(rows, "sugarcrepe_pp", ("itt", "tot"))
    assert set(found["failed_by_most"]) == {"itt"}
    assert "tot_failed" not in found
    with pytest.raises(DataError, match=r"1 models have scores on 'sugarcrepe_pp'.*at least two"):
        find_common_failures(rows[rows["model"] == "m-0"], "sugarcrepe_pp", ("itt",))
