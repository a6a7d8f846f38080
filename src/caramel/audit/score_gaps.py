"""Summarise the score gaps of blind scorers: how strongly they prefer the true captions of a row.

SugarCrepe's gap is V(P1) − V(N). That of SugarCrepe++ is ½ (V(P1) + V(P2)) − V(N) (Dumpala et al. 2024, figure 11). In a set
that a scorer cannot solve, the gaps are centred at zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from caramel.blind.scorers import DECIMALS
from caramel.blind.text.attack import Attack
from caramel.blind.text.text_tasks import ITT, P1_N
from caramel.utils.arrays import Floats

GAPS = {P1_N.name: "P1 - N", ITT.name: "(P1 + P2) / 2 - N"}  # task -> gap
QUANTILES = {"p05": 0.05, "low": 0.25, "median": 0.5, "high": 0.75, "p95": 0.95}
COLUMNS = ["gap", "scorer", "subtype", "n", "mean", *QUANTILES, "above_zero"]


def summarise_score_gaps(attacks: Sequence[Attack]) -> pd.DataFrame:
    """Return mean and quantiles of each scorer's gaps in [-1, 1], by subtype and over all rows.

    Attacks that learned from other data sets are left out. ``above_zero`` is the share of rows in [0, 1] with a
    positive gap; ``n`` is the number of rows.
    """
    records = []
    for attack in attacks:
        if attack.task.name not in GAPS or attack.source is not None:
            continue
        subtypes = attack.rows["subtype"].to_numpy()
        for scorer, gaps in attack.gaps.items():
            values = gaps if gaps.ndim == 1 else gaps.mean(axis=1)
            for subtype in ("all", *dict.fromkeys(subtypes)):
                inside = np.ones(len(values), bool) if subtype == "all" else subtypes == subtype
                records.append([GAPS[attack.task.name], scorer, subtype, *_summarise(values[inside])])
    return pd.DataFrame(records, columns=COLUMNS)


def _summarise(gaps: Floats) -> list[float]:
    """Return n, mean, quantiles and the share above zero."""
    quantiles = np.quantile(gaps, list(QUANTILES.values()))
    figures = [gaps.mean(), *quantiles, (gaps > 0).mean()]
    return [len(gaps), *(round(float(value), DECIMALS) for value in figures)]
