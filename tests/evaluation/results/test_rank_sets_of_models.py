"""Ranks of models that were not all scored on everything."""

import numpy as np
import pandas as pd

from caramel.evaluation.results.rank_sets import compute_rank_sets

N = 120


def rank(hits: dict[str, np.ndarray]) -> pd.DataFrame:
    """Return the rank sets of hits on metrics x and y, by metric and model."""
    rows = pd.DataFrame(
        {
            "image_id": [f"{i}" for i in range(N)],
            "subsets": [["early"] if i < N // 2 else ["late"] for i in range(N)],
        }
    )
    return compute_rank_sets(hits, rows, ["x", "y"], lambda _: True, seed=1).set_index(
        ["subset", "metric", "model"]
    )


def draw_hits() -> dict[str, np.ndarray]:
    """Return hits of three models that are far apart: a is right on most instances, c on the fewest."""
    number = np.arange(N) % 10
    return {
        name: np.stack([number < most] * 2, axis=1).astype(float)
        for name, most in zip("abc", (9, 5, 1), strict=True)
    }


def test_a_model_without_a_metric_does_not_remove_the_ranks_of_the_others() -> None:
    hits = draw_hits()
    complete = rank(hits)
    hits["b"][:, 1] = np.nan
    ranks = rank(hits)
    assert ranks.loc[("all", "x")].equals(complete.loc[("all", "x")])
    assert ranks.loc[("all", "y"), ["rank_best", "rank_worst", "models"]].to_dict("index") == {
        "a": {"rank_best": 1, "rank_worst": 1, "models": 2},
        "c": {"rank_best": 2, "rank_worst": 2, "models": 2},
    }


def test_a_model_without_a_subset_is_ranked_in_the_others() -> None:
    hits = draw_hits()
    hits["b"][N // 2 :] = np.nan
    ranks = rank(hits)
    assert ranks.loc[("early", "x"), "models"].tolist() == [3, 3, 3]
    assert ranks.loc[("late", "x")].index.tolist() == ["a", "c"]
    assert ranks.loc[("macro", "x"), "value"].to_dict() == {"a": 0.9, "b": 0.5, "c": 0.1}


def test_models_without_a_common_instance_are_not_ranked() -> None:
    hits = draw_hits()
    hits["a"][: N // 2], hits["b"][N // 2 :] = np.nan, np.nan
    ranks = rank(hits)
    assert "all" not in ranks.index.get_level_values("subset")
    assert ranks.loc[("early", "y")].index.tolist() == ["b", "c"]
