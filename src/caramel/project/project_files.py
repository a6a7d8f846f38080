"""What a project of one's own consists of: this repository's files, with a graph that needs no sources of caramel.

They lie at one place: in the repository, from where an editable install reads them and the build (``setup.py``) puts
them into the wheel.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from caramel.io.safe_yaml import parse_yaml
from caramel.runtime.code_manifest import CODE
from caramel.runtime.dvc_deps import SOURCES, with_deps
from caramel.runtime.installation import requirement

HERE = Path(__file__).parent
GRAPH = "dvc.yaml"
LATEST = "requirements.txt"


def template() -> dict[str, bytes]:
    """Return path -> content of the files that come from caramel's repository, as they are there."""
    folder = HERE / "template"
    if not folder.is_dir():
        folder = HERE.parents[2]  # installed as editable: the repository itself
    patterns = (HERE / "template.txt").read_text(encoding="utf-8").split()
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    assert files, f"{folder} holds nothing of what a project consists of"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def contents() -> dict[str, bytes]:
    """Return path -> content of all files of a new project but those of ``code/``, which depend on its scripts."""
    found = template()
    return {
        **found,
        "params.yaml": found["params/default.yaml"],
        "README.md": (HERE / "README.md").read_bytes(),
        GRAPH: _graph(found[GRAPH].decode()).encode(),
        LATEST: f"# caramel {metadata.version('caramel')}\n{requirement()}\n".encode(),
    }


def _graph(text: str) -> str:
    """Return caramel's own ``dvc.yaml`` with a file of ``code/`` in place of the sources of each stage."""
    stages = parse_yaml(text, GRAPH)["stages"]
    deps = {
        name: [*(dep for dep in stage["deps"] if not dep.startswith(SOURCES)), f"{CODE}/{name}.txt"]
        for name, stage in stages.items()
    }
    return with_deps(text, deps)
