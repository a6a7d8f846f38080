"""Build the lines of a results table on ceilings, skill above them, and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from caramel.benchmarks.ceilings.ceilings import compute_skill
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES
from caramel.report.sections.ceiling_section import BOUND_NOTE, list_recall_notes, mark_bound
from caramel.report.table_styles import Column, TableCell, TableLine
from caramel.utils.rank_sets import compute_rank_bounds, find_published_order, group_ties

Values = Mapping[str, Mapping[Column, float]]  # name of a line -> its shares in [0, 1]; missing: no score
CEILING_NOTE = (
    "Ceiling: the most that any model of a class reaches, at whatever size and training. {classes}."
)
SKILL_NOTE = "Above a class: (score − ceiling) / (1 − ceiling), in per cent; a dash where the ceiling is 100."
RANK_NOTE = (
    "Rank: in each column, the ranks of all models are in these ranges at once with a probability of 95 % or more; two "
    "models share a letter if their order is not shown."
)
ERRATA_NOTE = (
    "Figures are of the corrected items. Moved by errata: how much each figure differs from that of the published items, in "
    "points; a dash: none of its instances has an erratum."
)
ASSUMED_CHANCE_NOTE = "Chance of recall@k is that of one true candidate for each query; `--data` counts them."
PUBLISHED_RANK_NOTE = (
    "Ranks of published rows are among these rows, and follow from the shares alone: instances count as independent, and "
    "two models' hits as not negatively correlated."
)


@dataclass(frozen=True)
class Additions:
    """Lines that a results table has besides the scores.

    Attributes:
        ceilings: of the benchmark, see ``task_ceilings.compute_task_ceilings``; None: no line of ceilings or skill.
        chance: of a benchmark that ranks candidates, see ``task_ceilings.compute_task_chance``; None: the number of true
            candidates is unknown, and one is assumed.
        skill: classes of models; each score also has its skill above their ceilings.
        ranks: whether each row has a line of its rank sets, see ``rank_sets``. Published rows are ranked among
            themselves.
        uncorrected: table ``similarities`` before errata were applied; each row also has a line of how it moved.
            None: there are no errata.
    """

    ceilings: pd.DataFrame | None = None
    skill: Sequence[str] = ()
    ranks: bool = False
    uncorrected: pd.DataFrame | None = None
    chance: pd.DataFrame | None = None


NO_ADDITIONS = Additions()


def build_ceiling_lines(ceilings: pd.DataFrame, columns: Sequence[Column], digits: int) -> list[TableLine]:
    """Return a line of ceilings for each class."""
    exact = ceilings.set_index(["model_class", "subset", "metric"])["exact"].to_dict()
    return [
        TableLine(
            f"Ceiling {name}",
            tuple(
                TableCell(mark_bound(_format_share(values.get(c), digits).text, exact.get((name, *c), True)))
                for c in columns
            ),
        )
        for name, values in _iter_classes(ceilings)
    ]


def build_skill_lines(
    ceilings: pd.DataFrame, values: Values, classes: Sequence[str], columns: Sequence[Column], digits: int
) -> list[TableLine]:
    """Return, for each class named in ``classes`` and each line of ``values``, the skill above its ceilings."""
    lines = []
    for name, of_class in _iter_classes(ceilings):
        for model, scores in values.items() if name in classes else ():
            skill = compute_skill(
                *(np.array([of.get(c, np.nan) for c in columns]) for of in (scores, of_class))
            )
            lines.append(TableLine(f"{model} above {name}", tuple(_format_share(v, digits) for v in skill)))
    return lines


def build_errata_lines(
    moves: pd.DataFrame, rows: Mapping[str, Sequence[str]], columns: Sequence[Column]
) -> list[TableLine]:
    """Return a line for each row of models with a figure that errata touch: how far it moves, in points.

    Args:
        moves: of ``errata_effect.compare_metrics``.
        rows: models of each row of the table; a row moves by the mean of its models.
        columns: the columns of the table.
    """
    touched = moves[moves["touched"] > 0]
    lines = []
    for name, models in rows.items():
        of_row = touched[touched["model"].isin(models)].groupby(["subset", "metric"])["difference"].mean()
        cells = [f"{100 * of_row[c]:+.3f}" if c in of_row else "–" for c in columns]
        if any(c in of_row for c in columns):
            lines.append(TableLine(f"{name} moved by errata", tuple(map(TableCell, cells))))
    return lines


def build_rank_lines(ranks: pd.DataFrame, columns: Sequence[Column]) -> list[TableLine]:
    """Return a line of rank sets for each model of ``rank_sets.RANK_COLUMNS``."""
    lines = []
    for model, rows in ranks.groupby("model", sort=False):
        cells = {
            (row["subset"], row["metric"]): _format_rank(row["rank_best"], row["rank_worst"], row["ties"])
            for row in rows.to_dict("records")
        }
        lines.append(TableLine(f"Rank of {model}", tuple(TableCell(cells.get(c, "–")) for c in columns)))
    return lines


def format_unranked_notes(ranks: pd.DataFrame, models: Iterable[str], columns: Iterable[Column]) -> list[str]:
    """Return a note for each model that lacks ranks in some of the columns in which others have ranks."""
    ranked: dict[Column, set[str]] = {}
    for row in ranks.to_dict("records"):
        ranked.setdefault((row["subset"], row["metric"]), set()).add(row["model"])
    notes = []
    for model in models:
        lacking = [" ".join(c) for c in dict.fromkeys(columns) if c in ranked and model not in ranked[c]]
        if lacking:
            notes.append(
                f"Not ranked: {model} has no score in {', '.join(lacking)}; the others are ranked without it."
            )
    return notes


def build_published_rank_lines(
    values: Values, sizes: Mapping[Column, int], columns: Sequence[Column], rounding: float
) -> list[TableLine]:
    """Return a line of rank sets for each published line, from its shares alone.

    Args:
        values: shares by line.
        sizes: instances of a column; columns without a size have no ranks.
        columns: the columns of the table.
        rounding: greatest rounding error of a share.
    """
    cells: dict[str, dict[Column, str]] = {name: {} for name in values}
    for column in columns:
        names = [name for name, of in values.items() if column in of]
        if column not in sizes or len(names) < 2:
            continue
        shares = np.array([values[name][column] for name in names])
        better = find_published_order(shares, np.full(len(names), sizes[column]), rounding)
        ties = group_ties(better, np.argsort(-shares, kind="stable").tolist())
        for name, best, worst, letters in zip(names, *compute_rank_bounds(better), ties, strict=True):
            cells[name][column] = _format_rank(int(best), int(worst), letters)
    return [
        TableLine(f"Rank of {name}", tuple(TableCell(of.get(c, "–")) for c in columns))
        for name, of in cells.items()
    ]


def format_class_notes(ceilings: pd.DataFrame) -> list[str]:
    """Return what the models of each class see, and what skill is."""
    names = dict.fromkeys(ceilings["model_class"])
    classes = "; ".join(f"{name} sees {MODEL_CLASSES[name].doc}" for name in names)
    bound = [] if ceilings["exact"].all() else [BOUND_NOTE]
    recalls = list_recall_notes(ceilings.to_dict("records"))
    return [CEILING_NOTE.format(classes=classes), SKILL_NOTE, *recalls, *bound]


def _iter_classes(ceilings: pd.DataFrame) -> Iterator[tuple[str, dict[Column, float]]]:
    """Yield each class with its ceilings by column."""
    for name, rows in ceilings.groupby("model_class", sort=False):
        yield (
            str(name),
            dict(zip(zip(rows["subset"], rows["metric"], strict=True), rows["ceiling"], strict=True)),
        )


def _format_share(value: float | None, digits: int) -> TableCell:
    return TableCell("–" if value is None or np.isnan(value) else f"{100 * value:.{digits}f}")


def _format_rank(best: int, worst: int, ties: str) -> str:
    return f"{best}{'' if best == worst else f'–{worst}'} {ties}"
