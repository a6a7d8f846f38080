"""Determine what code a result depends on: all modules of caramel that a script or module reaches.

- Imports count anywhere, also in functions, but not under ``if TYPE_CHECKING``.
- Code that mentions a table of the registry reaches all backends in the table.
- Code that takes a name which a package re-exports lazily reaches the module that defines it.
- Infrastructure does not shape results and does not count: an edit there reruns nothing.

``code/STAGE.txt`` lists these files for each stage (``runtime.code_manifest``). The keys of finished shards,
trials and embeddings hash them (``compute_code_version``).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from caramel import registry
from caramel.plugins import Plugin
from caramel.registry import Registry

# Modules, and whole rooms, whose code no result depends on.
INFRASTRUCTURE = frozenset(
    {
        "config.fields",
        "config.profiles",
        "config.schema",
        "config.sections",
        "config.validate",
        "errors",
        "io.disk_space",
        "io.files",
        "io.output_paths",
        "io.regular_files",
        "io.safe_yaml",
        "plugins",
        "registry",
        "runtime",
    }
)
LAZY = ("__getattr__", "__dir__")  # functions by which a package re-exports names lazily
LEAVES = (ast.Constant, ast.Name, ast.expr_context)  # nodes without children: two thirds of all
FINDERS = ("__future__", "importlib", "typing")  # modules that such a package may itself import
REGISTRY = "registry"  # module whose tables name backends
Tables = Mapping[str, Registry[object]]  # name of the variable in the registry -> its table


@dataclass(frozen=True, eq=False)
class Package:
    """Sources of a package, the tables of its registry, and its infrastructure. They are read once in each process."""

    name: str
    folder: Path  # folder of the package itself
    tables: Tables
    infrastructure: frozenset[str] = field(default=frozenset())  # modules and packages, relative
    files: dict[str, Path | None] = field(default_factory=dict, init=False)  # of modules, as they are found

    def find_file(self, module: str) -> Path | None:
        """Return the file of a module of the package, or None if it does not exist."""
        if module not in self.files:
            self.files[module] = self._locate_file(module)
        return self.files[module]

    def _locate_file(self, module: str) -> Path | None:
        if module.split(".")[0] != self.name:
            return None
        path = self.folder.joinpath(*module.split(".")[1:])
        candidates = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in candidates if file.is_file()), None)

    def is_tracked(self, module: str) -> bool:
        """Return whether a module belongs to the package and is not infrastructure."""
        if self.find_file(module) is None:
            return False
        inner = [prefix.removeprefix(f"{self.name}.") for prefix in iter_parents(module)]
        return not self.infrastructure.intersection(inner)


TABLES: Tables = {name: value for name, value in vars(registry).items() if isinstance(value, Registry)}
CARAMEL = Package("caramel", Path(__file__).parents[1], TABLES, INFRASTRUCTURE)


def find_dependencies(
    starts: Iterable[Path], package: Package = CARAMEL, only: Mapping[str, str] | None = None
) -> set[str]:
    """Return the modules of the package that some files reach, without infrastructure and empty packages.

    Args:
        starts: scripts or modules; one of the package is in the result only if another one reaches it.
        package: package to search.
        only: type of backend -> the one backend of that type to follow; all backends of other types are
            followed.
    """
    modules = filter(package.is_tracked, _find_names(starts, package, only or {}))
    return {module for module in modules if not is_bare(package.find_file(module))}


def find_reached_plugins(
    starts: Iterable[Path], package: Package = CARAMEL, only: Mapping[str, str] | None = None
) -> list[Plugin]:
    """Return the installed backends of other packages that some files reach; arguments as in ``find_dependencies``.

    As for the package's own backends, code that mentions a table reaches all of them.
    """
    if not any(table.plugins for table in package.tables.values()):
        return []
    only = only or {}
    names = _find_names(starts, package, only)
    prefix = f"{package.name}.{REGISTRY}."
    tables = [table for name, table in package.tables.items() if {prefix + name, f"{prefix}*"} & names]
    return [
        plugin
        for table in tables
        for plugin in table.plugins.values()
        if only.get(table.name, plugin.name) == plugin.name
    ]


def _find_names(starts: Iterable[Path], package: Package, only: Mapping[str, str]) -> set[str]:
    """Return all dotted names that some files, and the tracked modules that they reach, import."""
    names: set[str] = set()
    open_ = list(starts)
    while open_:
        new = _list_imports(open_.pop(), package, tuple(only.items())) - names
        names |= new
        files = map(package.find_file, filter(package.is_tracked, new))
        open_ += [file for file in files if file is not None]
    return names


@functools.cache
def compute_code_version(module: str, **only: str) -> str:
    """Return a hash of all code that a loaded module's results depend on: caramel's, including its own, and plugins'.

    Args:
        module: name of the module, or of a script: ``__main__``.
        only: type of backend -> the one of that type in use, as in ``find_dependencies``.
    """
    start = _find_source(module)
    files = {name: CARAMEL.find_file(name) for name in find_dependencies([start], only=only)}
    digest = hashlib.sha256(start.read_bytes() + b"\0")
    for name, file in sorted(files.items()):
        assert file is not None
        digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    for plugin in find_reached_plugins([start], only=only):
        digest.update(plugin.hash_code().encode())
    return digest.hexdigest()


def _find_source(module: str) -> Path:
    """Return the file of a module that is loaded or can be loaded."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    spec = None if loaded else importlib.util.find_spec(module)
    path = loaded or (spec and spec.origin)
    assert path, f"module {module!r} has no file"
    return Path(path)


