"""Read DVC's settings: the files, the remotes that they name, and which file has an error.

DVC reads four files, each overriding the previous one: ``system`` and ``global`` belong to this machine and
its user, ``repo`` is committed with a project, and ``local`` is beside it and ignored by git.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caramel.errors import ConfigError

USER = ("system", "global")
FOLDER = ("repo", "local")


def load_settings(
    folder: Path, levels: Sequence[str] = (*USER, *FOLDER), label: str | None = None
) -> Mapping[str, Any]:
    """Return DVC's validated settings of a project. By default these are the ones that DVC itself uses there.

    Args:
        folder: the project.
        levels: files to read; later ones override earlier ones.
        label: name of the folder in messages; by default its path.

    Raises:
        ConfigError: DVC does not accept them; the message names the file.
    """
    from dvc.config import get_compiled_schema, merge
    from voluptuous import Invalid

    files = {level: _get_config_path(folder, level) for level in levels}
    names = {level: str(path) for level, path in files.items()}
    if label is not None:
        names |= {level: f"{label}/.dvc/{path.name}" for level, path in files.items() if level in FOLDER}
    read = {level: _read_file(path, names[level]) for level, path in files.items()}
    merged: dict[str, Any] = {}
    for one in read.values():
        merge(merged, one)
    try:
        checked: Mapping[str, Any] = get_compiled_schema()(merged)
    except Invalid as error:
        setting = [str(part) for part in error.path]
        depth = {level: _count_shared_parts(one, setting) for level, one in read.items()}
        wrong = max(reversed(levels), key=lambda level: depth[level])
        raise ConfigError(_format_error(names[wrong], f"{'.'.join(setting)}: {error.msg}")) from error
    return checked


def cache_folder(folder: Path) -> Path:
    """Return the location of a project's cache as DVC finds it. Other settings may be invalid.

    Raises:
        ConfigError: a file of DVC's settings cannot be read.
    """
    named = folder.absolute() / ".dvc" / "cache"
    for level in (*USER, *FOLDER):
        cache = _read_file(_get_config_path(folder, level)).get("cache", {})
        named = Path(cache.get("dir") or named)
    return named


def find_site_cache(folder: Path) -> Path:
    """Return the folder in which DVC stores hashes and indexes for all projects of this machine.

    Raises:
        ConfigError: DVC does not accept the settings.
    """
    from dvc.dirs import site_cache_dir

    return Path(site_cache_dir(load_settings(folder).get("core", {}).get("site_cache_dir"))).absolute()


def is_writable_by_others(site_cache: Path) -> bool:
    """Return whether other users can write into DVC's folder of the machine, or could once it exists.

    DVC makes ``repo/`` in it writable for all users. Nobody can reach it in a folder that only its owner may
    enter.
    """
    modes = {path: path.stat().st_mode for path in (site_cache, *site_cache.parents) if path.exists()}
    if not all(mode & 0o011 for mode in modes.values()):
        return False
    shared = site_cache / "repo"
    return not shared.exists() or bool((shared.stat().st_mode | modes[site_cache]) & 0o022)


def list_remotes(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the settings of each remote, with the default remote first."""
    by_name: dict[str, Mapping[str, Any]] = dict(config.get("remote", {}))
    default = config.get("core", {}).get("remote")
    return {default: by_name.pop(default), **by_name} if default in by_name else by_name


def find_unverified_remotes(folder: Path) -> list[str]:
    """Return the remotes from which DVC silently pulls damaged objects, here or in a clone.

    The setting that enables the check must be in the file that names the remote: in the committed file, if
    that names it.

    Raises:
        ConfigError: DVC does not accept the settings.
    """
    trusting = [
        name for name, options in list_remotes(load_settings(folder)).items() if not options.get("verify")
    ]
    here = _read_file(_get_config_path(folder, "repo")).get("remote", {})
    unsaid = [name for name, options in here.items() if str(options.get("verify")).lower() != "true"]
    return list(dict.fromkeys([*trusting, *unsaid]))


def verify_pulls(folder: Path, names: Sequence[str]) -> str:
    """Make DVC check what it pulls from remotes, in the file that names the remote, and return a message."""
    from dvc.config import Config

    config = Config(dvc_dir=str((folder / ".dvc").absolute()))
    for level in ("global", "repo", "local"):
        if level_names := {*names} & {*config.load_one(level).get("remote", {})}:
            with config.edit(level) as one:
                for name in level_names:
                    one["remote"][name]["verify"] = True
    return f"what is pulled from {', '.join(names)} is checked from now on"


def _get_config_path(folder: Path, level: str) -> Path:
    from dvc.config import Config

    if level in FOLDER:
        return folder.absolute() / ".dvc" / ("config" if level == "repo" else "config.local")
    return Path(Config.get_dir(level), "config")


def _read_file(path: Path, label: str | None = None) -> Mapping[str, Any]:
    """Return the content of a settings file, with paths relative to its folder; empty if it does not exist.

    Args:
        path: the file.
        label: name of the file in messages; by default its path.

    Raises:
        ConfigError: it is not a settings file.
    """
    from dvc.config import Config
    from dvc.config import ConfigError as Refused
    from voluptuous import Invalid

    label = label or str(path)
    if not path.exists():
        return {}
    if not path.is_file():
        raise ConfigError(_format_error(label, "it is not a file"))
    try:
        read: Mapping[str, Any] = Config._load_paths(Config.load_file(str(path)), str(path))
    except (Refused, SyntaxError, Invalid, OSError, ValueError) as error:  # configobj raises SyntaxError
        raise ConfigError(_format_error(label, str(error))) from error
    except (
        TypeError,
        AttributeError,
    ) as error:  # a value where DVC expects a section, or a list where it expects a path
        raise ConfigError(
            _format_error(label, f"a section, or the path of one, is something else: {error}")
        ) from error
    return read


def _count_shared_parts(read: Mapping[str, Any], setting: Sequence[str]) -> int:
    """Return how many parts of the path to a setting a file has."""
    one: Any = read
    for depth, part in enumerate(setting):
        if not isinstance(one, Mapping) or part not in one:
            return depth
        one = one[part]
    return len(setting)


def _format_error(label: str, why: str) -> str:
    message = " ".join(why.removeprefix("config file error: ").split()).rstrip(".")
    return f"DVC's settings in {label!r} are broken: {message}. Fix that file."
