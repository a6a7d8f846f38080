"""A suite's file holds what its table's contract does not say, and a broken one is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caramel.errors import DataError
from caramel.gates.contract_expectations import derive_expectations
from caramel.gates.suite_files import read_suite
from caramel.schemas.catalogue import TABLES

SUITES = Path(__file__).parents[2] / "expectations"


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "s", "table": "t", "key": [], "expectations": []}'])
def test_a_broken_suite_file_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"s\.json"):
        read_suite(path)
    with pytest.raises(DataError, match="missing"):
        read_suite(tmp_path / "none.json")


def test_the_suites_keep_the_contracts_closed_sets_and_keys() -> None:
    for path in sorted(SUITES.glob("*.json")):
        suite = read_suite(path)
        assert suite["name"] == path.stem
        contract = TABLES.get(suite["table"])
        if contract is not None and suite["table"] != "training":  # its suite looks at each negative
            assert tuple(suite["key"]) == contract.key
        assert all(part["meta"]["notes"] for part in suite["expectations"])


def test_what_follows_from_a_contract_is_in_the_suite_and_not_in_its_file() -> None:
    with_contract = set()
    for path in sorted(SUITES.glob("*.json")):
        suite, own = read_suite(path), json.loads(path.read_text(encoding="utf-8"))["expectations"]
        if suite["table"] not in TABLES:
            assert suite["expectations"] == own
            continue
        with_contract.add(suite["name"])
        derived = derive_expectations(TABLES[suite["table"]], suite["key"])
        assert suite["expectations"] == [*derived, *own]
        checked = [(part["type"], part["kwargs"]) for part in suite["expectations"]]
        assert all(checked.count(one) == 1 for one in checked), "nothing stands twice"
    assert with_contract == {"pairs", "negatives", "paraphrases", "instances", "training", "images"}
