"""The source dependencies in ``dvc.yaml``: `python -m caramel.runtime.dvc_deps` writes them (``make graph``).

A stage depends on the files of its script's closure, see ``closures``. A package that is reached whole stands
there as its folder. All else in ``dvc.yaml``, comments too, stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from caramel.io.files import write_text
from caramel.io.safe_yaml import read_yaml
from caramel.runtime.code_deps import CARAMEL, Package, reached

SOURCES = "src/"


def sources(script: Path, root: Path, package: Package = CARAMEL) -> list[str]:
    """Return what of the package a script depends on: files and whole folders, relative to ``root``, in order."""
    modules = reached([script], package)
    found: set[Path] = set()
    for module in modules:
        file = package.file(module)
        assert file is not None
        found |= {_widest(file, modules, package), *data_beside(file)}
    whole = {path for path in found if path.is_dir()}
    names = {path for path in found if not whole.intersection(path.parents)}
    return sorted(path.relative_to(root).as_posix() for path in names)


def _widest(file: Path, modules: set[str], package: Package) -> Path:
    """Return the widest folder around a module of which all modules are reached, or the module's file."""
    best = file
    for folder in file.parents:
        if folder == package.folder or not package.modules(folder) <= modules:
            return best
        best = folder
    return best


def data_beside(module: Path) -> set[Path]:
    """Return the files in a module's folder that are not code: templates and tables that the modules there read."""
    beside = module.parent.iterdir()
    return {path for path in beside if path.is_file() and path.suffix in (".csv", ".html", ".yaml")}


def rewritten(graph: dict[str, Any], root: Path) -> dict[str, list[str]]:
    """Return the dependencies of each stage as they should be: its script, the others as they are, then its sources."""
    found = {}
    for name, stage in graph["stages"].items():
        script = f"pipelines/{name}.py"
        others = [dep for dep in stage["deps"] if dep != script and not dep.startswith(SOURCES)]
        found[name] = [script, *others, *sources(root / script, root)]
    return found


def with_deps(text: str, deps: Mapping[str, list[str]]) -> str:
    """Return the text of a ``dvc.yaml`` with other dependencies of its stages, all else as it is, comments too."""
    yaml = YAML()
    yaml.width, yaml.preserve_quotes = 100, True
    yaml.indent(mapping=2, sequence=4, offset=2)
    graph = yaml.load(text)
    for name, wanted in deps.items():
        graph["stages"][name]["deps"] = flow = CommentedSeq(wanted)
        flow.fa.set_flow_style()  # else four in five lines would be these
    written = StringIO()
    yaml.dump(graph, written)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def main() -> None:
    """Write the source dependencies into the ``dvc.yaml`` of this folder."""
    path = Path("dvc.yaml")
    graph = read_yaml(path, "")
    changed = {
        name: deps
        for name, deps in rewritten(graph, Path.cwd()).items()
        if graph["stages"][name]["deps"] != deps
    }
    text = with_deps(path.read_text(encoding="utf-8"), changed)
    write_text(path, text)
    print(f"dvc.yaml: {', '.join(changed) or 'nothing'} changed.", file=sys.stderr)


if __name__ == "__main__":
    main()
