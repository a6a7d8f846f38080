"""Show ceilings by class of model: on the audit's page, and for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from caramel.benchmarks.ceilings.feasibility import LIMIT
from caramel.benchmarks.ceilings.model_classes import MODEL_CLASSES
from caramel.benchmarks.metrics import RECALLS
from caramel.report.blocks import MISSING, Block, Cell, TableBlock, format_count, format_percent

CEILINGS_LEAD = "The most that any model of a class can reach, whatever its size and training."
BOUND_NOTE = f"≤: an upper bound of a ceiling that was not found exactly in {LIMIT:g} s; skill is then at least what is shown."
RECALL_NOTE = (
    "recall@k: the expected recall if ties are broken at random; measured recalls count a tie as a miss."
)
CEILINGS_NOTE = (
    "Per cent: the greatest share of instances on which some model of the class is right at once; a tie is a miss. "
    f"A model of the class sees only: {'; '.join(f'{name}: {of.doc}' for name, of in MODEL_CLASSES.items())}. "
    "Nouns, adjectives and numbers are found by word lists and endings. Small: instances that no model of the class has "
    "right, whatever the others are. Skill: (score − ceiling) / (1 − ceiling)."
)


class CeilingLine(NamedTuple):
    """Ceilings of one class and metric: records of ``ceilings.CEILING_COLUMNS`` by subset."""

    model_class: str
    metric: str
    by_subset: Mapping[str, Mapping[Any, Any]]


def iter_ceiling_lines(records: Sequence[Mapping[Any, Any]]) -> Iterator[CeilingLine]:
    """Yield a line for each metric and class of the records, metrics first."""
    lines: dict[tuple[str, str], dict[str, Mapping[Any, Any]]] = {}
    for record in records:
        lines.setdefault((record["metric"], record["model_class"]), {})[record["subset"]] = record
    for metric in dict.fromkeys(metric for metric, _ in lines):
        for (other, model_class), by_subset in lines.items():
            if other == metric:
                yield CeilingLine(model_class, metric, by_subset)


def build_ceilings_blocks(records: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Return the table of ceilings: classes and metrics down, subsets across."""
    subsets = list(dict.fromkeys(record["subset"] for record in records))
    lines = [
        [Cell(line.metric), Cell(line.model_class), *(_build_cell(line.by_subset.get(s)) for s in subsets)]
        for line in iter_ceiling_lines(records)
    ]
    return [
        TableBlock(
            "",
            ("Metric", "Class", *subsets),
            lines,
            labels=2,
            note=" ".join([format_ceilings_note(map(is_exact, records)), *list_recall_notes(records)]),
        )
    ]


def format_ceilings_note(exact: Iterable[bool]) -> str:
    """Return the note under a table of ceilings, each of which is exact or a bound."""
    return CEILINGS_NOTE if all(exact) else f"{CEILINGS_NOTE} {BOUND_NOTE}"


def list_recall_notes(records: Iterable[Mapping[Any, Any]]) -> list[str]:
    """Return the note on ties if any record is of a metric for rankings."""
    return [RECALL_NOTE] if any(record["metric"] in RECALLS for record in records) else []


def is_exact(record: Mapping[Any, Any]) -> bool:
    """Return whether a record's ceiling is exact; those of earlier versions all are."""
    return bool(record.get("exact", True))


def mark_bound(text: str, exact: bool) -> str:
    """Return a ceiling's text, with ``≤`` if it is an upper bound."""
    return text if exact else f"≤ {text}"


def _build_cell(record: Mapping[Any, Any] | None) -> Cell:
    if record is None or record["ceiling"] is None:
        return Cell(MISSING)
    impossible = f"{format_count(record['impossible'])} impossible" if record["impossible"] else ""
    return Cell(mark_bound(format_percent(record["ceiling"]), is_exact(record)), impossible)
