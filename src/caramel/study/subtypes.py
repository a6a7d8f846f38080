"""Split a study's primary comparison by subtype: share of the instances times difference, over draws of the scenes."""

from __future__ import annotations

from typing import Any

import pandas as pd

from caramel.config.sections.results import PrimaryComparison
from caramel.schemas.columns import SUBTYPES
from caramel.study.cells import Cell
from caramel.study.run_pairs import pair_runs
from caramel.utils.stats import summarise_seeds


def compute_parts(runs: pd.DataFrame, primary_comparison: PrimaryComparison) -> list[dict[str, Any]]:
    """Return for each subtype n (mean over cells), both values, the difference, and its part with a t interval.

    The parts add up to the comparison, except for instances without a subtype. The intervals are not
    corrected. A comparison on seen or unseen compounds has no parts, because tables ``metrics`` never have
    those by subtype.

    Args:
        runs: table ``study``.
        primary_comparison: the comparison.
    """
    if primary_comparison.subset not in ("all", "without_add"):
        return []
    subtypes = [name for name in SUBTYPES if primary_comparison.subset == "all" or not name.startswith("add")]
    rows = runs[(runs["metric"] == primary_comparison.metric) & runs["subset"].isin(subtypes)]
    of_a_cell = [*Cell._fields]
    both = pair_runs(rows, primary_comparison.variant, primary_comparison.against)
    total = both.groupby([*of_a_cell, "finetune"])["n"].transform("sum")
    both["difference"] = both["value"] - both["value_against"]
    both["part"] = both["difference"].fillna(0.0) * both["n"] / total
    parts = []
    for subtype in (name for name in subtypes if (both["subset"] == name).any()):
        of = both[both["subset"] == subtype]
        per_draw = of.groupby(of_a_cell)[["value", "value_against", "difference", "part"]].mean()
        draws = per_draw.groupby("scenes").mean()
        part = summarise_seeds(draws["part"].to_numpy(float))
        means = draws.mean()
        parts.append(
            {
                "subtype": subtype,
                "n": float(of["n"].mean()),
                **{name: float(means[name]) for name in ("value", "value_against", "difference")},
                **{"part": part.mean, "part_low": part.low, "part_high": part.high},
            }
        )
    return parts
