"""Metrics: what counts as a hit, given the similarities of an instance.

Every metric is a set of strict inequalities that must all hold; equality is a tie and counts as
a miss. Where a similarity is missing or NaN the instance is unscored: neither right nor wrong.

Sources: ``accuracy`` SugarCrepe (Hsieh et al. 2023); ``itt``, ``tot`` SugarCrepe++ (Dumpala et
al. 2024); ``i2t``, ``t2i``, ``group`` Winoground (Thrush et al. 2022, as text, image and group
score) and, with the four finer ones, BiVLC (Miranda et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True)
class Metric:
    """A metric: pairs of similarity columns (greater, smaller), and its value by chance."""

    doc: str
    greater: tuple[tuple[str, str], ...]
    chance: float
    needs: tuple[str, ...] = ()  # further similarities that an instance must have to be scored


_I0, _I1 = ("s_c0_i0", "s_c1_i0"), ("s_c1_i1", "s_c0_i1")  # image to text
_C0, _C1 = ("s_c0_i0", "s_c0_i1"), ("s_c1_i1", "s_c1_i0")  # text to image
# The finer metrics of BiVLC speak of the instances that have both images.
_BOTH = ("s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1")

METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("the caption beats the hard negative", (_I0,), 1 / 2),
    "itt": Metric("caption and paraphrase each beat the negative", (_I0, ("s_c2_i0", "s_c1_i0")), 1 / 3),
    "tot": Metric(
        "the two true captions are nearer to each other than either is to the negative",
        (("t_p1_p2", "t_p2_n"), ("t_p1_p2", "t_p1_n")),
        1 / 3,
    ),
    "p2_vs_n": Metric("the paraphrase beats the negative", (("s_c2_i0", "s_c1_i0"),), 1 / 2),
    "i2t": Metric("each image finds its caption", (_I0, _I1), 1 / 4),
    "t2i": Metric("each caption finds its image", (_C0, _C1), 1 / 4),
    "group": Metric("both directions at once", (_I0, _I1, _C0, _C1), 1 / 6),
    "i_pos2t": Metric("the positive image finds its caption", (_I0,), 1 / 2, _BOTH),
    "i_neg2t": Metric("the negative image finds its caption", (_I1,), 1 / 2, _BOTH),
    "t_pos2i": Metric("the positive caption finds its image", (_C0,), 1 / 2, _BOTH),
    "t_neg2i": Metric("the negative caption finds its image", (_C1,), 1 / 2, _BOTH),
}


class Outcomes(NamedTuple):
    """Per row of ``similarities`` (the same index) and per metric (a column each)."""

    hits: pd.DataFrame  # dtype boolean: True, False, or NA where unscored
    ties: pd.DataFrame  # dtype bool: scored, and at least one inequality is an equality


def outcomes(similarities: pd.DataFrame) -> Outcomes:
    """Return hit and tie of every metric for every row of table ``similarities``."""
    hits, ties = {}, {}
    for name, metric in METRICS.items():
        hits[name], ties[name] = _outcome(metric, similarities)
    return Outcomes(pd.DataFrame(hits), pd.DataFrame(ties))


def _outcome(metric: Metric, similarities: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return (hit, tie) of one metric."""
    columns = sorted({c for pair in metric.greater for c in pair} | set(metric.needs))
    scored: npt.NDArray[np.bool_] = similarities[columns].notna().all(axis=1).to_numpy()
    hit, tie = scored.copy(), np.zeros(len(similarities), bool)
    for better, worse in metric.greater:
        left = similarities[better].to_numpy(float)
        right = similarities[worse].to_numpy(float)
        hit &= left > right
        tie |= left == right
    nullable = pd.Series(hit, index=similarities.index, dtype="boolean").mask(~scored)
    return nullable, pd.Series(tie & scored, index=similarities.index)
