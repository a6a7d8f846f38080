"""The figure of one model: its metrics by subtype, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from caramel import tables
from caramel.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def subtype_bars(metrics: pd.DataFrame, *, shown: Sequence[str] = ("accuracy", "group")) -> Figure:
    """Return bars of some metrics by subtype with 95 % intervals and the chance level.

    Args:
        metrics: rows of table ``metrics`` of one model.
        shown: the metrics.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    subsets = [s for s in ("all", *tables.SUBTYPES) if s in set(metrics["subset"])]
    width = 0.8 / len(shown)
    for i, name in enumerate(shown):
        rows = metrics[metrics["metric"] == name].set_index("subset").loc[subsets].astype({"value": float})
        at = np.arange(len(subsets)) + (i - (len(shown) - 1) / 2) * width
        errors = np.clip([rows["value"] - rows["ci_low"], rows["ci_high"] - rows["value"]], 0, None)
        bars = axes.bar(at, rows["value"], width, yerr=errors, label=name, capsize=2)
        axes.axhline(METRICS[name].chance, linestyle=":", color=bars.patches[0].get_facecolor())
    axes.set_xticks(np.arange(len(subsets)), subsets, rotation=30, ha="right")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of instances (dotted: chance)")
    axes.legend(loc="upper right", frameon=False, ncols=len(shown))
    return figure
