"""Find the backends that other installed packages provide, without importing them.

A package declares them as entry points (https://packaging.python.org/specifications/entry-points):

    [project.entry-points."caramel.benchmarks"]
    rhymes = "caramel_rhymes:BENCHMARK"

``registry`` looks them up. Only the use of a name imports its package.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from caramel.errors import BackendError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

PLUGINS_TAG = "plugins"  # tag of MLflow runs whose results depend on plugins: see ``format_plugins``
PLUGINS_VARIABLE = "CARAMEL_PLUGINS"  # environment variable with the tag of all runs of a stage


@dataclass(frozen=True)
class Contract:
    """What the backends of a type must be; checked for those of other packages.

    Attributes:
        form: ``module:class`` of a backend; "" for a function.
        functions: its attributes that must be functions.
        protocols: attribute ``form`` of a backend ("" if it has none) -> ``module:class`` of the protocol of what its
            function ``load``, or the backend itself, returns; empty: not checked.
    """

    form: str = ""
    functions: tuple[str, ...] = ()
    protocols: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plugin:
    """A backend of another package.

    Attributes:
        backend_type: what it is, for messages, such as ``benchmark``.
        name: name of the entry point, by which users name the backend.
        target: its location, ``module:object``.
        package, version: the distribution that declares it.
    """

    backend_type: str
    name: str
    target: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    def load(self, contract: Contract) -> object:
        """Import and return the backend. What it returns when it is used is checked then.

        Raises:
            BackendError: the package cannot be imported, or the object is missing, of another form or name, or lacks
                a function.
        """
        try:
            backend = import_object(self.target)
        except Exception as error:  # the import runs code of others, which may raise anything
            raise self.build_error(f"cannot be imported: {type(error).__name__}: {error}") from error
        if not contract.form:
            if not callable(backend):
                raise self.build_error(f"is a {type(backend).__name__}, not a function")
            return CheckedFunction(self, backend, contract.protocols[""])
        expected = import_object(contract.form)
        if not isinstance(backend, expected):
            raise self.build_error(
                f"is a {type(backend).__name__}, not a {expected.__name__} of {contract.form}"
            )
        if (name := getattr(backend, "name", None)) != self.name:
            raise self.build_error(f"has the name {name!r}, which must be that of its entry point")
        if lacking := [name for name in contract.functions if not callable(getattr(backend, name))]:
            raise self.build_error(f"lacks a function: {', '.join(lacking)}")
        if not contract.protocols:
            return backend
        if backend.form not in contract.protocols:
            raise self.build_error(
                f"has the form {backend.form!r}, not one of {', '.join(contract.protocols)}"
            )
        return replace(backend, load=CheckedFunction(self, backend.load, contract.protocols[backend.form]))

    def build_error(self, problem: str) -> BackendError:
        """Return an error that names the package and the entry point; ``problem`` is its predicate."""
        return BackendError(
            f"The {self.backend_type} {self.name!r} of package {self} (entry point {self.name} = {self.target}) {problem}. "
            f"Correct or update that package, or remove it: pip uninstall {self.package}."
        )

    def hash_code(self) -> str:
        """Return a hash of the package's Python files and of the entry point; the package is not imported.

        It also changes while a version is in development.
        """
        digest = hashlib.sha256(f"{self}\0{self.name}\0{self.target}".encode())
        spec = importlib.util.find_spec(self.target.partition(":")[0].partition(".")[0])
        files: list[tuple[str, Path]] = []
        for folder in map(Path, spec.submodule_search_locations or () if spec else ()):
            files += [(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.py")]
        if not files and spec and spec.origin:
            files = [("", Path(spec.origin))]
        for name, path in sorted(files):
            digest.update(f"\0{name}\0".encode() + path.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class CheckedFunction:
    """A function of a plugin that builds a model or a judge, and raises a BackendError if that lacks a method.

    Attributes:
        plugin: whose function it is.
        build: the function.
        protocol: ``module:class`` of the protocol of what it returns.
    """

    plugin: Plugin
    build: Callable[..., Any]
    protocol: str

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Return what the function builds."""
        built = self.build(*args, **settings)
        lacking = [name for name in list_members(import_object(self.protocol)) if not has_member(built, name)]
        if lacking:
            raise self.plugin.build_error(
                f"gives a {type(built).__name__} without {', '.join(lacking)}, unlike {self.protocol}"
            )
        return built


def list_members(protocol: type) -> list[str]:
    """Return the names of a protocol's attributes and methods."""
    return [name for name in {**vars(protocol), **protocol.__annotations__} if not name.startswith("_")]


def has_member(built: object, name: str) -> bool:
    """Return whether an object has an attribute; a property is not computed."""
    return hasattr(type(built), name) or hasattr(built, name)


def import_object(target: str) -> Any:
    """Import and return the object at a location, ``module:object``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


@functools.cache
def list_entry_points() -> EntryPoints:
    """Return the entry points of all installed packages, which are searched once in each process."""
    from importlib.metadata import entry_points

    points: Any = entry_points()  # mypy takes it for what Python 3.9 returned
    return cast("EntryPoints", points)


@functools.cache
def find_plugins(group: str, backend_type: str) -> Mapping[str, tuple[Plugin, ...]]:
    """Return the plugins of an entry point group by name. Several packages may claim one name."""
    plugins: dict[str, tuple[Plugin, ...]] = {}
    for entry in list_entry_points().select(group=group):
        assert entry.dist is not None, "an entry point that was found belongs to a distribution"
        plugin = Plugin(backend_type, entry.name, entry.value, entry.dist.name, entry.dist.version)
        plugins[entry.name] = (*plugins.get(entry.name, ()), plugin)
    return {name: tuple(sorted(plugins[name], key=str)) for name in sorted(plugins)}


def format_plugins(plugins: Iterable[Plugin]) -> str:
    """Return the plugins in a line, such as ``benchmark rhymes: caramel-rhymes 1.0``."""
    return "; ".join(f"{plugin.backend_type} {plugin.name}: {plugin}" for plugin in dict.fromkeys(plugins))


def describe_plugins(plugins: Iterable[Plugin]) -> list[dict[str, str]]:
    """Return what identifies plugins, for the results that depend on them."""
    return [
        {
            "type": plugin.backend_type,
            "name": plugin.name,
            "package": plugin.package,
            "version": plugin.version,
            "code": plugin.hash_code(),
        }
        for plugin in dict.fromkeys(plugins)
    ]
