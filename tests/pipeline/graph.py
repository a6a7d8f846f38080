"""What a stage's script reaches in a package, and reads of the config: held against ``dvc.yaml``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LOOKING_UP = ("backend", "location")  # functions of the registry, and the table itself
TABLE = "BACKENDS"
Backends = Mapping[str, Mapping[str, str]]  # kind -> name -> "module:function"


@dataclass(frozen=True)
class Package:
    """Sources of a package, what its registry names, and what carries the work but does not shape it."""

    name: str
    folder: Path  # of the package itself
    backends: Backends
    infrastructure: frozenset[str] = frozenset()  # modules at its top

    def file(self, module: str) -> Path | None:
        """Return where a module of the package lies; None: there is none of that name."""
        path = self.folder.joinpath(*module.split(".")[1:])
        candidates = (path.with_suffix(".py"), path / "__init__.py")
        if module.split(".")[0] != self.name:
            return None
        return next((file for file in candidates if file.is_file()), None)

    def shapes(self, module: str) -> bool:
        """Return whether a module is one of the package and no infrastructure."""
        parts = module.split(".")
        return self.file(module) is not None and not (len(parts) > 1 and parts[1] in self.infrastructure)


def missing_deps(script: Path, deps: list[str], package: Package, root: Path) -> list[str]:
    """Return the files that shape what a script does and that no dependency of its stage is or holds."""
    files = [package.file(module) for module in sorted(reached(script, package))]
    names = [file.relative_to(root).as_posix() for file in files if file is not None]
    return [name for name in names if not any(name == dep or name.startswith(f"{dep}/") for dep in deps)]


def reached(script: Path, package: Package) -> set[str]:
    """Return the modules of the package that a script reaches, but for infrastructure and empty packages.

    Imports count wherever they stand, but under ``if TYPE_CHECKING``; ``from package import module`` is that
    module. Who looks up a kind of backend reaches all backends of that kind.
    """
    found: set[str] = set()
    open_ = [script]
    while open_:
        for module in _named(open_.pop(), package):
            if module not in found and package.shapes(module):
                found.add(module)
                file = package.file(module)
                assert file is not None
                open_.append(file)
    return {module for module in found if not _is_bare(package.file(module))}


def _named(file: Path, package: Package) -> Iterator[str]:
    """Yield the modules that one file imports, with the packages around them, or looks up."""
    for node in _running(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, file, package)
            yield from _with_parents(module)
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif kind := _looked_up(node):
            for place in package.backends.get(kind, {}).values():
                yield from _with_parents(place.partition(":")[0])


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield other
                yield from _running(other)
        else:
            yield node
            yield from _running(node)


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _absolute(node: ast.ImportFrom, file: Path, package: Package) -> str:
    """Return the module that ``from`` names, of a relative import too."""
    if not node.level:
        return node.module or ""
    parts = (package.name, *file.relative_to(package.folder).parts)
    return ".".join([*parts[: -node.level], *([node.module] if node.module else [])])


def _looked_up(node: ast.AST) -> str:
    """Return the kind of backend that a call of the registry, or a look into its table, names."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).split(".")[-1] in LOOKING_UP:
        key: ast.AST = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] == TABLE:
        key = node.slice
    else:
        return ""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _is_bare(file: Path | None) -> bool:
    """Return whether a file is a package's ``__init__`` that holds words about it and no work."""
    assert file is not None
    body = ast.parse(file.read_text(encoding="utf-8")).body
    plain = (isinstance(node, ast.Expr) or ast.unparse(node).startswith("__version__ = ") for node in body)
    return file.name == "__init__.py" and all(plain)


WHOLE = "the whole config"


def missing_params(
    script: Path, params: list[str], sections: Mapping[str, list[str]], *, exempt: frozenset[str]
) -> list[str]:
    """Return the keys of the config that a script reads and that are no params of its stage.

    Args:
        script: whose functions take the config as an argument with the annotation ``Config``.
        params: of the stage: sections, or keys of one.
        sections: of the config, with their keys; none: it is a value.
        exempt: keys that change nothing in what is made.
    """
    found: list[str] = []
    for section, key in sorted(keys_read(script)):
        keys = sections.get(section, [])
        read = [f"{section}.{name}" for name in keys if key in (name, "") or key not in keys] or [section]
        found += [name for name in read if section not in params and name not in {*params, *exempt}]
    return list(dict.fromkeys(found))


def keys_read(script: Path) -> set[tuple[str, str]]:
    """Return what a script reads of the config: (section, key), or (section, "") where it takes it whole."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    configs = {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for argument in [*node.args.args, *node.args.kwonlyargs]
        if argument.annotation is not None and ast.unparse(argument.annotation).split(".")[-1] == "Config"
    }
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in configs:
            section = above[node]
            key = above.get(section)
            if not isinstance(section, ast.Attribute):
                found.add((WHOLE, ""))
            else:
                found.add((section.attr, key.attr if isinstance(key, ast.Attribute) else ""))
    return found
