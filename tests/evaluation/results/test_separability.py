"""On how many instances runs differ, counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from caramel.evaluation.results.run_hits import compute_run_hits
from caramel.evaluation.results.separability import SEPARABILITY_COLUMNS, count_separable
from caramel.schemas.evaluation import SIMILARITIES
from caramel.schemas.io import build_frame


def score(model: str, hits: list[float], subtypes: list[str]) -> pd.DataFrame:
    """Return a table ``similarities`` in which the model has the true caption ahead where ``hits`` is 1."""
    rows = [
        {
            "instance_id": f"i{n}",
            "image_id": f"image{n}",
            "subsets": [subtype],
            "model": model,
            "benchmark": "instances",
            "s_c0_i0": 0.5,
            "s_c1_i0": np.nan if np.isnan(hit) else 0.5 - (0.1 if hit else -0.1),
        }
        for n, (hit, subtype) in enumerate(zip(hits, subtypes, strict=True))
    ]
    return build_frame(SIMILARITIES, pd.DataFrame(rows))


def test_floor_ceiling_and_what_differs_are_counted_by_subset_among_what_all_runs_scored() -> None:
    subtypes = ["swap_obj", "swap_obj", "swap_att", "swap_att", "swap_att"]
    scored = pd.concat(
        [
            score("base", [0, 1, 0, 1, np.nan], subtypes),
            score("tuned-1", [0, 1, 1, 1, 1], subtypes),
            score("tuned-2", [0, 1, 0, 0, 1], subtypes),
        ]
    )
    found = count_separable(compute_run_hits(scored, "instances", ["accuracy"])).set_index("subset")
    assert (
        tuple(count_separable(compute_run_hits(scored, "instances", ["accuracy"])).columns)
        == SEPARABILITY_COLUMNS
    )
    counts = found[["n", "floor", "ceiling", "differ"]].apply(tuple, axis=1).to_dict()
    assert counts == {"all": (4, 1, 1, 2), "swap_obj": (2, 1, 1, 0), "swap_att": (2, 0, 0, 2)}


def test_a_benchmark_that_nobody_scored_has_no_row() -> None:
    assert count_separable(compute_run_hits(score("base", [1.0], ["swap_obj"]), "other", ["accuracy"])).empty
