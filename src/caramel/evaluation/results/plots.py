"""Plot one model's metrics by subset on one benchmark, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from caramel.benchmarks.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_SUBSETS, MAX_METRICS = 24, 4  # limits on the bars of a figure


def plot_subset_bars(metrics: pd.DataFrame) -> Figure:
    """Return a bar chart of the first metrics by subset, with 95 % intervals and the chance level.

    Args:
        metrics: rows of table ``metrics`` of one model on one benchmark; at least one has a value.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    scored = metrics.dropna(subset=["value"])
    metric_names = list(dict.fromkeys(scored["metric"]))
    metric_names = [name for name in ("accuracy", "group") if name in metric_names] or metric_names[
        :MAX_METRICS
    ]
    subsets = list(dict.fromkeys(scored["subset"]))[:MAX_SUBSETS]
    with mpl.rc_context({"text.parse_math": False}):  # a subset may have dollar signs in its name
        figure = Figure(figsize=(max(4, 1.5 + 0.7 * len(subsets)), 3.4), layout="constrained")
        axes = figure.subplots()
        width = 0.8 / len(metric_names)
        for i, name in enumerate(metric_names):
            rows = scored[scored["metric"] == name].set_index("subset").reindex(subsets)
            values = rows[["value", "ci_low", "ci_high"]].astype(float)
            at = np.arange(len(subsets)) + (i - (len(metric_names) - 1) / 2) * width
            errors = np.clip(
                [values["value"] - values["ci_low"], values["ci_high"] - values["value"]], 0, None
            )
            bars = axes.bar(at, values["value"], width, yerr=np.nan_to_num(errors), label=name, capsize=2)
            if name in METRICS:
                axes.axhline(METRICS[name].chance, linestyle=":", color=bars.patches[0].get_facecolor())
        axes.set_xticks(np.arange(len(subsets)), subsets, rotation=30, ha="right")
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("share of instances" + (" (dotted: chance)" if metric_names[0] in METRICS else ""))
        figure.legend(loc="outside upper right", frameon=False, ncols=len(metric_names))
    return figure
