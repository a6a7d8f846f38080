"""Compute how the figures of a benchmark move when errata are applied to its items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from caramel.benchmarks.content import TEXTS_HASH
from caramel.benchmarks.errata import Corrections, apply_errata, find_errata_file, read_errata
from caramel.errors import DataError, count_of, format_items
from caramel.interfaces.benchmark import Task

KEY = ["model", "benchmark", "subset", "metric"]
COLUMNS = (*KEY, "before", "after", "difference", "n_before", "n_after", "touched")


def read_corrections(errata: str, benchmark: str, task: Task) -> Corrections:
    """Return the errata that ``--errata`` names, checked against the published items of a benchmark.

    Raises:
        DataError: there are none, a row is invalid, or an erratum does not fit its item.
    """
    return apply_errata(read_errata(find_errata_file(errata, benchmark), benchmark), task)


@dataclass
class ErrataFilter:
    """Selects the results that count once errata are applied, and remembers those that do not.

    An excluded instance does not count. An instance with a corrected text counts only if the model was scored on the
    corrected text, which the hash of its texts tells.

    Attributes:
        excluded: (model, instance) of each result that is left out.
        outdated: (model, instance) of each result on a text that was corrected.
        current: (model, instance) of each result on a corrected text.
    """

    corrections: Corrections
    excluded: set[tuple[str, str]] = field(default_factory=set)
    outdated: set[tuple[str, str]] = field(default_factory=set)
    current: set[tuple[str, str]] = field(default_factory=set)

    def select(self, rows: pd.DataFrame) -> pd.Series[bool]:
        """Return whether each result counts.

        Args:
            rows: columns model and instance_id, and ``texts_hash`` if known.

        Raises:
            DataError: a touched instance was scored with texts that are neither the published nor the corrected ones.
        """
        texts = rows[TEXTS_HASH] if TEXTS_HASH in rows else [None] * len(rows)
        results = zip(rows["model"].astype(str), rows["instance_id"], texts, strict=True)
        return pd.Series([self._is_counted(*result) for result in results], index=rows.index, dtype=bool)

    def _is_counted(self, model: str, name: str, texts: str | None) -> bool:
        """Return whether a result counts; ``texts`` is the hash of the texts that were scored, None if unknown."""
        instance = self._find_instance(name)
        if instance is None:
            return True
        corrected = self.corrections.corrected.get(instance)
        if isinstance(texts, str) and texts not in (corrected, self.corrections.published[instance]):
            raise DataError(
                f"Instance {instance!r} of model {model!r} was scored with other texts than those of the benchmark's "
                f"files. The results are of another release."
            )
        if instance in self.corrections.excluded:
            self.excluded.add((model, instance))
        elif texts != corrected:
            self.outdated.add((model, instance))
        else:
            self.current.add((model, instance))
            return True
        return False

    def format_notes(self) -> list[str]:
        """Return notes on the touched results.

        Raises:
            DataError: no result is of a touched instance.
        """
        if not (self.excluded or self.outdated or self.current):
            raise DataError(
                f"No result is of an instance with an erratum:\n{format_items([*self.corrections.published])}\n"
                f"Give results with the benchmark's instance names, of the benchmark as published."
            )
        notes = (
            [f"Left out: {count_of(len(self.excluded), 'result')} of excluded instances."]
            if self.excluded
            else []
        )
        if self.outdated:
            names = sorted({instance for _, instance in self.outdated})
            notes.append(
                f"Left out: {count_of(len(self.outdated), 'result')} of texts that were corrected, until the models are "
                f"scored again with `caramel eval --errata`: {', '.join(names[:10])}{' …' if len(names) > 10 else ''}."
            )
        return notes

    def _find_instance(self, name: str) -> str | None:
        """Return the touched instance of a result; results of other programs may be named ``SUBSET/NUMBER``."""
        published: Mapping[str, str] = self.corrections.published
        return next((known for known in (name, name.replace("/", "-")) if known in published), None)


def correct_similarities(
    similarities: pd.DataFrame, benchmark: str, corrections: Corrections
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of table ``similarities`` that count once errata of a benchmark are applied, and notes.

    Raises:
        DataError: a touched instance was scored with other texts, or no result is of a touched instance.
    """
    chosen = ErrataFilter(corrections)
    counts = (similarities["benchmark"] != benchmark).to_numpy(bool, copy=True)
    counts[~counts] = chosen.select(similarities[~counts])
    return similarities[counts].reset_index(drop=True), chosen.format_notes()


def compare_metrics(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return how each figure moves; the columns are ``COLUMNS``.

    ``touched`` is the number of instances of the subset that no longer count. Values are fractions in [0, 1].

    Args:
        before, after: table ``metrics`` without and with the errata.
    """
    columns = [*KEY, "value", "n", "unscored"]
    both = before[columns].merge(after[columns], "left", on=KEY, suffixes=("_before", "_after"), sort=False)
    counts = both[["n_before", "n_after", "unscored_before", "unscored_after"]].fillna(0).astype(int)
    return both[KEY].assign(
        before=both["value_before"],
        after=both["value_after"],
        difference=both["value_after"] - both["value_before"],
        n_before=counts["n_before"],
        n_after=counts["n_after"],
        touched=counts["n_before"] + counts["unscored_before"] - counts["n_after"] - counts["unscored_after"],
    )[list(COLUMNS)]