@functools.cache
def _parse_mentions(file: Path) -> tuple[str, ...]:
    """Return the dotted names that one file imports or takes from its imports."""
    mentions: list[str] = []
    bound: dict[str, str] = {}  # name in the file -> the import bound to it
    nodes = list(_iter_runtime_nodes(ast.parse(file.read_text(encoding="utf-8"))))
    for node in nodes:
        if isinstance(node, ast.Import):
            mentions += [alias.name for alias in node.names]
            for alias in node.names:  # without an alias, an import binds the outermost package
                first = alias.name.partition(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            start = module if module.endswith(".") else f"{module}."
            mentions += [module, *(start + alias.name for alias in node.names)]
            bound |= {alias.asname or alias.name: start + alias.name for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            first, *rest = _split_dotted_name(node)
            if first in bound:
                mentions.append(".".join((bound[first], *rest)))
    return tuple(dict.fromkeys(mentions))


def _split_dotted_name(node: ast.expr) -> list[str]:
    """Return the parts of a dotted name. The first is empty if the base is not a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(parts)]


@functools.cache
def _list_imports(file: Path, package: Package, only: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """Return the names that ``_iter_imports`` yields: for all scripts that reach a file, they are the same."""
    return frozenset(_iter_imports(file, package, dict(only)))


def _iter_imports(file: Path, package: Package, only: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that a file imports, their parent packages, and backends of tables it mentions."""
    for mention in _parse_mentions(file):
        whole = _resolve_module(mention, file, package)
        yield from iter_parents(whole)
        module, _, table = whole.rpartition(".")
        for target in _list_lazy_exports(package.find_file(module), table):
            yield from iter_parents(target)
        if module == f"{package.name}.{REGISTRY}":
            tables = package.tables.values() if table == "*" else filter(None, [package.tables.get(table)])
            for backends in tables:
                targets = [
                    target
                    for name, target in backends.targets.items()
                    if only.get(backends.name, name) == name
                ]
                for target in filter(None, [*targets, backends.check]):
                    yield from iter_parents(target.partition(":")[0])


def _iter_runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes in order, except ``LEAVES`` and those that only a type checker sees."""
    open_ = [tree]
    while open_:
        node = open_.pop()
        yield node
        if isinstance(node, ast.If) and _is_type_checking(node):
            open_ += reversed(node.orelse)
        else:
            open_ += reversed(
                [child for child in ast.iter_child_nodes(node) if not isinstance(child, LEAVES)]
            )


def _is_type_checking(node: ast.If) -> bool:
    """Return whether the body of a condition is for type checkers only."""
    names = ((getattr(part, "id", ""), getattr(part, "attr", "")) for part in ast.walk(node.test))
    return any("TYPE_CHECKING" in pair for pair in names)


def iter_parents(module: str) -> Iterator[str]:
    """Yield the names of a module's parent packages and of the module, outermost first."""
    parts = module.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _resolve_module(module: str, file: Path, package: Package) -> str:
    """Return the full name of a module, which may be relative to the file; "" if it is outside the package."""
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    if not file.is_relative_to(package.folder):
        return ""
    parts = (package.name, *file.relative_to(package.folder).parts)
    return ".".join(filter(None, [*parts[:-level], module[level:]]))


@functools.cache
def is_bare(file: Path | None) -> bool:
    """Return whether a file is a package's ``__init__`` with only docstrings and lazy re-exports.

    It imports only for type checkers, or modules that look up a module by name. Its functions are ``LAZY``.
    """
    assert file is not None
    if file.name != "__init__.py":
        return False
    return all(map(_is_idle, ast.parse(file.read_text(encoding="utf-8")).body))


def _is_idle(node: ast.stmt) -> bool:
    """Return whether a statement of a package's ``__init__`` does no work."""
    if isinstance(node, ast.If):
        return _is_type_checking(node) and all(map(_is_idle, node.orelse))
    if isinstance(node, ast.ImportFrom):
        return node.module in FINDERS
    if isinstance(node, ast.FunctionDef):
        return node.name in LAZY
    return isinstance(node, ast.Expr) or ast.unparse(node).startswith(("__version__ = ", "__all__ = "))


@functools.cache
def _list_lazy_exports(file: Path | None, name: str) -> tuple[str, ...]:
    """Return the modules that a bare ``__init__`` imports for type checkers as ``name``, or as "*" for any name."""
    if file is None or not is_bare(file):
        return ()
    exports: dict[str, str] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and _is_type_checking(node):
            for part in node.body:
                if isinstance(part, ast.ImportFrom) and part.module:
                    exports |= {alias.asname or alias.name: part.module for alias in part.names}
    return tuple(exports.values()) if name == "*" else tuple(filter(None, [exports.get(name)]))
