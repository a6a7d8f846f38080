"""What the audit of packages prints: vulnerabilities, and that nothing was audited where the registry has no data."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[1] / ".ci" / "audit_packages.py"


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("audit_packages", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def vulnerable(name: str, identifier: str, *aliases: str) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1.0",
        "vulns": [{"id": identifier, "aliases": list(aliases), "fix_versions": ["1.1"], "description": "x"}],
    }


def test_a_known_vulnerability_fails_and_an_ignored_one_does_not(script: Any) -> None:
    clean = {"name": "b", "version": "2", "vulns": []}
    known = vulnerable("diskcache", "PYSEC-1", "CVE-2025-69872")
    lines, code = script.summarise({"dependencies": [clean, known]})
    assert code == 0
    assert lines[0] == "Audited 2 of 2 packages."
    assert "ignored: diskcache" in lines[1]
    lines, code = script.summarise({"dependencies": [clean, known, vulnerable("a", "PYSEC-2")]})
    assert code == 1
    assert lines[-1] == "a 1.0: PYSEC-2, fixed in 1.1"


def test_a_registry_without_data_is_not_a_pass(script: Any) -> None:
    skipped = [{"name": name, "skip_reason": f"{name} not found"} for name in "ab"]
    lines, code = script.summarise({"dependencies": skipped})
    assert lines == ["Not audited: the registry has data on none of 2 packages (a not found)."]
    assert code == 0


def test_what_is_ignored_is_explained(script: Any) -> None:
    text = (PATH.parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    assert all(name in text for name in script.IGNORED)
