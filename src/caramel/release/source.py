"""Open the source of a version: a git repository or folder, its pins, and the stores of its objects."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from caramel.errors import CaramelError, ConfigError, DataError, ResourceError, redact_secrets
from caramel.io.validators import is_plain_path
from caramel.release.pin_file import NAME, Pin, get_pin_path, read_pin
from caramel.runtime.dvc.credentials import load_user_logins, select_allowed_settings
from caramel.runtime.dvc.remote import Store, open_cache, open_remote
from caramel.runtime.dvc.settings import FOLDER, list_remotes, load_settings
from caramel.runtime.git import PROTOCOLS, run_git

GIT_FOLDER = "git"  # the clone, in a temporary folder


class VersionSource:
    """One pinned version at its source; remotes are opened only if a local cache lacks an object."""

    def __init__(
        self, source: str, root: Path, pinned: Pin, *, at_hand: bool, credentials: Sequence[str] = ()
    ) -> None:
        self.source, self.root, self.pinned = source, root, pinned
        self._at_hand, self._credentials = at_hand, credentials

    def _iter_stores(self) -> Iterator[Store]:
        if self._at_hand:
            yield open_cache(self.root)
        yield from self._remotes

    @cached_property
    def _remote_settings(self) -> Mapping[str, Any]:
        config = load_settings(self.root, FOLDER, label=redact_secrets(self.source))
        return {
            "remote": {
                name: select_allowed_settings(options) for name, options in list_remotes(config).items()
            }
        }

    @cached_property
    def _remotes(self) -> list[Store]:
        """Return the remotes that can be opened; only those that the user named receive the user's login."""
        logins = load_user_logins(self._credentials)
        opened, errors = [], []
        for name in list_remotes(self._remote_settings):
            try:
                opened.append(open_remote(self._remote_settings, name, logins))
            except CaramelError as error:
                errors.append(error)
        if errors and not opened:
            raise type(errors[0])(" ".join(map(str, errors)))
        if not opened and not self._at_hand:
            raise DataError(
                f"{redact_secrets(self.source)!r} names no DVC remote with its data. Its author has to add one, push, and "
                f"commit .dvc/config; see docs/remote.md."
            )
        return opened

    def fetch_object(self, oid: str, path: str, to: Path) -> None:
        """Write one object of the version to a file; the file appears only if it is complete.

        Args:
            oid: its MD5, as DVC names it.
            path: its path in the version, for messages.
            to: the file.

        Raises:
            DataError: no store has a correct copy.
            ResourceError: a store cannot be reached or refuses, or the disk is full.
        """
        errors: list[CaramelError] = []
        for store in self._iter_stores():
            try:
                store.fetch_object(oid, to)
                return
            except (DataError, ResourceError) as error:
                errors.append(error)
        refused = any(isinstance(error, ResourceError) for error in errors)
        raise (ResourceError if refused else DataError)(f"{path}: {' '.join(map(str, errors))}")


class _PinFile(NamedTuple):
    """The file of a pin in a git repository."""

    revision: str
    folder: str  # the project's folder in the repository, with a final slash; "" at the top
    blob: str  # git's hash of the file


@contextmanager
def open_source(source: str, credentials: Sequence[str] = ()) -> Iterator[VersionSource]:
    """Open the version that ``SOURCE[@PIN]`` names; without ``@PIN``, the only version.

    A project may lie in a subfolder of a repository. ``FOLDER/PIN`` names a pin if several projects have one of
    that name.

    Args:
        source: a git URL or a folder, and the name of a pin.
        credentials: addresses of remotes that may receive this user's login.

    Raises:
        ConfigError: there are several pins and none is named.
        DataError: there is no such repository or pin, the pin is broken, or several pins of this name differ.
        ResourceError: git is not installed, or refuses to read another user's repository.
    """
    repository, name = _split_source(source)
    called = redact_secrets(repository)
    with TemporaryDirectory(prefix="caramel-get-") as temporary:
        if (Path(repository) / ".dvc").is_dir():
            pins = {p.stem: [""] for p in sorted((Path(repository) / "pins").glob("*.json"))}
            name = _choose_pin(pins, name, called)
            pinned = read_pin(name, Path(repository))
            yield VersionSource(repository, Path(repository), pinned, at_hand=True, credentials=credentials)
            return
        root = Path(temporary)
        cloned = _fetch_pins(repository, root, name)
        wanted = _choose_pin(cloned, name, called)
        first, *others = cloned[wanted]
        if others:
            raise DataError(
                f"{called!r} has several pins {wanted!r} with different data: on {first.revision} and {others[0].revision}. "
                f"Ask its author which one to use."
            )
        name = wanted.rpartition("/")[2]
        get_pin_path(name, root).parent.mkdir()
        get_pin_path(name, root).write_bytes(
            _read_git("cat-file", "blob", first.blob, folder=root, url=repository)
        )
        (root / ".dvc").mkdir()
        config = _list_blobs(root, first.revision, repository).get(f"{first.folder}.dvc/config")
        text = _read_git("cat-file", "blob", config, folder=root, url=repository) if config else b""
        (root / ".dvc" / "config").write_bytes(text)
        yield VersionSource(
            repository, root, read_pin(name, root, called), at_hand=False, credentials=credentials
        )


