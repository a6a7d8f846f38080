"""The package's errata are those that the audit's defects give, and fit the published files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from caramel.benchmarks.errata import FOLDER, KNOWN, apply_errata, find_errata_file, read_errata
from caramel.errors import DataError
from caramel.registry import BENCHMARKS

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("CARAMEL_DATA", "missing"))
needs_data = pytest.mark.skipif(not (DATA / "sugarcrepe").is_dir(), reason="CARAMEL_DATA lacks sugarcrepe")


@needs_data
@pytest.mark.parametrize(("name", "count"), [("sugarcrepe", 6), ("sugarcrepe_pp", 12)])
def test_known_errata_fit_the_published_files(name: str, count: int) -> None:
    task = BENCHMARKS[name].load_rows(DATA / name, DATA / name)
    corrections = apply_errata(read_errata(find_errata_file(KNOWN, name), name), task)
    assert len(corrections.excluded) == count
    assert len(corrections.task.rows) == len(task.rows) - count


@needs_data
@pytest.mark.parametrize("name", ["sugarcrepe", "sugarcrepe_pp"])
def test_known_errata_are_those_of_the_defects(name: str) -> None:
    command = [sys.executable, str(ROOT / "bench/errata_of_defects.py"), name, str(DATA / name)]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert written == (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def test_a_benchmark_without_known_errata_is_an_error() -> None:
    with pytest.raises(DataError, match="no known errata of benchmark 'winoground'"):
        find_errata_file(KNOWN, "winoground")
