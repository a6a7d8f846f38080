import numpy as np
import pandas as pd
import pytest

from caramel import tables
from caramel.evaluation.results.retained import (
    changes,
    front,
    retained,
    tradeoff,
    tradeoff_figure,
)

MODELS = ("base", "a-1", "a-2", "b-1")
VALUES = {  # recall@1 both ways, classes, group without add
    "base": (0.5, 0.3, 0.8, 0.4),
    "a-1": (0.4, 0.2, 0.7, 0.5),
    "a-2": (0.3, 0.3, 0.6, 0.6),
    "b-1": (0.6, 0.4, 0.9, 0.3),
}
PLACES = (
    ("held_out_retrieval", "recall@1", "i2t"),
    ("held_out_retrieval", "recall@1", "t2i"),
    ("world_classes", "recall@1", "macro"),
    ("instances", "group", "without_add"),
)


def metrics() -> pd.DataFrame:
    rows = [
        {"model": model, "benchmark": b, "metric": m, "subset": s, "value": value}
        for model, values in VALUES.items()
        for (b, m, s), value in zip(PLACES, values, strict=True)
    ]
    return tables.frame(tables.METRICS, rows)


def kept() -> pd.DataFrame:
    return retained(metrics(), {model: {"weights": 0.1 * n} for n, model in enumerate(MODELS)})


def test_each_model_has_its_measures_and_those_that_were_not_made_are_left_out() -> None:
    found = kept().pivot(index="model", columns="measure", values="value")
    assert set(found.columns) == {"i2t_1", "t2i_1", "classes", "weights"}
    assert found.loc["a-2"].to_dict() == pytest.approx(
        {"i2t_1": 0.3, "t2i_1": 0.3, "classes": 0.6, "weights": 0.2}
    )
    assert set(kept()["variant"]) == {"base", "a", "b"}


def test_changes_are_from_the_base_and_over_seeds() -> None:
    found = changes(kept()).set_index(["variant", "measure"])
    assert found.loc[("a", "i2t_1"), "mean"] == pytest.approx(-0.15)
    assert found.loc[("a", "i2t_1"), "sd"] == pytest.approx(np.std([-0.1, -0.2], ddof=1))
    assert found.loc[("a", "i2t_1"), "ci_low"] < -0.5  # two seeds say little
    assert found.loc[("b", "classes"), "mean"] == pytest.approx(0.1)
    assert np.isnan(found.loc[("b", "classes"), "sd"])


def test_gain_stands_against_the_mean_of_what_is_kept_with_the_base_at_the_origin() -> None:
    words, points = tradeoff(metrics(), kept())
    assert words == "group, without add"
    assert set(points["panel"]) == {"retrieval, mean R@1 of both directions", "classes of the world"}
    found = points.set_index(["panel", "model"])[["kept", "gain"]]
    assert found.loc[("classes of the world", "base")].tolist() == [0, 0]
    first = found.loc[("retrieval, mean R@1 of both directions", "a-1")]
    assert first.tolist() == pytest.approx([-0.1, 0.1])


def test_the_gain_is_of_accuracy_where_there_are_no_negative_images() -> None:
    rows = metrics().replace({"metric": {"group": "accuracy"}, "subset": {"without_add": "all"}})
    assert tradeoff(rows, kept())[0] == "accuracy"


def test_the_front_has_what_nothing_else_beats_in_both() -> None:
    points = [(0.0, 0.0), (-1.0, 2.0), (-2.0, 1.0), (-2.0, 3.0), (0.0, -1.0), (-3.0, 3.0)]
    assert front(points) == [(-2.0, 3.0), (-1.0, 2.0), (0.0, 0.0)]


def test_the_figure_shows_every_variant_in_every_panel() -> None:
    figure = tradeoff_figure(*tradeoff(metrics(), kept()))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert set(axes.get_legend_handles_labels()[1]) == {"base", "a", "b"}
