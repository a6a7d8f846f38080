"""The check of names fails on each kind of violation, and on nothing in the sources."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
FINE = '''
def read_rows(path):
    """Return rows.

    Args:
        path: of the file.
    """
    rows = path
    return rows


class Row:
    """A row.

    Attributes:
        size: in bytes.
    """

    size: int
'''
DOCSTRING = '''
def read_more(rows):
    """Return rows.

    Args:
        table: the rows.
    """
'''
ATTRIBUTE = '''
class Table:
    """A table.

    Attributes:
        size: in rows.
    """

    width: int
'''


@pytest.fixture
def naming(tmp_path: Path) -> ModuleType:
    """Return the script as a module that takes a temporary folder for the repository."""
    spec = importlib.util.spec_from_file_location("naming_script", ROOT / "bench" / "naming.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.ROOT = tmp_path  # type: ignore[attr-defined]
    return module


def find_violations(naming: ModuleType, folder: Path, planted: str) -> list[str]:
    path, counts = folder / "planted.py", naming.Counts()
    path.write_text(FINE + planted, encoding="utf-8")
    naming.count_file(path, counts)
    return list(naming.find_violations(counts))


def test_a_plain_module_keeps_the_rules(naming: ModuleType, tmp_path: Path) -> None:
    assert find_violations(naming, tmp_path, "") == []


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ("def rows_of(path):\n    return path\n", "rows_of: does not begin with a verb"),
        ("def found(rows):\n    return rows\n", "found: a banned name"),
        ("def read_more(kind):\n    return kind\n", "kind: a banned name"),
        ("def read_more(rows):\n    place = rows\n    return place\n", "place: a banned name"),
        (
            f"def read_more({', '.join(f'a{n}' for n in range(13))}):\n    pass\n",
            "read_more (13): more than 12 arguments",
        ),
        (DOCSTRING, "read_more: table: described in the docstring"),
        (ATTRIBUTE, "Table: size: described in the docstring"),
        ("def read():\n    pass\n", "1 of 2 names have one word"),
    ],
)
def test_each_kind_of_violation_is_found(
    naming: ModuleType, tmp_path: Path, planted: str, message: str
) -> None:
    assert any(message in line for line in find_violations(naming, tmp_path, planted))


def test_the_sources_keep_the_rules() -> None:
    command = [sys.executable, ROOT / "bench" / "naming.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
