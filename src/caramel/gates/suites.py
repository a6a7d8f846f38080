"""Run a Great Expectations suite on a table, and report what failed.

A suite is a JSON file ``{name, table, key, expectations: [{type, kwargs, meta, severity}]}``. If ``table`` has a
contract in ``schemas``, the expectations derived from the contract come first and are not in the file. A value in
``kwargs`` may be ``{"$PARAMETER": name}``; its value is then given when the suite runs.

Data docs are written beside the data, whether the suite passes or fails. The result is a summary without times, so
that equal data give equal bytes.

A suite never needs the whole table in memory: expectations on the same columns run together, on only these columns.
"""

from __future__ import annotations

import difflib
import gc
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from caramel.errors import DataError, GateError, format_items
from caramel.gates.contract_expectations import derive_expectations
from caramel.gates.data_docs import write_page
from caramel.io.files import write_atomically
from caramel.io.regular_files import read_plain_text
from caramel.runtime.environment import be_quiet
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.stored import ColumnSource
from caramel.schemas.training import TRAINING

EXAMPLES = 5
MUCH = 2**25  # bytes in Arrow above which garbage collection, half a second, pays off
SOURCE = "caramel"  # name of the data source in Great Expectations
COLUMNS = ("column", "column_A", "column_B", "column_list", "column_caption", "column_negative")

# Not the catalogue of all tables: otherwise an edit of any other table would rerun the gates.
CONTRACTS = {table.name: table for table in (IMAGES, PAIRS, NEGATIVES, PARAPHRASES, INSTANCES, TRAINING)}


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


def validate_table(
    rows: ColumnSource,
    suite_path: str | Path,
    *,
    docs_folder: str | Path,
    parameters: Mapping[str, Any] | None = None,
) -> SuiteSummary:
    """Return the summary of the suite, if no expectation of severity ``critical`` failed.

    Args:
        rows: the table. Its columns are taken once for each set of columns that expectations look at together.
        suite_path: the suite, a JSON file.
        docs_folder: data docs are written to ``docs_folder/<suite>/index.html``.
        parameters: values of the suite's ``$PARAMETER`` entries.

    Raises:
        DataError: the suite is missing or broken, or names an unknown expectation.
        GateError: the rows fail the suite; the message names the expectations, columns, counts and rows.
    """
    be_quiet()
    suite_path = Path(suite_path)
    suite = read_suite(suite_path)
    result, count = _run_suite(rows, suite, suite_path, dict(parameters or {}))
    page = Path(docs_folder) / suite["name"] / "index.html"
    write_page(result, page)
    findings = [_build_finding(part, rows, suite["key"]) for part in result.results]
    findings.sort(key=lambda f: (f.expectation, f.columns, json.dumps(f.observed, default=str)))
    summary = SuiteSummary(suite["name"], suite["table"], count, tuple(findings))
    failed = [f for f in findings if not f.success and f.severity == "critical"]
    if failed:
        raise GateError(_format_error(summary, failed, suite_path, page))
    return summary


def read_suite(path: Path) -> dict[str, Any]:
    """Return a suite from its file, with the expectations of its table's contract.

    Raises:
        DataError: the file is missing, is not JSON, or lacks one of the keys.
    """
    try:
        suite = json.loads(read_plain_text(path))
    except FileNotFoundError:
        raise DataError(f"Suite {str(path)!r} is missing. Suites are in the folder expectations/.") from None
    except ValueError as error:
        raise DataError(f"Suite {str(path)!r} is not JSON: {error}. Fix the file.") from error
    wanted = {"name": str, "table": str, "key": list, "expectations": list}
    wrong = [
        k
        for k, expected_type in wanted.items()
        if not isinstance(suite, dict) or not isinstance(suite.get(k), expected_type)
    ]
    if wrong or not suite["expectations"]:
        raise DataError(
            f"Suite {str(path)!r} has missing, wrong or empty entries: {wrong or ['expectations']}. "
            f"It needs name, table, key (a list of columns) and expectations (a list)."
        )
    contract = CONTRACTS.get(suite["table"])
    derived = derive_expectations(contract, suite["key"]) if contract else []
    return {**suite, "expectations": [*derived, *suite["expectations"]]}


