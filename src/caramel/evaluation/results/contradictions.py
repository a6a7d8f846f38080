"""Reject rows of external results that contradict themselves: figures would reflect only one of their claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.benchmarks.metrics import Outcomes
from caramel.errors import DataError, format_items
from caramel.schemas.columns import SUBTYPES, TYPES


def check_verdicts(computed: Outcomes, stated: Outcomes, where: str, locations: Sequence[str]) -> None:
    """Raise if a row's verdict differs from the one that its scores give; for a tie, either verdict is accepted.

    Args:
        computed: outcomes computed from the scores.
        stated: outcomes from the columns of verdicts, for the same rows.
        where: source of the rows.
        locations: location of each row.

    Raises:
        DataError: verdicts differ; the message gives the number of rows and some locations.
    """
    for metric in (name for name in stated.hits.columns if name in computed.hits.columns):
        ours, theirs = (outcomes.hits[metric].to_numpy(float) for outcomes in (computed, stated))
        both = ~(np.isnan(ours) | np.isnan(theirs)) & ~computed.ties[metric].to_numpy(bool)
        _raise_for_rows(
            both & (ours != theirs),
            f"{where} contradicts itself: rows have a verdict on {metric!r} that differs from their scores",
            locations,
            "Correct the scores or the verdicts, or leave one of them out.",
        )


def check_ranks(scores: pd.DataFrame, where: str, locations: Sequence[str]) -> None:
    """Raise if a row's numbers of candidates are inconsistent with each other or with its scores.

    Args:
        scores: columns of table ``similarities``, without those that the rows lack.
        where: source of the rows.
        locations: location of each row.

    Raises:
        DataError: a row is inconsistent.
    """
    columns = {name: scores[name].to_numpy(float) for name in scores.columns}
    if {"n_above", "n_tied", "n_candidates"} <= columns.keys():
        _raise_for_rows(
            columns["n_above"] + columns["n_tied"] >= columns["n_candidates"],
            f"{where} contradicts itself: rows have more false candidates in 'n_above' and 'n_tied' than "
            f"'n_candidates' can hold",
            locations,
            "'n_candidates' counts the true ones too.",
        )
    if {"n_above", "n_tied", "s_true", "s_other"} <= columns.keys():
        true, other = columns["s_true"], columns["s_other"]
        wrong = ((columns["n_above"] > 0) != (other > true)) | ((other == true) & (columns["n_tied"] < 1))
        known = ~np.isnan([columns[name] for name in ("n_above", "n_tied", "s_true", "s_other")]).any(axis=0)
        _raise_for_rows(
            wrong & known,
            f"{where} contradicts itself: rows have 'n_above' and 'n_tied' that do not match 's_true' and 's_other'",
            locations,
            "'n_above' and 'n_tied' count the false candidates by these scores.",
        )


def check_subtype(type_name: str, subtype: str, where: str) -> None:
    """Raise if the columns ``type`` and ``subtype`` of a row name different types.

    Raises:
        DataError: they name different types.
    """
    if subtype in SUBTYPES and type_name in TYPES and not subtype.startswith(f"{type_name}_"):
        raise DataError(
            f"{where} contradicts itself: column 'type' is {type_name!r}, but column 'subtype' is {subtype!r}. "
            f"Correct one of them."
        )


def _raise_for_rows(wrong: npt.NDArray[np.bool_], what: str, locations: Sequence[str], advice: str) -> None:
    if wrong.any():
        rows = [location for location, is_wrong in zip(locations, wrong, strict=True) if is_wrong]
        raise DataError(f"{what}. {len(rows)} of {len(locations)}:\n{format_items(rows)}\n{advice}")
