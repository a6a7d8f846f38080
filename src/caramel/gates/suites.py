"""Run a Great Expectations suite on a table, and report what failed.

Data docs are written beside the data, whether the suite passes or fails.

A suite never needs the whole table in memory: expectations on the same columns run together, on only these columns.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from caramel.errors import DataError, GateError
from caramel.gates.data_docs import write_page
from caramel.gates.suite_files import build_suite, list_columns, read_suite
from caramel.gates.suite_summaries import SuiteSummary, build_expectation_result, format_failures
from caramel.runtime.environment import be_quiet
from caramel.schemas.stored import ColumnSource

MUCH = 2**25  # bytes in Arrow above which garbage collection, half a second, pays off
SOURCE = "caramel"  # name of the data source in Great Expectations


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
    findings = [build_expectation_result(part, rows, suite["key"]) for part in result.results]
    findings.sort(key=lambda f: (f.expectation, f.columns, json.dumps(f.observed, default=str)))
    summary = SuiteSummary(suite["name"], suite["table"], count, tuple(findings))
    failed = [f for f in findings if not f.success and f.severity == "critical"]
    if failed:
        raise GateError(format_failures(summary, failed, suite_path, page))
    return summary


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
    loaded = build_suite(suite, path)
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
        named, condition = list_columns(config.type, config.kwargs), str(config.kwargs.get("row_condition"))
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
