"""Measure what a fine-tuned model retains of its base, what it gains and how far it moves from the base.

Compositional metrics alone reward a model that forgets everything else. So every model is also measured by

- recall at 1 and 5 of held-out retrieval in both directions
- classification of the world's classes, and zero-shot accuracy
- its distance from the base, in its weights and in its embeddings

A change from the base is tested like any other difference of two models (``paired_tests``): its interval covers
the choice of images and the choice of training seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from caramel.evaluation.results.comparison import compare_models
from caramel.evaluation.results.summary import BASE, parse_variant
from caramel.utils.resampling import Bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANGE_COLUMNS = ("variant", "measure", "change", "ci_low", "ci_high")
# One row per model and measure. The change is that of the model's variant from the base, the mean over seeds.
RETAINED_COLUMNS = ("model", "variant", "measure", "value", "change", "ci_low", "ci_high")
RETRIEVAL, CLASSES, ZERO_SHOT = "held_out_retrieval", "world_classes", "zero_shot"
GAIN_METRICS = (
    ("group", "without_add"),
    ("group", "all"),
    ("accuracy", "all"),
)  # the first scored one counts


class RetentionMeasure(NamedTuple):
    """A measure of retention, and where to find it in table ``metrics``."""

    title: str
    benchmark: str
    metric: str
    subset: str


RETENTION_MEASURES: Mapping[str, RetentionMeasure] = {
    "i2t_1": RetentionMeasure("I→T R@1", RETRIEVAL, "recall@1", "i2t"),
    "i2t_5": RetentionMeasure("I→T R@5", RETRIEVAL, "recall@5", "i2t"),
    "t2i_1": RetentionMeasure("T→I R@1", RETRIEVAL, "recall@1", "t2i"),
    "t2i_5": RetentionMeasure("T→I R@5", RETRIEVAL, "recall@5", "t2i"),
    "classes": RetentionMeasure("Classes", CLASSES, "recall@1", "macro"),
    "zero_shot": RetentionMeasure("Zero-shot top-1", ZERO_SHOT, "recall@1", "all"),
}
# Distances from the base. No change is 0 for ``weights`` and 1 for the cosines.
DISTANCE_MEASURES: Mapping[str, str] = {
    "weights": "Weights moved",
    "images": "Cosine of images",
    "texts": "Cosine of texts",
}
PANELS: Mapping[str, tuple[str, ...]] = {
    "retrieval, mean R@1 of both directions": ("i2t_1", "t2i_1"),
    "classes of the world": ("classes",),
    "zero-shot classification": ("zero_shot",),
}
MARKERS = "osD^vPX"  # the next one each time all colours have been used


def compute_retention(
    metrics: pd.DataFrame,
    similarities: pd.DataFrame,
    moved: Mapping[str, Mapping[str, float]],
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Return what each model retains and its distance from the base, as ``RETAINED_COLUMNS``.

    Args:
        metrics: table ``metrics`` of the base and its variants.
        similarities: table ``similarities`` of the same models.
        moved: by model, the values of ``DISTANCE_MEASURES``; these have no change.
        bootstrap: settings of the intervals of the changes; see ``comparison.compare_models``.
    """
    metric_values = metrics.set_index(["model", "benchmark", "metric", "subset"])["value"]
    rows = [
        (model, parse_variant(model), name, float(value))
        for model, distances in moved.items()
        for name, value in [
            *(
                (n, metric_values.get((model, k.benchmark, k.metric, k.subset)))
                for n, k in RETENTION_MEASURES.items()
            ),
            *distances.items(),
        ]
        if value is not None and not np.isnan(value)
    ]
    ours = similarities[similarities["model"].isin(list(moved))]
    changed = compute_changes(ours, bootstrap=bootstrap)
    values = pd.DataFrame(rows, columns=["model", "variant", "measure", "value"])
    return values.merge(changed, on=["variant", "measure"], how="left")[list(RETAINED_COLUMNS)]


