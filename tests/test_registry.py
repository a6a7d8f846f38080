"""A backend is found by name, and an unknown name lists the choices."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from caramel.errors import BackendError
from caramel.registry import BACKENDS, backend

NAMED = [(kind, name) for kind, names in BACKENDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_every_backend_is_where_the_table_says(kind: str, name: str) -> None:
    module, _, function = BACKENDS[kind][name].partition(":")
    source = Path(find_spec(module).origin).read_text()
    assert f"\ndef {function}(" in source or f"\n{function} = " in source


def test_a_backend_is_a_function_that_was_imported_on_demand() -> None:
    assert backend("source", "world").__name__ == "sample_pairs"


@pytest.mark.parametrize("kind", BACKENDS)
def test_an_unknown_backend_lists_the_choices(kind: str) -> None:
    with pytest.raises(BackendError) as stopped:
        backend(kind, "wrold")
    for name in BACKENDS[kind]:
        assert name in str(stopped.value)
    assert f"Unknown {kind} backend 'wrold'" in str(stopped.value)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(BackendError, match="Did you mean 'ngram'"):
        backend("scorer", "ngrams")


def test_the_registry_imports_no_backend() -> None:
    code = "import sys, caramel.registry; print([m for m in sys.modules if m.startswith('caramel.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['caramel.errors', 'caramel.registry']"
