"""List the sources that each stage depends on in ``code/STAGE.txt``. `make graph` writes these files.

In ``dvc.yaml`` a stage depends on its script and on ``code/STAGE.txt``. That file has one line for each
source file that the script reaches: its SHA-256 and its name, as in SHA256SUMS. An edit of a source therefore
reruns exactly the stages that reach it, and the graph stays short enough to read. A stage whose list is out
of date does not run. If the params name a backend of another package which the script can use, the list also has a
line with that backend's hash (``Plugin.hash_code``).

Projects of ``caramel new`` hold no sources of caramel. Their files list the sources of the installed package,
and `caramel upgrade` writes them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from caramel.errors import CaramelError, ConfigError, DataError, format_error, format_items
from caramel.io.files import compute_file_hash, write_text
from caramel.io.regular_files import read_plain_text
from caramel.io.safe_yaml import read_yaml
from caramel.plugins import Plugin
from caramel.runtime.code_deps import CARAMEL, Package, find_dependencies, find_reached_plugins

CODE = "code"
PLUGIN = "plugin "  # how the name of a plugin begins in a list
GRAPHS = ("", "pipelines/crepe")  # folders of a project with a dvc.yaml: the benchmark's, and CREPE's
LISTED = ("deps", "outs", "metrics", "plots")  # keys of a stage that are lists


def hash_sources(
    script: Path, package: Package = CARAMEL, hash_file: Callable[[Path], str] = compute_file_hash
) -> dict[str, str]:
    """Return name -> SHA-256 of all source files of the package that a stage's script depends on.

    Args:
        script: the script.
        package: package to search.
        hash_file: returns the SHA-256 of a file, perhaps from a cache.

    Raises:
        DataError: the script is missing or not valid Python.
    """
    try:
        paths = [package.find_file(name) for name in find_dependencies([script], package)]
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{script} cannot be read as a stage's script: {error}") from error
    modules = set(filter(None, paths))
    one_per_folder = {module.parent: module for module in modules}.values()
    files = modules.union(*map(data_beside, one_per_folder))
    return {file.relative_to(package.folder.parent).as_posix(): hash_file(file) for file in sorted(files)}


def hash_plugins(script: Path, named: Iterable[Plugin], package: Package = CARAMEL) -> dict[str, str]:
    """Return name -> hash of the plugins that a stage's script can use, among those that the params name."""
    named = set(named)
    return {
        f"{PLUGIN}{plugin.backend_type} {plugin.name}": plugin.hash_code()
        for plugin in (find_reached_plugins([script], package) if named else ())
        if plugin in named
    }


def list_params_plugins(root: Path, package: Package = CARAMEL) -> list[Plugin]:
    """Return the plugins that a project's params name; the params are read only if a plugin is installed.

    Raises:
        ConfigError: the params are missing or broken.
    """
    if not any(table.plugins for table in package.tables.values()):
        return []
    from caramel.config.schema import load_config
    from caramel.config.validate import list_named_plugins

    return list_named_plugins(load_config(root / "params.yaml"))


def data_beside(module: Path) -> set[Path]:
    """Return the data files in a module's folder: templates and tables that the modules there read."""
    beside = module.parent.iterdir()
    return {path for path in beside if path.suffix in (".csv", ".html", ".yaml") and path.is_file()}


def read_sums(path: Path) -> dict[str, str]:
    """Return the SHA-256 of each name in a file of sums; empty if the file is missing.

    Raises:
        DataError: a line is not a sum and a name.
    """
    try:
        lines = read_plain_text(path).splitlines() if path.exists() else []
    except ValueError as error:
        raise DataError(f"{path} is not text: {error}. Restore it from git.") from error
    sums = {}
    for line in lines:
        digest, gap, name = line.partition("  ")
        if not (len(digest) == 64 and gap and name):
            raise DataError(
                f"{path} has the line {line[:80]!r}, which is not a sum and a name. Restore it from git."
            )
        sums[name] = digest
    return sums


def format_sums(sums: dict[str, str]) -> str:
    """Return the text of a file of sums."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def load_stages(root: Path) -> dict[str, dict[str, Any]]:
    """Return the stages of a project's ``dvc.yaml``. Stages with a file in ``code/`` depend on it.

    Raises:
        ConfigError: the file is missing, or is not a graph of stages.
    """
    graph = read_yaml(root / "dvc.yaml", "Run this in the project's folder.")
    entries = graph.get("stages") if isinstance(graph, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError(f"{root / 'dvc.yaml'} has no stages. Restore it from git.")
    for name, stage in entries.items():
        if "/" in str(name) or str(name).startswith("."):  # a file of code/ is written under this name
            raise ConfigError(
                f"{root / 'dvc.yaml'}: stage {name!r} has an invalid name, which would be a path. Rename it."
            )
        sections = [stage.get(section, []) for section in LISTED] if isinstance(stage, dict) else [None]
        if not all(
            isinstance(section, list) and all(isinstance(e, str | dict) for e in section)
            for section in sections
        ):
            message = f"stage {name!r} has the wrong form for DVC: {', '.join(LISTED)} are lists of paths"
            raise ConfigError(f"{root / 'dvc.yaml'}: {message}. Restore it from git.")
    return entries


def load_all_stages(root: Path) -> dict[str, dict[str, Any]]:
    """Return the stages of all graphs of a project; one of an earlier caramel has the first alone.

    Raises:
        ConfigError: a graph is not one, or the first is missing.
    """
    further = [root / folder for folder in GRAPHS[1:] if (root / folder / "dvc.yaml").exists()]
    return {name: stage for folder in (root, *further) for name, stage in load_stages(folder).items()}


def find_script(stage: Mapping[str, Any], root: Path) -> Path:
    """Return the script that a stage runs: "python pipelines/NAME.py"."""
    return root / str(stage.get("cmd", "")).rpartition(" ")[2]


def iter_outputs(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the output paths of a stage. An output with options is a mapping with one key."""
    for section in ("outs", "metrics", "plots"):
        for out in stage.get(section, ()):
            yield from out if isinstance(out, dict) else (out,)


