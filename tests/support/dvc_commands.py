"""DVC's commands, each as a fork of a process in which DVC is imported: that takes a second."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from processes import get_python


def run_dvc(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC in a folder; return its exit code and what it wrote."""
    return subprocess.run(
        [get_python(), __file__, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.argv[0] = "dvc"
    from dvc.cli import main

    sys.exit(main(sys.argv[1:]))
