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
    """

    splits: Mapping[str, BindingSplit]
    cell: tuple[str, str] = (ANY, ANY)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def select(self, rows: pd.DataFrame) -> pd.Series[bool]:
        """Return whether each result is in the cell.

        Args:
            rows: columns model and instance_id, and ``texts_hash`` if known.

        Raises:
            DataError: an instance has no split, or was scored with other texts than those that were split.
        """
        texts = rows[TEXTS_HASH] if TEXTS_HASH in rows else [None] * len(rows)
        results = [
            self._find_split(name, text) for name, text in zip(rows["instance_id"], texts, strict=True)
        ]
        self.counts.update((split.positive, split.negative) for split in results)
        counted = [self.is_selected((split.positive, split.negative)) for split in results]
        return pd.Series(counted, index=rows.index, dtype=bool)

    def is_selected(self, states: tuple[str, str]) -> bool:
        """Return whether the cell has these states of the positive and the negative."""
        return all(wanted in (ANY, state) for wanted, state in zip(self.cell, states, strict=True))

    def _find_split(self, name: str, texts: str | None) -> BindingSplit:
        """Return the split of a result; results of other programs may be named ``SUBSET/NUMBER``."""
        split = self.splits.get(name) or self.splits.get(name.replace("/", "-"))
        if split is None or (isinstance(texts, str) and texts != split.texts_hash):
            problem = (
                "has no binding split" if split is None else "was scored with other texts than were split"
            )
            raise DataError(
                f"Instance {name!r} {problem}: --binding was made of another release. Run `caramel crepe index "
                f"--benchmark` again with the files that the results are of."
            )
        return split


def compute_binding_figures(
    compute: Callable[[Select], pd.DataFrame], splits: Mapping[str, BindingSplit]
) -> pd.DataFrame:
    """Return the metrics of all results and of each binding split; the columns are ``COLUMNS``.

    The splits are the states of the positive, of the negative, and of both. Splits without a result are left out.

    Args:
        compute: returns table ``metrics`` of the selected results.
        splits: instance -> split.
    """
    parts = []
    occurring: Counter[tuple[str, str]] = Counter()
    for cell in CELLS:
        chosen = SplitFilter(splits, cell)
        if cell == (ANY, ANY) or any(chosen.is_selected(states) for states in occurring):
            figures = compute(chosen.select)
            occurring = chosen.counts
            parts.append(figures.assign(positive=cell[0], negative=cell[1])[list(COLUMNS)])
    return pd.concat(parts, ignore_index=True)