def find_outdated_sums(root: Path, package: Package = CARAMEL) -> dict[str, dict[str, str]]:
    """Return the correct content of each outdated file in ``code/``, by stage.

    Raises:
        ConfigError, DataError: ``dvc.yaml``, a script or a file of sums is broken.
    """
    wanted = hash_stage_sources(load_all_stages(root), root, package)
    return {name: sums for name, sums in wanted.items() if sums != read_sums(root / CODE / f"{name}.txt")}


def hash_stage_sources(
    graph: Mapping[str, Mapping[str, Any]], root: Path, package: Package = CARAMEL
) -> dict[str, dict[str, str]]:
    """Return the correct content of each file in ``code/``, by stage, for the stages that depend on one.

    Raises:
        ConfigError: a plugin is installed, and the params are missing or broken.
        DataError: a script is missing or broken.
    """
    named = list_params_plugins(root, package)
    scripts = {
        name: find_script(stage, root)
        for name, stage in graph.items()
        if f"{CODE}/{name}.txt" in stage.get("deps", ())
    }
    hash_file = functools.cache(compute_file_hash)  # stages share most of their sources
    return {
        name: hash_sources(script, package, hash_file) | hash_plugins(script, named, package)
        for name, script in scripts.items()
    }


def write_manifests(root: Path, package: Package = CARAMEL) -> list[str]:
    """Write the outdated files of ``code/``, and return their stages.

    Raises:
        ConfigError, DataError: ``dvc.yaml``, a script or a file of sums is broken.
    """
    outdated = find_outdated_sums(root, package)
    for stage, sums in outdated.items():
        write_text(root / CODE / f"{stage}.txt", format_sums(sums))
    return list(outdated)


def holds_sources(root: Path, package: Package = CARAMEL) -> bool:
    """Return whether a folder is the package's repository.

    A user's project may hold an environment, but no sources.
    """
    return package.folder == root.resolve() / "src" / package.name


def require_listed(stage: str, root: Path, package: Package = CARAMEL) -> None:
    """Raise if the installed caramel is not the one listed in a stage's file in ``code/``.

    A stage without a file passes.

    Otherwise ``dvc.lock`` would attribute the stage's outputs to other code.

    Raises:
        ConfigError: sources differ or are missing.
        DataError: the file is broken.
    """
    sums = read_sums(root / CODE / f"{stage}.txt")
    files = {name: package.folder.parent / name for name in sums if not name.startswith(PLUGIN)}
    other = [
        name for name, file in files.items() if not file.is_file() or compute_file_hash(file) != sums[name]
    ]
    if not other:
        return
    if holds_sources(root, package):
        raise ConfigError(
            f"Sources were edited after {CODE}/{stage}.txt was written:\n{format_items(other)}\n"
            f"Run `make graph`, then `dvc repro` again."
        )
    raise ConfigError(
        f"The installed caramel is not the one that {CODE}/{stage}.txt lists; other sources:\n{format_items(other)}\n"
        f"Run `caramel upgrade`, which says what will be run again, or install the version of requirements.txt."
    )


def require_plugins_listed(
    stage: str, named: Iterable[Plugin], root: Path, package: Package = CARAMEL
) -> None:
    """Raise if a plugin that the params name, and that a stage can use, is not the one listed in ``code/``.

    A stage without a file passes.

    Raises:
        ConfigError: a plugin has other code, or is not listed.
        DataError: the file is broken.
    """
    path = root / CODE / f"{stage}.txt"
    if not (named := list(named)) or not path.exists():
        return
    sums = read_sums(path)
    script = find_script(load_all_stages(root)[stage], root)
    if other := [
        name for name, digest in hash_plugins(script, named, package).items() if sums.get(name) != digest
    ]:
        cure = "make graph" if holds_sources(root, package) else "caramel upgrade"
        raise ConfigError(
            f"{CODE}/{stage}.txt does not list these plugins with the code that is installed:\n{format_items(other)}\n"
            f"Run `{cure}`, then `dvc repro` again: it repeats the stages that can use them."
        )


def main() -> None:
    """Write the outdated files of ``code/`` in this repository; exit with 1 and a message if the graph is broken."""
    try:
        changed = write_manifests(Path())
    except CaramelError as error:
        sys.exit(format_error(error))
    print(f"{CODE}/: {', '.join(changed) or 'nothing'} changed.", file=sys.stderr)


if __name__ == "__main__":
    main()
