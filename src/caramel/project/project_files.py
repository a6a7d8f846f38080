"""Build the files of a project: this repository's files, with a graph that needs no sources of caramel.

The files lie in the repository. An editable install reads them there, and the build (``setup.py``) copies
them into the wheel.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from caramel.runtime.installation import get_requirement

HERE = Path(__file__).parent
LATEST = "requirements.txt"


def read_template() -> dict[str, bytes]:
    """Return path -> content of the files that come unchanged from caramel's repository."""
    folder = HERE / "template"
    if not folder.is_dir():
        folder = HERE.parents[2]  # editable install: the repository itself
    patterns = (HERE / "template.txt").read_text(encoding="utf-8").split()
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    assert files, f"{folder} has no files of a project"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def build_project_files() -> dict[str, bytes]:
    """Return path -> content of all files of a new project except ``code/``, which depends on its scripts."""
    template_files = read_template()
    return {
        **template_files,
        "params.yaml": template_files["params/default.yaml"],
        "README.md": (HERE / "README.md").read_bytes(),
        LATEST: f"# caramel {metadata.version('caramel')}\n{get_requirement()}\n".encode(),
    }
