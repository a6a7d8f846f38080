"""Read Great Expectations suites from their files.

A suite is a JSON file ``{name, table, key, expectations: [{type, kwargs, meta, severity}]}``. If ``table`` has a
contract in ``schemas``, the expectations derived from the contract come first and are not in the file. A value in
``kwargs`` may be ``{"$PARAMETER": name}``; its value is then given when the suite runs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caramel.errors import DataError
from caramel.gates.contract_expectations import derive_expectations
from caramel.io.regular_files import read_plain_text
from caramel.schemas.images import IMAGES
from caramel.schemas.instances import INSTANCES
from caramel.schemas.negatives import NEGATIVES, PARAPHRASES
from caramel.schemas.pairs import PAIRS
from caramel.schemas.training import TRAINING

COLUMNS = ("column", "column_A", "column_B", "column_list", "column_caption", "column_negative")

# Not the catalogue of all tables: otherwise an edit of any other table would rerun the gates.
CONTRACTS = {table.name: table for table in (IMAGES, PAIRS, NEGATIVES, PARAPHRASES, INSTANCES, TRAINING)}


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


def build_suite(suite: dict[str, Any], path: Path) -> Any:
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
    columns = ", ".join(list_columns(part["type"], part.get("kwargs", {})))
    notes = part.get("meta", {}).get("notes", "")
    return f"{part['type']} ({columns}): {notes}" if columns else f"{part['type']}: {notes}"


def list_columns(expectation_type: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns that an expectation checks, its default columns included."""
    from great_expectations.expectations.registry import get_expectation_impl

    fields = get_expectation_impl(expectation_type).__fields__
    columns: list[str] = []
    for name in COLUMNS:
        value = kwargs.get(name) or (fields[name].default if name in fields else None) or []
        columns += [value] if isinstance(value, str) else value
    return tuple(columns)
