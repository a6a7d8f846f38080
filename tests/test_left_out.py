"""A run of the tests says at its end what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_end_of_a_run_says_how_many_tests_were_left_out_and_why(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from left_out import format_left_out\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    for line in format_left_out(terminalreporter.stats.get('skipped', [])):\n"
        "        terminalreporter.write_line(line)\n"
    )
    (tmp_path / "test_few.py").write_text(
        "import os, pytest\n"
        "@pytest.mark.skipif(True, reason='not root')\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_a(n): pass\n"
        "def test_b(): pytest.skip('there is no GPU')\n"
        "def test_c(): pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 left out: not root\n1 left out: there is no GPU\n" in done.stdout
