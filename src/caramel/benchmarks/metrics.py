"""Metrics: what counts as a hit, given the similarities of an instance.

Every metric is a set of strict inequalities, and all of them must hold. ``group_match`` has one inequality,
of sums. Equality is a tie and counts as a miss. If a similarity is missing or NaN, the instance is unscored:
neither right nor wrong.

Sources:

- ``accuracy``: SugarCrepe (Hsieh et al. 2023)
- ``itt``, ``tot``: SugarCrepe++ (Dumpala et al. 2024)
- ``i2t``, ``t2i``, ``group``: Winoground (Thrush et al. 2022), there called text, image and group score. With
  the four finer metrics they are also BiVLC's (Miranda et al. 2024). ``t2i`` is also MMVP-VLM's (Tong et al.
  2024).
- ``image_accuracy``: SVO-Probes (Hendricks & Nematzadeh 2021), as a choice of the image
- ``recall@k``: retrieval and, with ``avg_recall``, CREPE (Ma et al. 2023)

``group_match`` is GroupMatch of Zhu et al. 2025 (arXiv 2510.07632, "Test-Time Matching"): the right
assignment of two captions to two images has a greater sum of similarities than the swapped assignment. A hit
in Group implies a hit in GroupMatch. The two cannot be compared: by chance GroupMatch is right in 1 of 2
instances and Group in 1 of 6, and the assignment gives away that each caption belongs to one image. The
paper's test-time matching is no metric of an instance: ``evaluation/rescoring/matching.py`` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A metric for comparisons.

    Attributes:
        doc: what a hit is.
        greater: pairs of similarity columns (greater, smaller).
        chance: value of the metric by chance.
        needs: further similarities that an instance must have to be scored.
        summed: with two pairs, compare the sum of the greater columns with the sum of the smaller ones.
    """

    doc: str
    greater: tuple[tuple[str, str], ...]
    chance: float
    needs: tuple[str, ...] = ()
    summed: bool = False


_I0, _I1 = ("s_c0_i0", "s_c1_i0"), ("s_c1_i1", "s_c0_i1")  # image to text
_C0, _C1 = ("s_c0_i0", "s_c0_i1"), ("s_c1_i1", "s_c1_i0")  # text to image
# The finer metrics of BiVLC count only instances that have both images.
_BOTH = ("s_c0_i0", "s_c1_i0", "s_c0_i1", "s_c1_i1")

METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("the caption beats the hard negative", (_I0,), 1 / 2),
    "image_accuracy": Metric("the caption picks its image, not the negative one", (_C0,), 1 / 2),
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
    "group_match": Metric(
        "the right assignment of captions to images beats the swapped one",
        (_I0, _I1),
        1 / 2,
        summed=True,
    ),
    "i_pos2t": Metric("the positive image finds its caption", (_I0,), 1 / 2, _BOTH),
    "i_neg2t": Metric("the negative image finds its caption", (_I1,), 1 / 2, _BOTH),
    "t_pos2i": Metric("the positive caption finds its image", (_C0,), 1 / 2, _BOTH),
    "t_neg2i": Metric("the negative caption finds its image", (_C1,), 1 / 2, _BOTH),
}


@dataclass(frozen=True)
class Recall:
    """A metric for rankings: the share of ``ks`` for which a true candidate is among the first k.

    A false candidate that ties with the best true one is ranked before it. A tie that decides is therefore a
    miss.
    """

    doc: str
    ks: tuple[int, ...]


RECALLS: Mapping[str, Recall] = {
    **{f"recall@{k}": Recall(f"a true candidate is among the first {k}", (k,)) for k in (1, 3, 5, 10)},
    "avg_recall": Recall("mean of recall at 1 and 3, as in CREPE's tables 9 to 11", (1, 3)),
}


class Outcomes(NamedTuple):
    """Hits and ties per row of ``similarities`` (same index) and per metric (one column each)."""

    hits: pd.DataFrame  # float in [0, 1], NaN where unscored; for ``avg_recall`` the share of its hits
    ties: pd.DataFrame  # bool: the row is scored and an equality decides; for comparisons: an equality occurs


def compute_outcomes(similarities: pd.DataFrame, metrics: Sequence[str]) -> Outcomes:
    """Return the hit and the tie of each metric for every row of table ``similarities``.

    Raises:
        DataError: a metric is unknown.
    """
    hits, ties = {}, {}
    for name in metrics:
        if name in RECALLS:
            hits[name], ties[name] = _score_rankings(RECALLS[name], similarities)
        elif name in METRICS:
            hits[name], ties[name] = _score_comparisons(METRICS[name], similarities)
        else:
            raise DataError(f"Unknown metric {name!r}. Choices: {', '.join([*METRICS, *RECALLS])}.")
    return Outcomes(
        pd.DataFrame(hits, index=similarities.index), pd.DataFrame(ties, index=similarities.index)
    )


def _score_comparisons(metric: Metric, similarities: pd.DataFrame) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return (hit, tie) of a metric for comparisons."""
    columns = sorted({c for pair in metric.greater for c in pair} | set(metric.needs))
    scored: npt.NDArray[np.bool_] = similarities[columns].notna().all(axis=1).to_numpy()
    hit, tie = scored.copy(), np.zeros(len(similarities), bool)
    contests = [(similarities[a].to_numpy(float), similarities[b].to_numpy(float)) for a, b in metric.greater]
    if metric.summed:
        # a + c > b + d, computed from differences, so that rounding cannot make a tie of a > b and c > d.
        (a, b), (c, d) = contests
        with np.errstate(over="ignore"):
            contests = [(a - b, d - c)]
    for left, right in contests:
        hit &= left > right
        tie |= left == right
    return np.where(scored, hit.astype(float), np.nan), tie & scored


def _score_rankings(metric: Recall, similarities: pd.DataFrame) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return (hit, tie) of a metric for rankings."""
    above = similarities["n_above"].to_numpy(float)
    equal = similarities["n_tied"].to_numpy(float)
    scored = ~(np.isnan(above) | np.isnan(equal))
    hits = [above + equal < k for k in metric.ks]
    decided = [(above < k) & (above + equal >= k) for k in metric.ks]
    hit = np.where(scored, np.mean(hits, axis=0), np.nan)
    return hit, np.any(decided, axis=0) & scored
