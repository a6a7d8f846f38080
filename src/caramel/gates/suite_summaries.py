"""What a Great Expectations suite found on a table: a summary without times, so that equal data give equal bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from caramel.errors import format_items
from caramel.gates.suite_files import list_columns
from caramel.io.files import write_atomically
from caramel.schemas.stored import ColumnSource

EXAMPLES = 5


@dataclass(frozen=True)
class ExpectationResult:
    """Result of one expectation."""

    expectation: str
    columns: tuple[str, ...]
    severity: str
    success: bool
    failing_rows: int | None  # None: the expectation is on the whole table
    observed: Any = None
    examples: tuple[str, ...] = ()
    notes: str = ""


@dataclass(frozen=True)
class SuiteSummary:
    """Result of a suite on a table; equal rows give an equal summary."""

    suite: str
    table: str
    rows: int
    findings: tuple[ExpectationResult, ...]


def write_summaries(summaries: Sequence[SuiteSummary], path: str | Path) -> None:
    """Write summaries as one JSON file, sorted by suite."""
    ordered = [asdict(s) for s in sorted(summaries, key=lambda s: s.suite)]
    text = json.dumps({s.pop("suite"): s for s in ordered}, indent=1, ensure_ascii=False, default=str) + "\n"
    write_atomically(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def build_expectation_result(part: Any, rows: ColumnSource, key: Sequence[str]) -> ExpectationResult:
    """Return the result of one expectation, with examples of the rows that failed."""
    config, result = part.expectation_config, part.result
    columns = list_columns(config.type, config.kwargs)
    observed = result.get("observed_value")
    if not part.success and not result and (raised := _format_exception(part.exception_info)):
        observed = f"could not be evaluated: {raised}"
    examples = _read_examples(rows, result.get("partial_unexpected_index_list") or [], (*key, *columns))
    return ExpectationResult(
        expectation=config.type,
        columns=columns,
        severity=config.severity.value,
        success=bool(part.success),
        failing_rows=result.get("unexpected_count"),
        observed=observed,
        examples=examples,
        notes=config.meta.get("notes", ""),
    )


def _read_examples(rows: ColumnSource, indices: list[int], columns: Iterable[str]) -> tuple[str, ...]:
    """Return the first rows at the indices as texts, with those of the columns that the rows have."""
    if not indices:
        return ()
    known = set(rows.columns)
    failing = rows[[name for name in dict.fromkeys(columns) if name in known]].iloc[indices[:EXAMPLES]]
    return tuple(_format_row(row) for row in failing.to_dict("records"))


def _format_exception(info: Mapping[str, Any]) -> str:
    """Return why an expectation could not be evaluated, or "" if it was.

    Great Expectations has two forms of this message.
    """
    messages = [info.get("exception_message")]
    messages += [v["exception_message"] for v in info.values() if isinstance(v, Mapping)]
    return "; ".join(dict.fromkeys(m for m in messages if m))


def _format_row(row: Mapping[Any, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


def format_failures(
    summary: SuiteSummary, failed: Sequence[ExpectationResult], suite_path: Path, page: Path
) -> str:
    """Return the message of a GateError."""
    lines = [
        f"Suite {summary.suite!r} ({suite_path}): table {summary.table!r} fails "
        f"{len(failed)} of {len(summary.findings)} expectations."
    ]
    for finding in failed:
        on = f" on {', '.join(finding.columns)}" if finding.columns else ""
        observations = [] if finding.observed is None else [str(finding.observed)]
        if finding.failing_rows is not None:
            observations.append(f"{finding.failing_rows} of {summary.rows} rows fail")
        lines.append(f"{finding.expectation}{on}: {'; '.join(observations) or 'failed'}")
        if finding.notes:
            lines.append(f"  {finding.notes}")
        if finding.examples:
            more = (finding.failing_rows or 0) - len(finding.examples)
            lines.append(
                format_items(list(finding.examples)) + (f"\n  … and {more} more" if more > 0 else "")
            )
    lines.append(f"See {page}. Fix the stage that wrote the table, or its params, and run `dvc repro`.")
    return "\n".join(lines)
