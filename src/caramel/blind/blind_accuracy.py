"""Compute how often a blind scorer picks the true caption, by type and subtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from caramel.blind.scored_rows import find_pairs
from caramel.blind.scorers import DECIMALS
from caramel.schemas.columns import SUBTYPES, TYPES
from caramel.schemas.stored import ColumnSource
from caramel.utils.arrays import Bools, Floats, Ints, find_indices
from caramel.utils.stats import share_interval, variance_factor

Accuracies = dict[str, dict[str, dict[str, float | int]]]  # scorer -> subset -> figure


def compute_blind_accuracy(
    scores: pd.DataFrame, negatives: pd.DataFrame, *, pairs: pd.DataFrame, folds: int
) -> Accuracies:
    """Return how often each scorer picks the positive, as scorer -> subset -> figures.

    Subsets are ``all`` (over all rows), ``macro`` (mean over the subtypes), each type and each
    subtype. The figures:

    - ``accuracy`` in [0, 1] with ``ci_low``, ``ci_high``: share of rows whose positive scores higher.
      A tie counts as half a row, so a scorer at chance has one half, however many ties it has.
    - ``strict``: the same share, but a tie counts as a miss, as for models.
    - ``n``: number of rows.
    - ``ties``: number of rows with equal scores.

    The 95 % intervals are Wilson intervals at the effective number of rows:

    - Negatives of one image are not independent, so the variance is computed from sums over images.
    - The ``folds`` that made the scores are not independent either, so the variance is multiplied by
      ``variance_factor``.
    """
    judged, accuracies = JudgedRows.from_tables(pairs, negatives), Accuracies()
    for name, rows in scores.groupby("scorer", sort=False):
        at = find_indices(rows["negative_id"], negatives["negative_id"])
        assert (at >= 0).all()
        accuracies[str(name)] = judged.take_rows(at).compute_accuracies(compute_gaps(rows), folds)
    return accuracies


def compute_gaps(scores: pd.DataFrame) -> Floats:
    """Return the score of each positive minus that of its negative, (n,)."""
    return (scores["positive_score"] - scores["negative_score"]).to_numpy()


class JudgedRows(NamedTuple):
    """What the blind accuracy of n negatives depends on beside their scores.

    Attributes:
        image: (n,) number of each row's image.
        codes: for ``type`` and ``subtype``: the code of each row (n,), and the names by code.
    """

    image: Ints
    codes: Mapping[str, tuple[Ints, pd.Index[str]]]

    @classmethod
    def from_tables(cls, pairs: pd.DataFrame, negatives: ColumnSource) -> JudgedRows:
        """Return the rows of table ``negatives``.

        Raises:
            DataError: the pair of a negative is missing.
        """
        image = pd.factorize(pairs["image_id"], sort=True)[0][find_pairs(pairs, negatives)]
        return cls(
            image, {name: pd.factorize(negatives[[name]][name], sort=True) for name in ("type", "subtype")}
        )

    def take_rows(self, rows: Ints) -> JudgedRows:
        """Return the rows with the given numbers."""
        return JudgedRows(
            self.image[rows], {name: (code[rows], names) for name, (code, names) in self.codes.items()}
        )

    def compute_accuracies(self, gap: Floats, folds: int) -> dict[str, dict[str, float | int]]:
        """Return the figures of one scorer by subset; see ``compute_blind_accuracy``.

        Args:
            gap: (n,) score of each positive minus that of its negative.
            folds: number of folds that made the scores.
        """
        subtype = self.codes["subtype"][0]
        return {
            subset: _compute_metrics(
                gap[inside], subtype[inside], self.image[inside], subset == "macro", variance_factor(folds)
            )
            for subset, inside in _list_subsets(self.codes)
        }


def _list_subsets(codes_by_column: Mapping[str, tuple[Ints, pd.Index[str]]]) -> list[tuple[str, Bools]]:
    """Return the names and masks (n,) of the subsets of n rows that are not empty, in the order of the taxonomy.

    If a type and a subtype have the same name, the mask is the subtype's.

    Args:
        codes_by_column: for ``type`` and ``subtype``: the code of each row (n,), and the names by code.
    """
    whole = np.ones(len(codes_by_column["type"][0]), dtype=np.bool_)
    masks = {"all": whole, "macro": whole}
    for column, usual in (("type", TYPES), ("subtype", SUBTYPES)):
        code, names = codes_by_column[column]
        number = {names[i]: i for i in np.unique(code).tolist()}
        masks |= {name: code == number[name] for name in order_names(number, usual)}
    return [(name, inside) for name, inside in masks.items() if len(inside)]


def order_names(names: Iterable[str], usual: Sequence[str]) -> list[str]:
    """Return the distinct names: first the usual names in their order, then the others by name."""
    distinct = set(names)
    return [*(name for name in usual if name in distinct), *sorted(distinct - set(usual))]


def _compute_metrics(
    gap: Floats, subtype: Ints, image: Ints, macro: bool, factor: float
) -> dict[str, float | int]:
    stratum = np.unique(subtype, return_inverse=True)[1] if macro else np.zeros(len(gap), dtype=np.int64)
    cluster = np.unique(image, return_inverse=True)[1]
    wins, ties = gap > 0, gap == 0
    accuracy, low, high = share_interval(wins + 0.5 * ties, stratum, cluster, factor=factor)
    strict, _, _ = share_interval(wins.astype(float), stratum, cluster, factor=factor)
    shares = {"accuracy": accuracy, "ci_low": low, "ci_high": high, "strict": strict}
    rounded = {name: round(share, DECIMALS) for name, share in shares.items()}
    return {**rounded, "n": len(gap), "ties": int(ties.sum())}
