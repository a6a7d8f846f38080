"""Tabulate what people said of CREPE's captions (table 4 of Ma et al. 2023) and hard negatives (table 7).

A caption is faithful if it is true of its region; a hard negative is genuine if it is false of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from caramel.annotation.agreement.answers import build_ratings, check_answers, select_judged
from caramel.annotation.agreement.summary import compute_observed_agreement
from caramel.annotation.agreement.text_tables import format_columns
from caramel.crepe.results.write import VERIFIED_TABLES
from caramel.crepe.verification_sample import CAPTION, Cell, parse_cell
from caramel.errors import DataError, format_items
from caramel.io.validators import format_value
from caramel.utils.resampling import Bootstrap
from caramel.utils.stats import bootstrap_means, fraction_intervals

ALL = "all"
COLUMNS = (
    "set",
    "part",
    "type",
    "items",
    "annotators",
    "share",
    "ci_low",
    "ci_high",
    "sd",
    "agreement",
    "agreement_low",
    "agreement_high",
    "shared_items",
)


def summarise_answers(answers: pd.DataFrame, where: str, *, bootstrap: Bootstrap) -> dict[str, pd.DataFrame]:
    """Return tables 4 and 7, with columns ``COLUMNS``, of table ``annotations``.

    A row is a cell, or the cells of a set together, where part or type is ``all``. In per cent:

    - ``share``: mean over items of the share of answers that call the caption true, or the negative false, with its
      95 % interval over items
    - ``sd``: standard deviation of the annotators' shares (0 divided by their number, as of a population)
    - ``agreement``: share of pairs of answers to an item that are equal, with its 95 % interval; of ``shared_items``

    Args:
        answers: answers to a task of `caramel annotate make crepe`. Items with known answers, skipped ones and annotators
            who failed the qualification do not count.
        where: location of the answers, for messages.
        bootstrap: settings of the intervals.

    Raises:
        DataError: the answers cannot be pooled, or are to another task.
    """
    check_answers(answers, where)
    judged = select_judged(answers)
    judged = judged[judged["answer"].notna()].reset_index(drop=True)
    cells = [parse_cell(name) for name in judged["item_id"]]
    if foreign := [str(n) for n, cell in zip(judged["item_id"], cells, strict=True) if cell is None]:
        raise DataError(
            f"{where} has {len(foreign)} answers to items that are not of CREPE's sets:\n"
            f"{format_items([format_value(name) for name in dict.fromkeys(foreign)])}\nMake the task with `caramel annotate make crepe`."
        )
    judged = judged.join(pd.DataFrame(cells, columns=list(Cell._fields)))
    is_caption = judged["type"] == CAPTION
    is_right = judged["answer"] == np.where(is_caption, "yes", "no")
    judged = judged.assign(is_right=is_right.astype(float))
    parts = zip(VERIFIED_TABLES, (judged[is_caption], judged[~is_caption]), strict=True)
    return {name: _summarise_cells(rows, bootstrap) for name, rows in parts}


def format_verified(table: pd.DataFrame) -> str:
    """Return a table of ``summarise_answers`` as text: shares with their spread and intervals."""
    head = ["set", "part", "type", "items", "share ± sd", "95 % interval", "pairwise agreement"]
    rows = [
        [
            *(row["set"], row["part"], row["type"], row["items"]),
            f"{row['share']:.1f} ± {row['sd']:.1f}",
            _format_interval(row["ci_low"], row["ci_high"]),
            f"{row['agreement']:.1f} {_format_interval(row['agreement_low'], row['agreement_high'])}".strip()
            if row["shared_items"]
            else "",
        ]
        for row in table.to_dict("records")
    ]
    return format_columns(head, rows)


def _format_interval(low: float, high: float) -> str:
    return "" if np.isnan(low) else f"[{low:.1f}, {high:.1f}]"


def _summarise_cells(rows: pd.DataFrame, bootstrap: Bootstrap) -> pd.DataFrame:
    measured = [(*cell, *_measure_cell(part, bootstrap)) for cell, part in _iter_cells(rows)]
    return pd.DataFrame(measured, columns=list(COLUMNS))


def _iter_cells(rows: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Yield each cell of each set, then its types over all parts, then all its types together."""
    for name, of_set in rows.groupby("set", sort=True):
        types: Sequence[str] = sorted(set(of_set["type"]))
        for part in sorted(set(of_set["part"]), key=_get_sort_key):
            for negative_type in types:
                cell = of_set[(of_set["part"] == part) & (of_set["type"] == negative_type)]
                if len(cell):
                    yield Cell(str(name), part, negative_type), cell
        for negative_type in types:
            yield Cell(str(name), ALL, negative_type), of_set[of_set["type"] == negative_type]
        if len(types) > 1:
            yield Cell(str(name), ALL, ALL), of_set


def _get_sort_key(part: str) -> tuple[int, str]:
    """Return the key that puts n4 before n12."""
    return len(part) if part[0] == "n" and part[1:].isdigit() else 0, part


def _measure_cell(rows: pd.DataFrame, bootstrap: Bootstrap) -> tuple[object, ...]:
    by_item = rows.groupby("item_id")["is_right"].mean().to_numpy(float)[:, None]
    count = np.array([len(by_item)])
    samples = bootstrap_means(
        by_item, np.arange(len(by_item)), resamples=bootstrap.n_bootstrap, seed=bootstrap.seed
    )
    share = by_item.mean(axis=0)
    (low,), (high,) = fraction_intervals(share, samples, count)
    by_annotator = rows.groupby("annotator")["is_right"].mean()
    agreement = compute_observed_agreement(build_ratings(rows), bootstrap=bootstrap)
    shares = 100 * np.array([share[0], low, high, by_annotator.std(ddof=0), *agreement[:3]])
    return (len(by_item), len(by_annotator), *shares.tolist(), agreement.items)
