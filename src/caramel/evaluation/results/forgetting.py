"""What a fine-tuned model kept of its base: retrieval, classification, and how far it went from it; and what it gained.

Compositional metrics alone reward a model that forgets the rest. So beside them stand, for every model, recall at 1 and 5 of
held-out retrieval both ways, zero-shot accuracy, and its distance from the base: of the weights, and of what it encodes.
A change from the base is judged as any other difference of two models (``paired_hits``): its interval counts the choice of images
and that of training seeds.
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
# A row per model; the change of its variant from the base, the mean over seeds, stands beside each of these.
RETAINED_COLUMNS = ("model", "variant", "measure", "value", "change", "ci_low", "ci_high")
RETRIEVAL, CLASSES, ZERO_SHOT = "held_out_retrieval", "world_classes", "zero_shot"
GAIN_METRICS = (("group", "without_add"), ("group", "all"), ("accuracy", "all"))  # the first that was scored


class RetentionMeasure(NamedTuple):
    """A measure of what is kept: where table ``metrics`` has it."""

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
# How far from the base: of the first 0 is no change, of the others 1.
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
MARKERS = "osD^vPX"  # after each round of the colours another


def compute_retention(
    metrics: pd.DataFrame,
    similarities: pd.DataFrame,
    moved: Mapping[str, Mapping[str, float]],
    *,
    bootstrap: Bootstrap,
) -> pd.DataFrame:
    """Return what each model kept, and how far it went, as rows of ``RETAINED_COLUMNS``.

    Args:
        metrics: table ``metrics`` of the base and its variants.
        similarities: table ``similarities``, likewise.
        moved: by model: the measures of ``MOVED``, which have no change.
        bootstrap: of the intervals of the changes; see ``comparison.compare``.
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
    """Return the change of each variant from the base by measure of ``KEPT``, paired on the queries: ``CHANGE_COLUMNS``.

    Args:
        similarities: table ``similarities`` of the base and its variants, a model per training seed; what the base was
            not scored on is left out.
        bootstrap: see ``comparison.compare``.
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
    """Return what the gain is measured by, in words, and each model's value: columns model and value.

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
    """Return what the gain is of, and a point per model and panel: model, variant, panel, kept and gain, from the base.

    Args:
        metrics: as for ``gained``.
        rows: of ``retained``.
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
    """Return the points of which no other has as much or more of both, by their first number."""
    best: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best[::-1]


def draw_tradeoff(
    panels: Sequence[Axes], words: str, points: pd.DataFrame, *, colours: Sequence[str], ink: str
) -> None:
    """Draw gain against what is kept, a panel each: variants as mean ± standard deviation over seeds, runs as faint dots.

    Args:
        panels: axes, as many as ``points`` has panels.
        words: what the gain is of.
        points: of ``tradeoff``.
        colours: of the variants, in turn.
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
    """Return the figure of ``draw_tradeoff`` by itself."""
    from matplotlib.figure import Figure

    count = points["panel"].nunique()
    figure = Figure(figsize=(2 + 4 * count, 4.2), layout="constrained")
    panels = list(figure.subplots(1, count, squeeze=False)[0])
    draw_tradeoff(panels, words, points, colours=[f"C{n}" for n in range(10)], ink="black")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