def write_summaries(summaries: Sequence[SuiteSummary], path: str | Path) -> None:
    """Write summaries as one JSON file, sorted by suite."""
    ordered = [asdict(s) for s in sorted(summaries, key=lambda s: s.suite)]
    text = json.dumps({s.pop("suite"): s for s in ordered}, indent=1, ensure_ascii=False, default=str) + "\n"
    write_atomically(Path(path), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _run_suite(
    rows: ColumnSource, suite: dict[str, Any], path: Path, parameters: dict[str, Any]
) -> tuple[Any, int]:
    """Return Great Expectations' result for the rows, and their number.

    Raises:
        DataError: a parameter of the suite is not given.
    """
    import great_expectations as gx
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
    from great_expectations.exceptions import SuiteParameterError
    from great_expectations.execution_engine import pandas_execution_engine
    from great_expectations.validator.validator import calc_validation_statistics

    # In bytes. Larger frames get no fingerprint; caramel does not use it.
    pandas_execution_engine.HASH_THRESHOLD = 0
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    # It would write the context as YAML after each change of it, which nobody reads: half of a small suite's time.
    context.variables.save = lambda: None
    loaded = _build_suite(suite, path)
    results, count, meta = [], 0, {}
    try:
        for names, expectations in _group_by_columns(loaded.expectations, rows.columns).items():
            part = gx.ExpectationSuite(name=suite["name"], expectations=expectations)
            result, count = _validate_columns(rows, names, part, context, suite["table"], parameters)
            results += result.results
            meta = result.meta
    except SuiteParameterError as error:
        raise DataError(
            f"Suite {str(path)!r} needs a parameter that is not given: {error}. Given: {sorted(parameters)}."
        ) from error
    order = [expectation.description for expectation in loaded.expectations]
    results.sort(key=lambda one: order.index(one.expectation_config.description))
    statistics = calc_validation_statistics(results)
    whole = ExpectationSuiteValidationResult(
        success=statistics.success,
        results=results,
        suite_name=suite["name"],
        statistics=statistics._asdict(),
        meta=meta,
    )
    return whole, count


def _group_by_columns(
    expectations: Sequence[Any], columns: Iterable[str]
) -> dict[tuple[str, ...], list[Any]]:
    """Return the expectations by the columns that they need, in the order of their first use.

    An expectation on rows needs the columns that it or its ``row_condition`` names, any other needs all columns.
    """
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )

    on_rows = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
    names, groups = tuple(columns), dict[tuple[str, ...], list[Any]]()
    for expectation in expectations:
        config = expectation.configuration
        named, condition = _list_columns(config.type, config.kwargs), str(config.kwargs.get("row_condition"))
        needed = tuple(name for name in names if name in named or name in condition)
        groups.setdefault(needed if isinstance(expectation, on_rows) else names, []).append(expectation)
    return groups


def _validate_columns(
    rows: ColumnSource,
    names: Sequence[str],
    suite: Any,
    context: Any,
    table: str,
    parameters: dict[str, Any],
) -> tuple[Any, int]:
    """Return Great Expectations' result for some columns, and the number of rows.

    Nothing holds the columns afterwards.
    """
    frame = rows[list(names)].reset_index(drop=True)
    asset = context.data_sources.add_pandas(SOURCE).add_dataframe_asset(table)
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})
    result = batch.validate(suite, expectation_parameters=parameters, result_format="SUMMARY")
    count = len(frame)
    context.data_sources.delete(SOURCE)  # it holds the rows, and a mask of them for each expectation
    del frame, asset, batch
    release_memory()
    return result, count


def release_memory() -> None:
    """Free rows that only reference cycles hold, and give back what Arrow would keep for reuse.

    Great Expectations leaves such cycles. Those of a ``row_condition`` hold the locals of all callers.
    """
    if pa.total_allocated_bytes() > MUCH:
        gc.collect()
    pa.default_memory_pool().release_unused()


def _build_suite(suite: dict[str, Any], path: Path) -> Any:
    """Return the suite as an object of Great Expectations, with all of its expectations.

    Great Expectations drops an expectation of unknown type with only a log line, and the suite may then pass.
    Therefore the types are checked before loading, and the number of expectations after it.

    Raises:
        DataError: an expectation has an unknown type, or cannot be loaded.
    """
    import great_expectations as gx
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.expectations import registry

    import caramel.gates.expectations  # noqa: F401  registers its expectations by name

    known = registry.list_registered_expectation_implementations()
    parts = []
    for part in suite["expectations"]:
        expectation_type = part.get("type")
        if expectation_type not in known:
            near = difflib.get_close_matches(str(expectation_type), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise DataError(f"Suite {str(path)!r}: unknown expectation type {expectation_type!r}.{hint}")
        parts.append({**part, "description": _format_description(part)})
    try:
        loaded = gx.ExpectationSuite(name=suite["name"], expectations=parts)
    except (ValidationError, TypeError) as error:
        raise DataError(f"Suite {str(path)!r} cannot be loaded: {error}") from error
    if len(loaded.expectations) != len(suite["expectations"]):
        raise DataError(
            f"Suite {str(path)!r} holds {len(suite['expectations'])} expectations, but only "
            f"{len(loaded.expectations)} could be loaded. Check their kwargs and severity."
        )
    return loaded


def _format_description(part: Mapping[str, Any]) -> str:
    """Return the line that describes an expectation in the data docs."""
    columns = ", ".join(_list_columns(part["type"], part.get("kwargs", {})))
    notes = part.get("meta", {}).get("notes", "")
    return f"{part['type']} ({columns}): {notes}" if columns else f"{part['type']}: {notes}"


def _list_columns(expectation_type: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that an expectation checks, its default columns included."""
    from great_expectations.expectations.registry import get_expectation_impl

    fields = get_expectation_impl(expectation_type).__fields__
    columns: list[str] = []
    for name in COLUMNS:
        value = kwargs.get(name) or (fields[name].default if name in fields else None) or []
        columns += [value] if isinstance(value, str) else value
    return tuple(columns)


def _build_finding(part: Any, rows: ColumnSource, key: Sequence[str]) -> ExpectationResult:
    """Return the result of one expectation, with examples of the rows that failed."""
    config, result = part.expectation_config, part.result
    columns = _list_columns(config.type, config.kwargs)
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


def _format_error(
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
