import numpy as np
import pandas as pd
import pytest

from caramel.evaluation.results.forgetting import (
    RETAINED_COLUMNS,
    compute_changes,
    compute_retention,
    compute_tradeoff,
    find_pareto_front,
    plot_tradeoff,
)
from caramel.schemas.evaluation import METRICS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.utils.arrays import Floats
from caramel.utils.resampling import Bootstrap

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
    return build_frame(METRICS, rows)


def similarities(hits: dict[str, Floats], benchmark: str = "held_out_retrieval") -> pd.DataFrame:
    """Return queries by image, of which each model has those right that ``hits`` says."""
    parts = []
    for model, right in hits.items():
        names = [f"{n}" for n in range(len(right))]
        part = pd.DataFrame({"instance_id": [f"i2t/{name}" for name in names], "image_id": names})
        scores = {
            "s_true": 0.5,
            "s_other": np.where(right, 0.4, 0.6),
            "n_above": 1 - right.astype(int),
            "n_tied": 0,
        }
        parts.append(part.assign(model=model, benchmark=benchmark, candidates=9, **scores))
        parts[-1]["subsets"] = [["i2t"]] * len(names)
    return build_frame(SIMILARITIES, pd.concat(parts, ignore_index=True))


def kept() -> pd.DataFrame:
    none = build_frame(SIMILARITIES, [])
    moved = {model: {"weights": 0.1 * n} for n, model in enumerate(MODELS)}
    return compute_retention(metrics(), none, moved, bootstrap=Bootstrap(100, 0))


def test_each_model_has_its_measures_and_those_that_were_not_made_are_left_out() -> None:
    found = kept().pivot(index="model", columns="measure", values="value")
    assert set(found.columns) == {"i2t_1", "t2i_1", "classes", "weights"}
    assert found.loc["a-2"].to_dict() == pytest.approx(
        {"i2t_1": 0.3, "t2i_1": 0.3, "classes": 0.6, "weights": 0.2}
    )
    assert set(kept()["variant"]) == {"base", "a", "b"}


def test_changes_are_from_the_base_paired_on_the_queries_and_count_images_and_seeds() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(400) < 0.6
    # Five seeds that turn the same queries: of seeds alone nothing varies, of images much does.
    turned = np.where(rng.random(400) < 0.1, ~base, base)
    models = {"base": base, **{f"a-{n}": turned for n in range(5)}, "b-1": base}
    found = compute_changes(similarities(models), bootstrap=Bootstrap(500, 1)).set_index(
        ["variant", "measure"]
    )
    one = found.loc["a", "i2t_1"]
    difference = turned.astype(float) - base
    assert one["change"] == pytest.approx(difference.mean())
    half = 1.96 * difference.std(ddof=1) / 400**0.5
    assert one["ci_high"] - one["ci_low"] == pytest.approx(2 * half, rel=0.1), "not 0, as over the seeds"
    assert found.loc[("b", "i2t_1"), "change"] == 0
    assert set(found.index.get_level_values("measure")) == {"i2t_1", "i2t_5"}


def test_a_change_stands_beside_each_model_of_the_variant_and_distances_have_none() -> None:
    base = np.arange(40) < 20
    rows = similarities({"base": base, "a-1": np.arange(40) < 10, "a-2": base, "b-1": base})
    moved = {model: {"weights": 0.1 * n} for n, model in enumerate(MODELS)}
    found = compute_retention(metrics(), rows, moved, bootstrap=Bootstrap(100, 0))
    assert tuple(found.columns) == RETAINED_COLUMNS
    changed = found.set_index(["model", "measure"])["change"]
    assert changed[["a-1", "a-2"]].xs("i2t_1", level="measure").tolist() == pytest.approx([-0.125] * 2)
    assert changed["b-1", "i2t_1"] == 0
    assert np.isnan(changed["a-1", "weights"])
    assert np.isnan(changed["base", "i2t_1"])


def test_gain_stands_against_the_mean_of_what_is_kept_with_the_base_at_the_origin() -> None:
    words, points = compute_tradeoff(metrics(), kept())
    assert words == "group, without add"
    assert set(points["panel"]) == {"retrieval, mean R@1 of both directions", "classes of the world"}
    found = points.set_index(["panel", "model"])[["kept", "gain"]]
    assert found.loc[("classes of the world", "base")].tolist() == [0, 0]
    first = found.loc[("retrieval, mean R@1 of both directions", "a-1")]
    assert first.tolist() == pytest.approx([-0.1, 0.1])


def test_the_gain_is_of_accuracy_where_there_are_no_negative_images() -> None:
    rows = metrics().replace({"metric": {"group": "accuracy"}, "subset": {"without_add": "all"}})
    assert compute_tradeoff(rows, kept())[0] == "accuracy"


def test_the_front_has_what_nothing_else_beats_in_both() -> None:
    points = [(0.0, 0.0), (-1.0, 2.0), (-2.0, 1.0), (-2.0, 3.0), (0.0, -1.0), (-3.0, 3.0)]
    assert find_pareto_front(points) == [(-2.0, 3.0), (-1.0, 2.0), (0.0, 0.0)]


def test_the_figure_shows_every_variant_in_every_panel() -> None:
    figure = plot_tradeoff(*compute_tradeoff(metrics(), kept()))
    assert len(figure.axes) == 2
    for axes in figure.axes:
        assert set(axes.get_legend_handles_labels()[1]) == {"base", "a", "b"}