def _choose_pin(pins: Mapping[str, object], name: str | None, called: str) -> str:
    """Return the pin of this name, or the only pin; the folder can be left out if the name is unique."""
    names = [*pins]
    matches = [pin for pin in names if name is None or pin == name] or [
        pin for pin in names if name is not None and pin.endswith(f"/{name}")
    ]
    if len(matches) > 1:
        raise ConfigError(
            f"{called!r} has several versions. Name one: {called}@{matches[-1]}; {', '.join(matches)}."
        )
    if not matches:
        wanted = f"no pin {name!r}" if name is not None else "no pins"
        raise DataError(f"{called!r} has {wanted}. Pins: {', '.join(names) or 'none'}.")
    return matches[0]


def _split_source(source: str) -> tuple[str, str | None]:
    """Split a source into address and pin name; the text after the last @ is the name if it is a valid one."""
    repository, sign, name = source.rpartition("@")
    login = "://" in repository and "/" not in repository.partition("://")[2]  # https://ME:SECRET@HOST
    if Path(source).exists() or login or not (sign and repository):
        return source, None
    folder, _, last = name.rpartition("/")
    is_name = NAME.fullmatch(last) and (not folder or is_plain_path(folder)) and ":" not in folder
    return (repository, name) if is_name else (source, None)


def _fetch_pins(url: str, folder: Path, name: str | None) -> dict[str, list[_PinFile]]:
    """Fetch the newest commit of a repository; return pin -> its files, one for each distinct content.

    If the default branch lacks the pin, the pins of all branches and tags are fetched and listed.
    """
    address = str(Path(url).absolute()) if Path(url).exists() else url
    clone = ("clone", "--quiet", "--bare", "--depth", "1", "--", address, GIT_FOLDER)
    _run_fetch(*clone, folder=folder, url=url)
    at_head = _list_pins(folder, "HEAD", url)
    if at_head and (name is None or any(name in (pin, pin.rpartition("/")[2]) for pin in at_head)):
        return {pin: [file] for pin, file in at_head.items()}
    every = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    fetch = (f"--git-dir={GIT_FOLDER}", "fetch", "--quiet", "--depth", "1", "origin", *every)
    _run_fetch(*fetch, folder=folder, url=url)
    refs = _read_git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", folder=folder, url=url)
    pins: dict[str, dict[str, _PinFile]] = {pin: {file.blob: file} for pin, file in at_head.items()}
    for ref in refs.decode(errors="replace").split():
        for pin, file in _list_pins(folder, ref, url).items():
            pins.setdefault(pin, {}).setdefault(file.blob, file)
    return {pin: [*files.values()] for pin, files in sorted(pins.items())}


def _list_pins(folder: Path, revision: str, url: str) -> dict[str, _PinFile]:
    """Return name -> file of the pins of a revision.

    A pin in a subfolder with DVC's settings, which is a project, gets the subfolder as a prefix.
    """
    files = _list_blobs(folder, revision, url)
    pins = {}
    for path, blob in sorted(files.items()):
        parts = PurePosixPath(path)
        project = path.removesuffix(f"pins/{parts.name}")
        named = parts.parent.name == "pins" and parts.suffix == ".json" and NAME.fullmatch(parts.stem)
        if named and (not project or f"{project}.dvc/config" in files):
            pins[f"{project}{parts.stem}"] = _PinFile(revision, project, blob)
    return pins


def _list_blobs(folder: Path, revision: str, url: str) -> dict[str, str]:
    """Return path -> git's hash for the regular files of a revision; links are left out."""
    listed = _read_git("ls-tree", "-r", "-z", revision, folder=folder, url=url)
    lines = [line.partition("\t") for line in listed.decode(errors="replace").split("\0") if line]
    return {path: about.split()[2] for about, _, path in lines if about.startswith("100")}


def _read_git(*arguments: str, folder: Path, url: str) -> bytes:
    """Return git's output for the cloned repository in a folder."""
    return _require_success(run_git(f"--git-dir={GIT_FOLDER}", *arguments, folder=folder), url)


def _run_fetch(*arguments: str, folder: Path, url: str) -> bytes:
    """Run a fetching git command on the user's address with the user's own settings and login."""
    return _require_success(run_git(*arguments, folder=folder, protocols=PROTOCOLS), url)


def _require_success(done: subprocess.CompletedProcess[bytes], url: str) -> bytes:
    if done.returncode:
        message = redact_secrets(" ".join(done.stderr.decode(errors="replace").split()))[-300:]
        raise DataError(
            f"{redact_secrets(url)!r} is not a local caramel project, and git cannot fetch it: {message}"
        )
    return done.stdout