def compute_changes(similarities: pd.DataFrame, *, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return each variant's change from the base by ``RETENTION_MEASURES``, paired on queries: ``CHANGE_COLUMNS``.

    Args:
        similarities: table ``similarities`` of the base and its variants, one model per training seed; benchmarks
            that the base was not scored on are left out.
        bootstrap: see ``comparison.compare_models``.
    """
    measures = {
        (measure.benchmark, measure.subset, measure.metric): name
        for name, measure in RETENTION_MEASURES.items()
    }
    rows = similarities[
        similarities["benchmark"].isin({measure.benchmark for measure in RETENTION_MEASURES.values()})
    ]
    base = rows[rows["model"] == BASE]
    runs: dict[str, list[pd.DataFrame]] = {}
    scored = rows[rows["benchmark"].isin(base["benchmark"]) & (rows["model"] != BASE)]
    for model, of_model in scored.groupby("model", sort=False):
        runs.setdefault(parse_variant(str(model)), []).append(of_model)
    change_rows = [
        (variant, measures[key], row["difference"], row["ci_low"], row["ci_high"])
        for variant, seeds in runs.items()
        for row in compare_models(seeds, [base], bootstrap=bootstrap).to_dict("records")
        if (key := (row["benchmark"], row["subset"], row["metric"])) in measures
    ]
    return pd.DataFrame(change_rows, columns=list(CHANGE_COLUMNS))


def select_gain_metric(metrics: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the name of the metric that measures the gain, and each model's value (columns model and value).

    Args:
        metrics: table ``metrics`` of the base and its variants, on the assembled instances.
    """
    scored = metrics.dropna(subset=["value"])
    for metric, subset in GAIN_METRICS:
        rows = scored[(scored["metric"] == metric) & (scored["subset"] == subset)]
        if len(rows):
            break
    words = metric if subset == "all" else f"{metric}, {subset.replace('_', ' ')}"
    return words, rows[["model", "value"]]


def compute_tradeoff(metrics: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the name of the gain metric, and one point per model and panel.

    A point has columns model, variant, panel, kept and gain; the last two are changes from the base.

    Args:
        metrics: as in ``select_gain_metric``.
        rows: result of ``compute_retention``.
    """
    words, values = select_gain_metric(metrics)
    gain = values.set_index("model")["value"] - values.set_index("model")["value"].get(BASE, np.nan)
    wide = rows.pivot(index="model", columns="measure", values="value").reindex(rows["model"].unique())
    points = []
    for panel, measures in PANELS.items():
        if not set(measures) <= set(wide.columns) or BASE not in wide.index:
            continue
        retention = wide[list(measures)].mean(axis=1)
        points += [
            (model, parse_variant(model), panel, retention[model] - retention[BASE], gain.get(model, np.nan))
            for model in wide.index
        ]
    frame = pd.DataFrame(points, columns=["model", "variant", "panel", "kept", "gain"])
    return words, frame.dropna(ignore_index=True)


def find_pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto-optimal points, sorted by their first number: no other point is as large or larger in both."""
    best: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best[::-1]


def draw_tradeoff(
    panels: Sequence[Axes], words: str, points: pd.DataFrame, *, colours: Sequence[str], ink: str
) -> None:
    """Draw gain against retention, one panel per measure.

    Variants are drawn as mean ± standard deviation over seeds, runs as faint dots.

    Args:
        panels: axes, as many as ``points`` has panels.
        words: name of the gain metric.
        points: result of ``compute_tradeoff``.
        colours: colours of the variants, used in turn.
        ink: colour of lines.
    """
    order = [v for v in dict.fromkeys(points["variant"]) if v != BASE]
    for axes, (panel, rows) in zip(panels, points.groupby("panel", sort=False), strict=True):
        axes.axhline(0, color=ink, linewidth=0.6, alpha=0.5)
        axes.axvline(0, color=ink, linewidth=0.6, alpha=0.5)
        axes.plot(0, 0, "*", color=ink, markersize=11, label=BASE, zorder=4)
        means = [(0.0, 0.0)]
        for n, variant in enumerate(order):
            runs = 100 * rows.loc[rows["variant"] == variant, ["kept", "gain"]].to_numpy(float)
            if not len(runs):
                continue
            (x, y), spread = runs.mean(axis=0), runs.std(axis=0, ddof=1) if len(runs) > 1 else (0.0, 0.0)
            colour, marker = colours[n % len(colours)], MARKERS[n // len(colours) % len(MARKERS)]
            axes.plot(*runs.T, marker, color=colour, markersize=3, alpha=0.3)
            bars: dict[str, Any] = {"color": colour, "markersize": 7, "elinewidth": 1, "label": variant}
            axes.errorbar(x, y, yerr=spread[1], xerr=spread[0], fmt=marker, zorder=3, **bars)
            means.append((float(x), float(y)))
        axes.plot(
            *zip(*find_pareto_front(means), strict=True), color=ink, linewidth=0.9, linestyle="--", alpha=0.6
        )
        axes.set(title=str(panel), xlabel="change from the base in points: left, lost")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"gain in {words}, points")


def plot_tradeoff(words: str, points: pd.DataFrame) -> Figure:
    """Return a figure of its own with the panels of ``draw_tradeoff``."""
    from matplotlib.figure import Figure

    count = points["panel"].nunique()
    figure = Figure(figsize=(2 + 4 * count, 4.2), layout="constrained")
    panels = list(figure.subplots(1, count, squeeze=False)[0])
    draw_tradeoff(panels, words, points, colours=[f"C{n}" for n in range(10)], ink="black")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
