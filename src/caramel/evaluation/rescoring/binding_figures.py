"""Compute the figures of a benchmark by binding split: by what a training corpus holds, see ``crepe.binding_splits``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from caramel.benchmarks.content import TEXTS_HASH
from caramel.crepe.binding_splits import STATES, BindingSplit
from caramel.errors import DataError

ANY = "any"  # the side does not count
CELLS = [
    (positive, negative) for positive in (ANY, *STATES) for negative in (ANY, *STATES)
]  # all results first
KEY = ("model", "benchmark", "subset", "metric")
COLUMNS = ("positive", "negative", *KEY, "value", "ci_low", "ci_high", "n")
Select = Callable[[pd.DataFrame], "pd.Series[bool]"]


@dataclass
class SplitFilter:
    """Selects the results of one binding split.

    Attributes:
        splits: instance -> split.
        cell: states of the positive and the negative; ``any`` selects all.
        counts: number of results of each cell that were looked at.
        unsplit: number of results of instances without a split, which are never selected.
    """

    splits: Mapping[str, BindingSplit]
    cell: tuple[str, str] = (ANY, ANY)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    unsplit: int = 0

    def select(self, rows: pd.DataFrame) -> pd.Series[bool]:
        """Return whether each result is in the cell.

        Args:
            rows: columns model and instance_id, and ``texts_hash`` if known.

        Raises:
            DataError: an instance was scored with other texts than those that were split.
        """
        texts = rows[TEXTS_HASH] if TEXTS_HASH in rows else [None] * len(rows)
        results = zip(rows["instance_id"], texts, strict=True)
        states = [self._find_states(name, text) for name, text in results]
        self.counts.update(of for of in states if of)
        self.unsplit += states.count(None)
        return pd.Series(
            [of is not None and self.is_selected(of) for of in states], index=rows.index, dtype=bool
        )

    def is_selected(self, states: tuple[str, str]) -> bool:
        """Return whether the cell has these states of the positive and the negative."""
        return all(wanted in (ANY, state) for wanted, state in zip(self.cell, states, strict=True))

    def _find_states(self, name: str, texts: str | None) -> tuple[str, str] | None:
        """Return the states of a result's instance, named by other programs ``SUBSET/NUMBER``; None without a split."""
        split = self.splits.get(name) or self.splits.get(name.replace("/", "-"))
        if split is None:
            return None
        if isinstance(texts, str) and texts != split.texts_hash:
            raise DataError(
                f"Instance {name!r} was scored with other texts than were split: --binding was made of another release. "
                f"Run `caramel crepe index --benchmark` again with the files that the results are of."
            )
        return split.positive, split.negative


def compute_binding_figures(
    compute: Callable[[Select], pd.DataFrame], splits: Mapping[str, BindingSplit]
) -> pd.DataFrame:
    """Return the metrics of all results and of each binding split; the columns are ``COLUMNS``.

    The splits are the states of the positive, of the negative, and of both. Splits without a result are left out.
    ``.attrs["notes"]`` says how many results have no split.

    Args:
        compute: returns table ``metrics`` of the selected results.
        splits: instance -> split.
    """
    parts = []
    occurring: Counter[tuple[str, str]] = Counter()
    unsplit = 0
    for cell in CELLS:
        chosen = SplitFilter(splits, cell)
        if cell == (ANY, ANY) or any(chosen.is_selected(states) for states in occurring):
            figures = compute(chosen.select)
            occurring, unsplit = chosen.counts, chosen.unsplit
            parts.append(figures.assign(positive=cell[0], negative=cell[1])[list(COLUMNS)])
    result = pd.concat(parts, ignore_index=True)
    result.attrs["notes"] = (
        [f"{unsplit:,} results are of instances without a binding split, which do not count in it."]
        if unsplit
        else []
    )
    return result
