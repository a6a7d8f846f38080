"""Runs of equal lines: `bench/duplicates.py` finds them, and there are none in this repository."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
DUPLICATES = SimpleNamespace(**runpy.run_path(str(ROOT / "bench" / "duplicates.py")))
BODY = [f"x{number} = {number}" for number in range(5)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("\n".join(["import os", *BODY, "y = 1"]))
    spread = "\n\n".join(f"    {line}" for line in BODY)
    (tmp_path / "b.py").write_text(f'def f():\n    """A docstring."""\n    # a comment\n{spread}\n')
    return tmp_path


def test_equal_lines_count_without_indentation_blank_lines_and_docstrings(folder: Path) -> None:
    (found,) = DUPLICATES.find_duplicates(DUPLICATES.list_files([folder]), most=4)
    assert found == (f"{folder / 'a.py'}:2-6", f"{folder / 'b.py'}:4-12", 5)
    assert DUPLICATES.find_duplicates(DUPLICATES.list_files([folder]), most=5) == []


def test_a_longer_run_is_one_find(folder: Path) -> None:
    (found,) = DUPLICATES.find_duplicates(DUPLICATES.list_files([folder]), most=2)
    assert found.lines == 5


def test_lines_of_one_file_stand_twice_only_where_they_do_not_overlap(tmp_path: Path) -> None:
    same = tmp_path / "a.py"
    same.write_text("\n".join(["x = 1"] * 6))
    (found,) = DUPLICATES.find_duplicates([same], most=2)
    assert found == (f"{same}:1-3", f"{same}:4-6", 3)


def test_no_two_places_of_the_sources_share_more_than_twelve_lines() -> None:
    files = DUPLICATES.list_files(ROOT / name for name in DUPLICATES.FOLDERS)
    assert len(files) > 300
    assert DUPLICATES.find_duplicates(files, most=12) == []
